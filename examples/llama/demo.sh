#!/bin/sh
# Trains a small Llama on this repository's own text, with unfused and with fused operators.
#   demo.sh BUILD_DIR [OPTIONS OF llama]
set -eu
build=$1
shift
start=$(date +%s)
"$build/llama" --demo --plot "$build/loss.svg" "$@"
echo "It took $(($(date +%s) - start)) seconds."
