#!/bin/sh
# For `make demo`: where an NVIDIA GPU is, and nvcc, builds the backend for it and says how to train
# there. Elsewhere nothing happens.
#   scripts/card.sh JOBS
set -eu
nvidia-smi -L >/dev/null 2>&1 || exit 0
nvcc=$(sed -n 's/^TIGON_NVCC:[A-Z]*=//p' build/CMakeCache.txt)
case $nvcc in
"" | *NOTFOUND)
    echo "An NVIDIA GPU is here, but no nvcc, which builds the backend for it (docs/cuda.md)."
    exit 0
    ;;
esac
echo "An NVIDIA GPU is here: its backend is built, which takes minutes the first time."
cmake --build --preset release -j "$1" --target tigon_cuda >/dev/null
if build/llama --device cuda --steps 1 --eval-windows 1 --quiet; then
    echo "The demo runs on the CPU; build/llama --device cuda trains on the GPU."
fi
