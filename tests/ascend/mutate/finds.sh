#!/bin/sh
# forget.c does forget: the check of a family passes with every call, and notices nearly all that are left out of its small cases.
#   finds.sh TIGON FORGET.so FOLDER
set -eu
tigon=$1
folder=$3
unset ASCEND_UB_CAPACITY_BITS TIGON_SOC TIGON_ASCEND_SEED
export LD_PRELOAD="$2" TIGON_DEVICE=npu-model OMP_NUM_THREADS=1
rm -f "$folder/answers"
MUTATE_ALL=$folder/answers "$tigon" check --threads 1 --strict --quick swiglu >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
calls=$(wc -l <"$folder/answers")
[ "$calls" -gt 30 ] && [ "$(grep -c ' noticed$' "$folder/answers")" -gt 30 ] || { cat "$folder/answers"; exit 1; }
call=$(sed -n 's/^\(swiglu_limited.h:.*\) noticed$/\1/p' "$folder/answers" | head -1)
if MUTATE_FORGET=$call "$tigon" check --strict --quick swiglu >"$folder/output" 2>&1; then
    echo "nothing fails without $call by itself"
    exit 1
fi
grep -q 'FAILED.*npu-model: ' "$folder/output" || { cat "$folder/output"; exit 1; }
echo "$calls calls forgotten in turn"
