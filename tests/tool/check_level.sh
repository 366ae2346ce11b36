#!/bin/sh
# `tigon check` under a ceiling of the processor's levels; skipped on a machine that has less.
#   check_level.sh TIGON LEVEL [OPTIONS]
set -eu
machine=$(TIGON_CPU_MAX= "$1" info --json | sed -n 's/.*"cpu_level": "\([^"]*\)".*/\1/p')
rank() {
    case $1 in base) echo 0 ;; neon) echo 1 ;; v2) echo 2 ;; v3) echo 3 ;; v4) echo 4 ;; v4bf16) echo 5 ;; *) echo 9 ;; esac
}
if [ "$(rank "$2")" -gt "$(rank "$machine")" ]; then
    echo "this machine's level is $machine"
    exit 77
fi
if [ "$2" = "$machine" ]; then
    echo "this machine's level: the test check runs all cases here"
    exit 77
fi
tigon=$1
shift 2
exec "$tigon" check --strict "$@"
