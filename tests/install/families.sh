#!/bin/sh
# A library of a few operators alone: theirs and those that they call work, another one is refused in words.
#   families.sh SOURCE C_COMPILER CMAKE OPTION...
set -eu
source=$1
compiler=$2
cmake=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make() { CC=$compiler "$cmake" -S "$source" -B "$work" -DTIGON_TESTS=OFF -DTIGON_ASCEND=OFF "$@" >"$work/log" 2>&1; }
make "$@" "-DTIGON_ONLY_FAMILIES=rms_norm;fused_linear_cross_entropy" || { cat "$work/log"; exit 1; }
"$cmake" --build "$work" --target tigon_command -j "$(nproc)" >"$work/log" 2>&1 || { grep -B2 -A5 error "$work/log"; exit 1; }
"$work/tigon" check --quick --strict rms_norm fused_linear_cross_entropy
"$work/tigon" list >"$work/list"
grep -q cpu/cross_entropy_forward "$work/list" # what the loss of the last layer calls
if grep -E "(cpu|ref)/swiglu_forward" "$work/list"; then exit 1; fi
if make -DTIGON_ONLY_FAMILIES=rms_norms; then exit 1; fi
tr -s " \n" " " <"$work/log" | grep -q "there is no family rms_norms; there are gemm"
