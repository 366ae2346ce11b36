#!/bin/sh
# The trainer, unchanged, on the model: 20 steps end at the CPU's loss. The kernels' arithmetic is f32, as the CPU's, in another
# order: the bound is a thousandth of a nat.
#   trainer.sh LLAMA SOURCE_DIR
set -eu
loss() { # DEVICE
    TIGON_DEVICE=$1 "$2" --preset tiny --steps 20 --batch 2 --seq 64 --eval-every 0 --eval-windows 1 --sample 0 \
        --data "$3"/src/core/*.c 2>&1 | sed -n 's/.*held-out loss after 20 steps: \([0-9.]*\).*/\1/p'
}
cpu=$(loss cpu "$@")
model=$(loss npu-model "$@")
echo "held-out loss after 20 steps: cpu $cpu, npu-model $model"
awk -v a="$cpu" -v b="$model" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d <= 0.001 && d >= -0.001) }'
count=$(TIGON_VERBOSE=1 TIGON_DEVICE=npu-model "$1" --preset tiny --steps 1 --batch 1 --seq 32 --eval-every 0 --eval-windows 1 \
    --sample 0 --data "$2"/src/core/*.c 2>&1 | grep -c 'ascendmodel/') || true
echo "$count calls ran on the model"
[ "$count" -gt 0 ]
