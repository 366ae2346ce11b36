#!/bin/sh
# Conformance checked: the plug-in `planted`, which is the library's own implementations, passes tigon check --strict; with a fault of
# one line in it, it does not, and the summary names the kind of the fault.
#   planted.sh TIGON PLUGIN
set -u
tigon=$1
plugin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() {
    echo "$1"
    failed=1
}

"$tigon" check --backend "$plugin" --strict rms_norm_forward >"$work/right" 2>&1 || {
    cat "$work/right"
    complain "the right plug-in is refused"
}
grep -qE '^    kinds tried and passed: sizes [0-9]+, options [0-9]+, types [0-9]+, range [0-9]+, accuracy [0-9]+, memory [0-9]+, state [0-9]+, threads [0-9]+, process [0-9]+$' \
    "$work/right" || complain "the summary does not name the kinds"

PLANTED=list "$tigon" check --backend "$plugin" --list rms_norm_forward | grep -E '^[a-z0-9_]+ [a-z]+ [a-z0-9_]+ [a-z0-9]+$' >"$work/faults"
[ "$(wc -l <"$work/faults")" -ge 50 ] || complain "faults are missing"
while read -r fault kind op type; do
    quick=--quick
    [ "$kind" = sizes ] && quick=
    PLANTED=$fault timeout 120 "$tigon" check --backend "$plugin" --strict $quick --types "$type" "$op" >"$work/$fault" 2>&1 </dev/null
    status=$?
    [ $status -eq 1 ] || complain "$fault: the exit status is $status, expected 1"
    grep -qE "^    kinds that FAILED: .*\\b$kind [0-9]+ of " "$work/$fault" || {
        complain "$fault: the summary does not name $kind:"
        tail -5 "$work/$fault"
    }
done <"$work/faults"
exit $failed
