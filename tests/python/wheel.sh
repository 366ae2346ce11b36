#!/bin/sh
# A wheel is made, installed into an empty environment, and checks itself there, away from the tree.
#   wheel.sh SOURCE_DIR PYTHON
# (Without the kernels for GPUs and the model of an NPU, which take minutes; `make wheel` has both.)
set -eu
source=$1
python=$2
"$python" -m pip download --quiet --no-deps --dest "$(mktemp -d)" wheel >/dev/null 2>&1 || {
    echo "skipped: no packages can be installed here"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHON=$python sh "$source/scripts/wheel.sh" "$work/dist" -C cmake.define.TIGON_NVCC=OFF -C cmake.define.TIGON_ASCEND_MODEL=OFF
ls "$work"/dist/tigon-*-cp39-abi3-manylinux*.whl >/dev/null
"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install --quiet --disable-pip-version-check --no-index "$work"/dist/tigon-*.whl
cd /
env -u PYTHONPATH "$work/empty/bin/python" -c 'import tigon; tigon.check()'
