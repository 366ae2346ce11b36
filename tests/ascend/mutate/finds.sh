#!/bin/sh
# forget.c does forget: the calls of a family are listed, without one of them the check fails, and with all of them it passes.
#   finds.sh TIGON FORGET.so FOLDER
set -eu
tigon=$1
export LD_PRELOAD="$2" TIGON_DEVICE=npu-model MUTATE_LIST="$3/calls"
rm -f "$3/calls"
"$tigon" check --strict --quick swiglu >"$3/output" || { cat "$3/output"; exit 1; }
unset MUTATE_LIST
calls=$(sort -u "$3/calls")
for kind in asc_sync_pipe:V:V asc_sync_notify:MTE2:V asc_sync_wait:MTE3:V; do
    call=$(echo "$calls" | grep -m 1 "^swiglu.asc.*:$kind\$")
    if MUTATE_FORGET=$call "$tigon" check --strict --quick swiglu_forward swiglu_backward >"$3/output" 2>&1; then
        echo "nothing notices that $call is missing"
        exit 1
    fi
    grep -q 'FAILED.*npu-model: ' "$3/output" || { cat "$3/output"; exit 1; }
done
echo "$(echo "$calls" | wc -l) calls, three of them forgotten and missed"
