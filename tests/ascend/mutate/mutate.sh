#!/bin/sh
# Forgets every call of the kernels that synchronises, one at a time (forget.c), and demands that tigon check notices, under one of the
# settings of the tests ascend.check.*. What nothing notices is printed: a case is missing, or the call is not needed; unless its line
# has a comment "unnoticed:" that says why it stays.
#   mutate.sh TIGON FORGET.so FOLDER [OPERATOR...]     FOLDER: for its notes
set -eu
tigon=$1
forget=$2
mkdir -p "$3"
answers=$(cd "$3" && pwd)/answers
shift 3
source=$(cd "$(dirname "$0")/../../.." && pwd)
[ $# -gt 0 ] || set -- $(sh "$source/tests/ascend/operators.sh" "$source")
unset TIGON_IMPL TIGON_VERBOSE TIGON_ASCEND_SEED TIGON_SOC ASCEND_UB_CAPACITY_BITS
export TIGON_DEVICE=npu-model OMP_NUM_THREADS=1
rm -f "$answers"
for bits in "" 786432 393216; do
    [ -z "$bits" ] || export ASCEND_UB_CAPACITY_BITS=$bits
    for operator; do
        LD_PRELOAD=$forget MUTATE_ALL=$answers "$tigon" check --threads 1 --strict "$operator" >"$answers.log" 2>&1 || {
            grep FAILED "$answers.log"; echo "mutate: $operator fails with every call made"; exit 1; }
    done
done
all=$(cut -d ' ' -f 1 "$answers" | sort -u | wc -l)
kernels=$source/backends/ascend/kernels
left=$(sort -u "$answers" | awk '{ said[$1] = said[$1] " " $2 } END { for (call in said) if (said[call] == " unnoticed") print call }' | sort |
    while IFS=: read -r file line call; do
        sed -n "${line}p" "$kernels"/*/"$file" | grep -q unnoticed: || echo "$file:$line:$call"
    done)
[ -z "$left" ] || echo "$left" | sed 's/^/nothing notices that this call is missing: /'
echo "$all calls forgotten, $(echo "$left" | grep -c : || true) of them unnoticed"
[ -z "$left" ]
