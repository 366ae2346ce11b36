#!/bin/sh
# Liger-Kernel's own tests on Tigon's operators, on the CPU: run.sh BUILD LONG [PYTEST'S ARGUMENTS]
# LONG is 1 for all of them, 0 without those of long.txt.
# Prints passed, failed and skipped by file; BUILD/liger/tests.txt has every test. The last line is "N passed, N failed, N skipped".
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
long=$2
shift 2
sources=$(sh "$here/environment.sh" "$build")
log=$build/liger/tests.txt

# Tensors of a gigabyte come and go, and the system clears their memory page by page, half of all time, unless pages are large ones.
export THP_MEM_ALLOC_ENABLE=1
[ $# -gt 0 ] || set -- -n 2 test/ops test/transformers test/chunked_loss test/megatron test/cute/test_fused_linear_scaled_cross_entropy_tp.py
[ "$long" = 1 ] || set -- --left-out "$here/long.txt" "$@"
cd "$sources"
status=0
PYTHONPATH=$build/python:$sources/src OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error \
    ../venv/bin/python -m pytest -p tigon.liger.pytest -p no:cacheprovider --rootdir . -o addopts= -o log_cli=false -v --no-header \
    --tb=short -W ignore -rf --left-out "$here/left_out.txt" "$@" >"$log" 2>&1 || status=$?
sed -n "/ Liger-Kernel's tests on Tigon /,\$p" "$log"
[ $status -eq 0 ] || grep -E '^(FAILED|ERROR)|^E  ' "$log" || tail -40 "$log"
grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -1
exit $status
