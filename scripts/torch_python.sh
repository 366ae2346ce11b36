#!/bin/sh
# Prints a Python that has PyTorch 2.13, NumPy and the packages named: TIGON_PEERS_PYTHON if that is
# set, else one in build/peers/venv, into which they are installed.
#   scripts/torch_python.sh [PACKAGE...]      packages whose module has the same name
set -eu
cd "$(dirname "$0")/.."
fail() {
    echo "$1" >&2
    exit 1
}
python=${TIGON_PEERS_PYTHON:-$PWD/build/peers/venv/bin/python}
imports=$(printf 'import torch, numpy'; [ $# -eq 0 ] || printf ', %s' "$@")
if [ -n "${TIGON_PEERS_PYTHON:-}" ]; then
    "$python" -c "$imports" 2>/dev/null || fail "TIGON_PEERS_PYTHON: $python cannot do: $imports"
elif ! "$python" -c "$imports" 2>/dev/null; then
    echo "installing PyTorch into build/peers/venv" >&2
    mkdir -p build/peers
    python3 -m venv build/peers/venv || fail "python3 -m venv fails (Debian: apt-get install python3-venv)"
    "$python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy "$@" >&2 ||
        fail "PyTorch 2.13.0 cannot be installed here"
fi
echo "$python"
