#!/bin/sh
# A wheel is made, installed into an empty environment, and checks itself there, away from the tree.
#   wheel.sh SOURCE_DIR PYTHON
# (With kernels for one level of x86-64, and without the model of an NPU, which takes minutes; `make wheel` has all.)
set -eu
source=$1
python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$work" scikit-build-core auditwheel >/dev/null 2>&1 || {
    echo "skipped: packages cannot be fetched here"
    exit 77
}
levels=
[ "$(uname -m)" != x86_64 ] || levels="-C cmake.define.TIGON_ONLY_LEVELS=v2"
PYTHON=$python sh "$source/scripts/wheel.sh" "$work/dist" -C build-dir=build/wheel/test \
    -C cmake.define.TIGON_ASCEND_MODEL=OFF $levels
ls "$work"/dist/tigon-*-cp39-abi3-manylinux*.whl >/dev/null
"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install --quiet --disable-pip-version-check --no-index "$work"/dist/tigon-*.whl
if "$work/empty/bin/python" -m zipfile -l "$work"/dist/tigon-*.whl | grep libtigon_cuda; then
    echo "the wheel has the library for NVIDIA GPUs, which nobody asked for"
    exit 1
fi
cd /
env -u PYTHONPATH "$work/empty/bin/python" -c 'import tigon; tigon.check()'
