#!/bin/sh
# Liger-Kernel's own tests, of a release of theirs, on Tigon's operators and the CPU: run.sh BUILD [PYTEST'S ARGUMENTS]
# The environment and the release's sources are made in BUILD/liger once. The last line is "N passed, N failed, N skipped".
set -eu

version=0.8.5
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
work=$build/liger
mkdir -p "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1

if ! cmp -s "$here/requirements.txt" "$work/requirements.txt"; then
    rm -rf "$work/venv" "$work/requirements.txt"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -q -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$work/requirements.txt"
fi
sources=$work/liger_kernel-$version
if [ ! -d "$sources" ]; then
    "$work/venv/bin/pip" download -q -d "$work" --no-deps --no-build-isolation --no-binary :all: "liger-kernel==$version"
    tar -xf "$work/liger_kernel-$version.tar.gz" -C "$work"
fi

# Some tests of a million tokens by tens of thousands of classes take seconds each: a worker for each of two cores.
[ $# -gt 0 ] || set -- -n 2 test/ops test/transformers
cd "$sources"
status=0
PYTHONPATH=$build/python:$sources/src OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error \
    "$work/venv/bin/python" -m pytest -p tigon.liger.pytest -p no:cacheprovider --rootdir . -o addopts= -o log_cli=false -v --no-header \
    --tb=short -W ignore -rf --left-out "$here/left_out.txt" "$@" >"$work/tests.txt" 2>&1 || status=$?
sed -n "/ Liger-Kernel's tests on Tigon /,\$p" "$work/tests.txt"
[ $status -eq 0 ] || grep -E '^(FAILED|ERROR)|^E  ' "$work/tests.txt" || tail -40 "$work/tests.txt"
grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$work/tests.txt" | tail -1
exit $status
