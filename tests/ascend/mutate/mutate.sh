#!/bin/sh
# Forgets every call of the kernels that synchronises, one at a time, and demands that tigon check notices: in the cases of
# the family whose kernel it is, under the settings of the tests ascend.check.*. What nothing notices is printed, unless
# redundant.txt says why it stays.
#   mutate.sh TIGON FORGET.so FOLDER [OPERATOR...]     FOLDER: where results are kept; those that are there are not made again
set -eu
tigon=$1
forget=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$3"
folder=$(cd "$3" && pwd)
shift 3
[ $# -gt 0 ] || set -- swiglu geglu softmax embedding rms_norm fused_add_rms_norm cross_entropy
unset TIGON_IMPL TIGON_VERBOSE TIGON_ASCEND_SEED TIGON_SOC ASCEND_UB_CAPACITY_BITS
export TIGON_DEVICE=npu-model OMP_WAIT_POLICY=passive

# The settings, those that answer soonest first: a name, bits of UB if not the chip's, options of check.
settings="quick::--quick full:: half:786432: quarter:393216:"
check() { # SETTING OPERATOR: to stdout
    bits=${1#*:}
    options=${bits#*:}
    bits=${bits%%:*}
    [ -z "$bits" ] || export ASCEND_UB_CAPACITY_BITS="$bits"
    LD_PRELOAD=$forget stdbuf -oL "$tigon" check --strict $options "$2" 2>/dev/null
}
fails() { # SETTING OPERATOR; the first case that does ends it
    { check "$1" "$2" || echo FAILED; } | grep -q -m 1 FAILED
}
one() { # OPERATOR CALL: "found BY" or "survives"
    for setting in $settings; do
        if (MUTATE_FORGET=$2 && export MUTATE_FORGET && fails "$setting" "$1"); then echo "found ${setting%%:*}"; return; fi
    done
    echo survives
}

left=0
for operator; do
    calls=$folder/$operator.calls
    if ! [ -s "$calls" ]; then
        rm -f "$folder/list"
        for setting in $settings; do
            (MUTATE_LIST=$folder/list && export MUTATE_LIST && check "$setting" "$operator" >"$folder/output") || {
                grep FAILED "$folder/output"; echo "mutate: $operator fails with every call made"; exit 1; }
        done
        sort -u "$folder/list" >"$calls"
    fi
    answers=$folder/$operator.answers
    touch "$answers"
    while read -r call; do
        grep -q "^$call " "$answers" || echo "$call $(one "$operator" "$call")" >>"$answers"
    done <"$calls"
    for call in $(sed -n 's/ survives$//p' "$answers"); do
        grep -q "^$operator ${call} " "$here/redundant.txt" && continue
        echo "$operator: nothing notices that $call is missing"
        left=$((left + 1))
    done
    echo "$operator: $(wc -l <"$calls") calls, $(grep -c ' found ' "$answers") noticed"
done
rm -f "$folder/output" "$folder/list"
exit $((left > 0))
