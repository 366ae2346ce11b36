#!/bin/sh
# Builds oneDNN as a static library with what gemm needs of it, once.
#   scripts/onednn.sh FOLDER      FOLDER: where lib/libdnnl.a and include/ go
# The source is Debian's package (apt-get source onednn, by a list of sources of its own), or the
# folder that ONEDNN_SOURCE names. JOBS: how many compilers run at once.
set -eu
prefix=$(mkdir -p "$1" && cd "$1" && pwd)
[ ! -e "$prefix/lib/libdnnl.a" ] || exit 0
source=${ONEDNN_SOURCE:-}
if [ -z "$source" ]; then
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mkdir -p "$prefix/apt/lists/partial" "$prefix/source"
    echo "deb-src http://deb.debian.org/debian $release main" >"$prefix/apt/sources.list"
    apt="apt-get -q -o Dir::Etc::SourceList=$prefix/apt/sources.list -o Dir::Etc::SourceParts=/dev/null
         -o Dir::State::Lists=$prefix/apt/lists"
    (cd "$prefix/source" && $apt update && $apt source --download-only onednn && dpkg-source -x --no-check onednn_*.dsc unpacked) \
        >"$prefix/source.log" 2>&1 || {
        echo "the source of oneDNN cannot be fetched ($prefix/source.log); ONEDNN_SOURCE=<folder> names one that is here" >&2
        exit 1
    }
    source=$prefix/source/unpacked
fi
# Names are of both generations: DNNL_ of 2.6, ONEDNN_ since 3.0.
set --
for prefixed in DNNL ONEDNN; do
    set -- "$@" -D${prefixed}_LIBRARY_TYPE=STATIC -D${prefixed}_BUILD_EXAMPLES=OFF -D${prefixed}_BUILD_TESTS=OFF \
        -D${prefixed}_CPU_RUNTIME=OMP -D${prefixed}_GPU_RUNTIME=NONE -D${prefixed}_BUILD_GRAPH=OFF -D${prefixed}_BUILD_DOC=OFF \
        "-D${prefixed}_ENABLE_PRIMITIVE=MATMUL;REORDER" -D${prefixed}_ENABLE_JIT_PROFILING=OFF
done
cmake -S "$source" -B "$prefix/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_C_VISIBILITY_PRESET=hidden \
    -DDNNL_EXPERIMENTAL=OFF "$@" >"$prefix/configure.log"
cmake --build "$prefix/build" --target install --parallel "${JOBS:-2}" >"$prefix/build.log"
