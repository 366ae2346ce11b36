#!/bin/sh
# The library for NVIDIA GPUs builds, and exports its entry alone.
#   build.sh CMAKE BUILD_DIR NVCC
set -eu
case $3 in
*-NOTFOUND | FALSE | '') echo "nvcc is not here: not built"; exit 77 ;;
esac
"$1" --build "$2" --target tigon_cuda
names=$(nm -D --defined-only "$2/libtigon_cuda.so" | awk '{ print $3 }')
[ "$names" = tg_backend_entry ] || { echo "libtigon_cuda.so exports $names"; exit 1; }
echo passed
