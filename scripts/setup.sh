#!/bin/sh
# Installs what is missing to build Tigon. Silent and quick when everything is there.
#   scripts/setup.sh          to build and run
#   scripts/setup.sh test     and to run the tests, with those of the Python package
#   scripts/setup.sh python   and to build the Python package, by pip install . or make wheel
#   scripts/setup.sh clang    and to build with Clang, the command that CLANG names
#   scripts/setup.sh aarch64  and to cross-build for aarch64 and run that under QEMU
# On Debian and Ubuntu it uses apt-get, as root or through sudo, and says what it installs;
# elsewhere it says what is missing and stops.
set -eu

packages=
names=

# need NAME PACKAGES COMMAND...: the packages are wanted if the command fails.
need() {
    name=$1
    wanted=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        packages="$packages $wanted"
        names="$names${names:+, }$name"
    fi
}

compiles() { # LANGUAGE FLAGS: does the program on stdin compile and link?
    "$1" -x "$2" $3 - -o /dev/null
}
c_compiler() { printf '#include <math.h>\nint main(void) { return 0; }\n' | compiles "${CC:-cc}" c "-fopenmp -lm"; }
aarch64_compiler() { printf '#include <math.h>\nint main(void) { return 0; }\n' | compiles aarch64-linux-gnu-gcc c "-fopenmp -lm"; }
clang_compiler() { printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' | compiles "${CLANG:-clang}" c "-fopenmp"; }
cxx_compiler() { printf '#include <vector>\nint main() { return 0; }\n' | compiles "${CXX:-c++}" c++ ""; }
onednn() {
    # Another oneDNN may be named to CMake: dnnl_DIR or CMAKE_PREFIX_PATH.
    [ -n "${dnnl_DIR:-}${dnnl_ROOT:-}${CMAKE_PREFIX_PATH:-}" ] ||
        printf '#include <oneapi/dnnl/dnnl.h>\nint main(void) { return 0; }\n' | compiles "${CC:-cc}" c "-ldnnl"
}
mpi() { command -v mpicc && command -v mpirun; }
blas() { ldconfig -p | grep -q "libopenblas.so.0"; }
libffi() { printf '#include <ffi.h>\nint main(void) { return 0; }\n' | compiles "${CC:-cc}" c "-lffi"; }
cjson() { printf '#include <cjson/cJSON.h>\nint main(void) { return 0; }\n' | compiles "${CC:-cc}" c "-lcjson"; }
python_headers() { python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'; }
cmake_322() {
    version=$(cmake --version | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    set -- $version
    [ $# -eq 2 ] || return 1
    [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 22 ]; }
}

need "a C compiler with OpenMP" "gcc libc6-dev" c_compiler
need "make" "make" command -v make
need "CMake 3.22 or newer" "cmake" cmake_322
need "oneDNN" "libdnnl-dev gcc libc6-dev" onednn
need "libffi" "libffi-dev gcc libc6-dev" libffi
need "cJSON" "libcjson-dev gcc libc6-dev" cjson
if [ "${1:-}" = test ]; then
    need "a C++ compiler" "g++" cxx_compiler
    need "pkg-config" "pkg-config" command -v pkg-config
    need "clang-format" "clang-format" command -v clang-format
    need "mandoc" "mandoc" command -v mandoc
    need "ccache" "ccache" command -v ccache
    need "a BLAS" "libopenblas0-pthread" blas
    need "MPI" "libopenmpi-dev openmpi-bin" mpi
fi
if [ "${1:-}" = test ] || [ "${1:-}" = python ]; then
    need "Python 3" "python3" command -v python3
    need "Python's headers" "python3-dev" python_headers
    need "Python's venv and pip" "python3-venv" python3 -c 'import ensurepip, venv'
fi
if [ "${1:-}" = clang ]; then
    clang=${CLANG:-clang} # of a version's own packages: clang-19, libomp-19-dev
    need "Clang with OpenMP" "$clang libomp${clang#clang}-dev" clang_compiler
fi
if [ "${1:-}" = aarch64 ]; then
    need "a C compiler for aarch64" "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" aarch64_compiler
    need "QEMU's user emulation" "qemu-user" command -v qemu-aarch64
fi
[ -n "$packages" ] || exit 0
packages=$(printf '%s\n' $packages | sort -u | tr '\n' ' ')
packages=${packages% }

echo "missing: $names"
if ! command -v apt-get >/dev/null; then
    echo "This is not Debian or Ubuntu: please install them yourself. Debian's packages are called: $packages" >&2
    exit 1
fi
root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "please run as root: apt-get install --no-install-recommends $packages" >&2
        exit 1
    fi
    root=sudo
fi
echo "installing with apt-get: $packages"
$root apt-get update -qq
$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null

if ! cmake_322; then
    echo "apt-get's CMake is too old: 3.22 or newer is needed" >&2
    exit 1
fi
