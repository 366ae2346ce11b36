#!/bin/sh
# A wrong or missing argument of a kernel does not compile, neither in a launch nor in the kernel, and no kernel is launched with another
# one's list; the message says which.
#   arguments.sh COMPILER SOURCE_DIR
set -eu
compiler=$1
source=$2
here=$source/tests/rules/arguments
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # FILE MACRO
    "$compiler" -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter -Wno-psabi -D"$2" -I"$source/include" \
        -I"$source/sim/include" -I"$source/backends/ascend" -I"$source/backends/ascend/kernels" "$here/$1" >"$work/said" 2>&1
}
refused() { # FILE MACRO TEXT
    if compile "$1" "$2"; then
        echo "$1 compiles with the mistake $2"
        exit 1
    fi
    grep -qE "error: .*$3" "$work/said" || { echo "$1, $2: no error with \"$3\":"; cat "$work/said"; exit 1; }
}
for file in host.c family.c kernel.c; do
    compile $file NOTHING || { echo "$file does not compile without a mistake:"; cat "$work/said"; exit 1; }
done
refused host.c MISSING "swiglu_forward_kernel: not as many arguments are given as its list asks for"
refused host.c ONE_MORE "swiglu_forward_kernel: not as many arguments are given as its list asks for"
refused host.c TWICE "initialized field overwritten|overrid"
refused host.c OTHER_NAME "no member named .multiplier.|does not refer to any field"
refused host.c TENSOR_FOR_NUMBER "incompatible type"
refused host.c NUMBER_FOR_TENSOR "incompatible type"
refused host.c OTHER_BUFFER "no member named .gate16."
refused family.c OTHER_LIST "softmax_forward_wide: its list does not ask for what kernels of softmax_forward are given"
refused family.c OTHER_KIND "turned: its list does not ask for what kernels of softmax_forward are given"
refused family.c OTHER_ORDER "turned: its list does not ask for what kernels of softmax_forward are given"
refused family.c OTHER_FAMILY "pointer type mismatch"
refused family.c OTHER_KERNEL "incompatible type|incompatible pointer type"
refused family.c MISSING "chosen: not as many arguments are given as its list asks for"
refused kernel.c OTHER_NAME "multiplier_of_gate. undeclared|undeclared identifier"
refused kernel.c TENSOR_FOR_NUMBER "pointer to integer|makes integer from pointer|incompatible pointer to integer"
refused kernel.c OTHER_BUFFER "gate16_at. undeclared|undeclared identifier"
echo "a launch and a kernel compile, and with any of sixteen mistakes they do not"
