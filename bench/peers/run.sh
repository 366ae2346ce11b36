#!/bin/sh
# Tigon beside PyTorch 2.13, eager and compiled, and oneDNN's own primitives: a page of ratios and a chart, from a file of measurements.
#   sh bench/peers/run.sh [--ops A,B] [--sizes small,medium,large] [--dtypes f32,bf16] [--modes forward,backward,full]
#                         [--threads N] [--clock wall,process] [--quick] [--out DIR]
# Builds Tigon into build/, and installs PyTorch into build/peers/venv unless TIGON_PEERS_PYTHON names a Python that has it.
set -eu
cd "$(dirname "$0")/../.."
fail() {
    echo "$1" >&2
    exit 1
}
command -v "${CXX:-g++}" >/dev/null || fail "torch.compile needs a C++ compiler (Debian: apt-get install g++)"
python=$(sh scripts/torch_python.sh)
cmake --preset release >/dev/null
cmake --build --preset release --target tigon_python_package --target tigon_command
cmake --build --preset release --target peers_onednn 2>/dev/null || echo "oneDNN's own primitives are left out: not version 2, or not there"
exec "$python" -B bench/peers/peers.py "$@"
