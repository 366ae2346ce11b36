#!/bin/sh
# A wheel is made, installed into an empty environment, and checks itself there, away from the tree.
#   wheel.sh SOURCE_DIR PYTHON
# Other releases of CPython that are here take the same files; PYTHONS names more of them than PATH has.
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
"$python" -m zipfile -e "$work"/dist/tigon-*.whl "$work/files"
for other in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 ${PYTHONS:-}; do
    "$other" -c "" 2>/dev/null || continue
    echo "$other: $(env PYTHONPATH="$work/files" "$other" -S -c 'import tigon; tigon.check()' | tail -n 1)"
done
