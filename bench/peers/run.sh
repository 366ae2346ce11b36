#!/bin/sh
# Tigon beside PyTorch 2.13, eager and compiled, and oneDNN's own primitives: a page of ratios and a chart, from a file of measurements.
#   sh bench/peers/run.sh [--ops A,B] [--sizes small,medium,large] [--dtypes f32,bf16] [--modes forward,backward,full]
#                         [--quick] [--out DIR]
# Builds Tigon into build/, and installs PyTorch into build/peers/venv unless TIGON_PEERS_PYTHON names a Python that has it.
set -eu
cd "$(dirname "$0")/../.."
fail() {
    echo "$1" >&2
    exit 1
}
command -v "${CXX:-g++}" >/dev/null || fail "torch.compile needs a C++ compiler (Debian: apt-get install g++)"
python=${TIGON_PEERS_PYTHON:-build/peers/venv/bin/python}
if [ -n "${TIGON_PEERS_PYTHON:-}" ]; then
    "$python" -c 'import torch' 2>/dev/null || fail "TIGON_PEERS_PYTHON: $python cannot import torch"
elif ! "$python" -c 'import torch, numpy' 2>/dev/null; then
    echo "installing PyTorch into build/peers/venv"
    mkdir -p build/peers
    python3 -m venv build/peers/venv || fail "python3 -m venv fails (Debian: apt-get install python3-venv)"
    build/peers/venv/bin/pip install --quiet torch==2.13.0 numpy || fail "PyTorch 2.13.0 cannot be installed here"
fi
cmake --preset release >/dev/null
cmake --build --preset release --target tigon_shared --target tigon_command
cmake --build --preset release --target peers_onednn 2>/dev/null || echo "oneDNN's own primitives are left out: not version 2, or not there"
exec "$python" -B bench/peers/peers.py "$@"
