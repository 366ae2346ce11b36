#!/bin/sh
# The trainer on a device with memory of its own: its tensors live there, the operators that the device lacks run on the host.
# 6 steps end at the CPU's loss, and so do 3 steps, a checkpoint, and 3 more.
#   trainer.sh LLAMA libtoy.so SOURCE_DIR
set -eu
llama=$1
toy=$2
source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TIGON_BACKEND_PATH="$toy" TIGON_FALLBACK=host
loss() { # DEVICE ARGUMENTS...
    device=$1
    shift
    TIGON_DEVICE=$device "$llama" "$@" >"$work/out" 2>&1 || { tail -5 "$work/out" >&2; exit 1; }
    sed -n 's/.*held-out loss after [0-9]* steps: \([0-9.]*\).*/\1/p' "$work/out"
}
set -- --preset tiny --steps 6 --batch 2 --seq 32 --eval-every 0 --eval-windows 1 --data "$source"/src/core/*.c
cpu=$(loss cpu --sample 0 "$@")
there=$(loss toy --sample 4 "$@")
loss toy --sample 0 --out "$work/half" --stop-after 3 "$@" >/dev/null
resumed=$(loss toy --sample 0 --resume --out "$work/half" --data "$source"/src/core/*.c)
echo "held-out loss after 6 steps: cpu $cpu, toy $there, resumed $resumed"
awk -v a="$cpu" -v b="$there" -v c="$resumed" 'BEGIN { d = a - b; exit !(a > 0 && d <= 0.001 && d >= -0.001 && b == c) }'
TIGON_VERBOSE=1 loss toy --sample 0 "$@" >/dev/null
for row in toy/gemm toy/rms_norm_forward toy/embedding_backward; do
    grep -q "^tigon,$row," "$work/out" || { echo "$row did not run"; exit 1; }
done
