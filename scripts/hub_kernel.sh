#!/bin/sh
# Makes a kernel in the layout of Hugging Face's `kernels`: FOLDER/build/<variant>/.
#   scripts/hub_kernel.sh [FOLDER [CMAKE'S OPTIONS...]]      FOLDER: build/hub-kernel/tigon
# The extension has libtigon and oneDNN inside (scripts/onednn.sh; ONEDNN=<folder> names one that has
# lib/libdnnl.a; ONEDNN=system takes the system's, for a kernel that stays on this machine). CUDA=1
# adds the variant for NVIDIA GPUs. glibc's oldest version that will do is printed. JOBS: compilers
# at once.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/hub-kernel/tigon}
[ $# -eq 0 ] || shift
python=${PYTHON:-python3}
jobs=${JOBS:-2}
build=build/hub-kernel/cmake
onednn=${ONEDNN:-build/hub-kernel/onednn}
if [ "$onednn" != system ]; then
    [ -n "${ONEDNN:-}" ] || sh scripts/onednn.sh "$onednn"
    onednn=$(cd "$onednn" && pwd)
    set -- "$@" -DTIGON_ONEDNN_INCLUDE="$onednn/include" -DTIGON_ONEDNN_LIBRARY="$onednn/lib/libdnnl.a"
fi
mkdir -p "$folder"
[ ! -x build/ccache.sh ] || set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER="$PWD/build/ccache.sh"
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DTIGON_PYTHON_STATIC=ON -DTIGON_TESTS=OFF \
    -DTIGON_ASCEND_MODEL=OFF -DTIGON_CUDA="$([ -n "${CUDA:-}" ] && echo ON || echo OFF)" "$@" >"$build.log" 2>&1 ||
    { tail -n 20 "$build.log" >&2; exit 1; }
cmake --build "$build" --parallel "$jobs" --target tigon_python ${CUDA:+tigon_cuda} >>"$build.log" 2>&1 ||
    { tail -n 40 "$build.log" >&2; exit 1; }
extension=$build/python/tigon/_core.abi3.so
"$python" -B bindings/python/hub/write.py "$extension" "$folder"
[ -z "${CUDA:-}" ] || "$python" -B bindings/python/hub/write.py "$extension" "$folder" "$build/libtigon_cuda.so"
echo "needs $(objdump -T "$extension" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | tr _ ' ') or newer;" \
    "libraries: $(objdump -p "$extension" | sed -n 's/.*NEEDED *//p' | tr '\n' ' ')"
