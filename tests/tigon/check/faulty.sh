#!/bin/sh
# The checker checked: every implementation of the plug-in `faulty` is wrong in its own way and must be reported, except those called
# "right", which must pass.
#   faulty.sh TIGON PLUGIN
set -u
table=$("$1" check --backend "$2")
status=$?
echo "$table" | grep -E '^  faulty/'
failed=0
complain() {
    echo "$1"
    failed=1
}
[ "$status" -eq 1 ] || complain "the exit status is $status, expected 1"
echo "$table" | tail -1 | grep -qE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' || complain "the last line is not the totals"
missed=$(echo "$table" | grep -E '^  faulty/' | grep -vE '/[a-z_]+\.right ' | grep -v DISAGREES)
[ -z "$missed" ] || complain "not detected: $missed"
accused=$(echo "$table" | grep -E '^  faulty/[a-z_]+\.right ' | grep -v ' agrees ')
[ -z "$accused" ] || complain "wrongly accused: $accused"
[ "$(echo "$table" | grep -cE '^  faulty/')" -ge 39 ] || complain "implementations are missing"
exit $failed
