#!/bin/sh
# Runs all tests of a build folder. The last line is CTest's summary, "100% tests passed, 0 tests
# failed out of N".
#   scripts/test.sh BUILD [JOBS] [ctest's arguments]
set -u
for name in $(env | sed -n 's/^\(TIGON_[A-Z0-9_]*\)=.*/\1/p'); do
    unset "$name" # the tests set what they need
done
build=$1
jobs=${2:-2}
shift $(($# < 2 ? 1 : 2))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(ctest --test-dir "$build" --output-on-failure -j "$jobs" "$@"; echo $? >"$log.status") | tee "$log"
status=$(cat "$log.status")
rm -f "$log.status"
# Tests that run CTest themselves print such lines as well: the last one is ours.
grep -E '^[0-9]+% tests passed' "$log" | tail -1 | grep . || echo "0% tests passed: no test ran"
exit "$status"
