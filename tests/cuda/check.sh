#!/bin/sh
# All operators that the backend has agree with the reference, on a card.
#   check.sh TIGON_COMMAND BUILD_DIR SOURCE_DIR
set -eu
[ -e "$2/libtigon_cuda.so" ] || { echo "libtigon_cuda.so is not built"; exit 77; }
"$1" info | grep -q '^ *cuda .*counts [1-9]' || { echo "no NVIDIA GPU is here: not checked"; exit 77; }
"$1" check --device cuda --strict --quick cuda/
