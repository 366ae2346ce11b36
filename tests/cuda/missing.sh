#!/bin/sh
# Without a card, choosing the device cuda is an error that says why, the library's implementations
# are listed as not available, and nothing else changes.
#   missing.sh TIGON_COMMAND BUILD_DIR
set -eu
[ -e "$2/libtigon_cuda.so" ] || { echo "libtigon_cuda.so is not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if CUDA_VISIBLE_DEVICES= TIGON_DEVICE=cuda "$1" check --quick dyt >"$work/out" 2>&1; then
    echo "a device that is not there is accepted"
    exit 1
fi
grep -q 'cuda: \(no NVIDIA driver is here\|the NVIDIA driver finds no card\)' "$work/out" || { cat "$work/out"; exit 1; }
CUDA_VISIBLE_DEVICES= TIGON_DEVICE=cpu "$1" list gemm >"$work/out"
grep -q '^  cuda/gemm  *device cuda  (not available here)' "$work/out" || { cat "$work/out"; exit 1; }
CUDA_VISIBLE_DEVICES= "$1" doctor >"$work/out"
grep -q '^cuda  *cannot be used: \(no NVIDIA driver is here\|the NVIDIA driver finds no card\)' "$work/out" || { cat "$work/out"; exit 1; }
CUDA_VISIBLE_DEVICES= TIGON_DEVICE=cpu "$1" check --quick dyt >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
echo passed
