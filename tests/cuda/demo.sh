#!/bin/sh
# What `make demo` says about a GPU, and whether it builds the backend: without a GPU nothing,
# without nvcc that it is missing, with both how to use it. The GPU, CMake and the trainer are made
# up.
#   demo.sh SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/build"
cd "$work"
program() { # PATH STATUS
    printf '#!/bin/sh\necho "$0" "$@" >>%s/ran\nexit %s\n' "$work" "$2" >"$1"
    chmod +x "$1"
}
says() { # TEXT: a part of the output, "" for none at all
    PATH="$work/bin:$PATH" sh "$source/scripts/card.sh" 2 >out 2>&1
    case $1 in
    "") [ ! -s out ] ;;
    *) grep -q -e "$1" out ;;
    esac || { cat out; echo "expected: '$1'"; exit 1; }
}
program bin/nvidia-smi 1
program bin/cmake 0
program build/llama 0
echo "TIGON_NVCC:FILEPATH=TIGON_NVCC-NOTFOUND" >build/CMakeCache.txt
says ""
program bin/nvidia-smi 0
says "no nvcc"
if grep cmake ran; then
    echo "it is built without nvcc"
    exit 1
fi
echo "TIGON_NVCC:FILEPATH=/usr/local/cuda/bin/nvcc" >build/CMakeCache.txt
says "llama --device cuda"
grep -q "cmake .*--target tigon_cuda" ran
program build/llama 1
says "backend is built"
if grep "trains on the GPU" out; then
    echo "it is said to train where it does not"
    exit 1
fi
