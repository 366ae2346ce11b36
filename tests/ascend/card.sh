#!/bin/sh
# Runs the program; then the record must not tell of a broken rule.
#   card.sh RECORD PROGRAM ARGUMENTS...
set -eu
export STAND_IN_RECORD=$1
shift
rm -f "$STAND_IN_RECORD"
"$@"
if grep VIOLATION "$STAND_IN_RECORD"; then
    exit 1
fi
grep -q '^end, 0 violations$' "$STAND_IN_RECORD"
