#!/bin/sh
# The kernels that README.md shows: each compiles with the flags that the command prints, passes
# ascsim lint and runs without a fault.
#   readme.sh ASCSIM README.md COMPILER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    echo '#include "c_api/asc_simd.h"'
    sed -n '/^```c$/,/^```$/p' "$2" | grep -v '^```' | grep -v '^#include'
} >"$work/kernels.c"
"$3" $("$1" flags compile) -c "$work/kernels.c" -o "$work/kernels.o"
"$3" "$work/kernels.o" $("$1" flags link) -o "$work/kernels.so"
CC=$3 "$1" lint "$work/kernels.c"
"$1" run --soc 910B4 --kernel twice --blocks 1 --arg 'f32[1000]=ramp' --arg 'f32[1000]=none,print=3' --arg u32:1000 "$work/kernels.so" |
    grep ': 0 2 4 \.\.\.'
"$1" run --soc 910B4 --kernel product --blocks 1 --arg 'f16[4096]=1' --arg 'f16[4096]=2' --arg 'f32[4096]=none,print=3' "$work/kernels.so" |
    grep ': 128 128 128 \.\.\.'
