#!/bin/sh
# The library for NVIDIA GPUs, where `make cuda` has made it, exports its entry alone.
#   exports.sh BUILD_DIR
set -eu
[ -e "$1/libtigon_cuda.so" ] || { echo "libtigon_cuda.so is not built: make cuda does it"; exit 77; }
names=$(nm -D --defined-only "$1/libtigon_cuda.so" | awk '{ print $3 }')
[ "$names" = tg_backend_entry ] || { echo "libtigon_cuda.so exports $names"; exit 1; }
echo passed
