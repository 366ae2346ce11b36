#!/bin/sh
# One page lets a load to L0A have 63 channels, others more. Kernels pass more, and a model that has the narrow limit tells.
#   channels.sh TIGON
set -eu
export TIGON_DEVICE=npu-model
"$1" check --quick --types bf16 gemm >/dev/null
found=$(TIGON_ASCEND_FACTS=load3d_channels=63 "$1" check --quick --types bf16 gemm 2>&1) && { echo "64 channels are not told"; exit 1; }
case $found in
*"cube-limit"*"channel_size: found 64, expected 0 to 63"*) ;;
*) echo "$found" | tail -5 && exit 1 ;;
esac
found=$(TIGON_ASCEND_FACTS=channels=63 "$1" check --quick --types bf16 gemm 2>&1) && { echo "a fact that there is none of is taken"; exit 1; }
case $found in *'TIGON_ASCEND_FACTS: "channels=63", expected a fact of the table'*) ;; *) echo "$found" && exit 1 ;; esac
