#!/bin/sh
# tigon check on a card without one: tensors are copied there and back by the rules of the run time, and what comes back is compared.
# The stand-in runs no kernel, so every value is wrong; but for products by CANN's own library, which its stand-in does multiply.
#   check.sh RECORD TIGON_COMMAND LIBTIGON FOLDER_OF_THE_STAND_IN FOLDER_OF_THE_ONE_FOR_PRODUCTS
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STAND_IN_RECORD="$1"
rm -f "$1"
# The library looks for the kernels' file beside itself.
cp "$4/libascendcl.so" "$4"/tigon_ascend_*kernels.o "$work"
soname=$(readelf -d "$3" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
ln -s "$3" "$work/$soname"
export LD_LIBRARY_PATH="$work" TIGON_DEVICE=npu
if "$2" check --quick swiglu_forward rms_norm_backward >"$work/out" 2>&1; then
    echo "kernels that do not run give right results"
    exit 1
fi
tail -1 "$work/out"
for operator in swiglu_forward rms_norm_backward; do
    grep -q "^FAILED ascend/$operator .* is .*, expected " "$work/out" || { cat "$work/out"; exit 1; }
done
LD_LIBRARY_PATH="$work:$5" "$2" check --quick --types f32,bf16 ascend/gemm.aclnn >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
tail -1 "$work/out"
grep -q VIOLATION "$1" && { grep VIOLATION "$1"; exit 1; }
grep -q '^end, 0 violations$' "$1"
