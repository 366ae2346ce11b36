#!/bin/sh
# The trainer on a device with memory of its own: its tensors live there, the operators that the device lacks run on the host.
# 6 steps end at the CPU's loss, and so do 3 steps, a checkpoint, and 3 more. Of a step only its losses and the norm come to the host: the
# trainer itself could not read more, since activations and gradients have no memory there.
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
    "$llama" --device "$device" "$@" >"$work/out" 2>&1 || { tail -5 "$work/out" >&2; exit 1; }
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
for row in toy/gemm toy/rms_norm_forward toy/embedding_backward toy/sum_squares_forward; do
    grep -q "^tigon,$row," "$work/out" || { echo "$row did not run"; exit 1; }
done
# Three micro-batches a step: 3 losses and a sum of squares, for the held-out loss as well. A clock of 1 ms a call; memory is counted.
loss toy --sample 0 --accumulate 3 --log "$work/log" --profile "$@" >/dev/null
grep -q '"returned_bytes":112}' "$work/log" || { tail -1 "$work/log"; echo "6 steps and a held-out loss return 7 * 4 * 4 bytes"; exit 1; }
tail -1 "$work/log" | grep -q '"device_peak_bytes":[1-9]' || { tail -1 "$work/log"; echo "no memory is told"; exit 1; }
grep -q '^sum_squares_forward *toy/sum_squares_forward *2 *2\.000 ' "$work/out" || { cat "$work/out"; echo "no time by the device's clock"; exit 1; }
# With operators for all calls of a step nothing runs on the host, and steps are recorded: the first makes its calls, the next two record them,
# and launches run them from then on. Losses are the same to the last bit, in steps of one micro-batch too, whose gradients lie among activations.
numbers() {
    sed 's/,"lr".*//' "$1" | grep '"step"'
}
for accumulate in 1 2; do
    (
        unset TIGON_FALLBACK
        export TOY_REFERENCE=1
        TIGON_VERBOSE=1 loss toy --sample 0 --accumulate $accumulate --log "$work/recorded" "$@" >/dev/null
        calls=$(grep -c '^tigon,toy/sum_squares_forward,' "$work/out")
        [ "$calls" -eq 6 ] || { echo "sum_squares is called $calls times, expected 2 in each of 3 steps"; exit 1; }
        loss toy --sample 0 --accumulate $accumulate --log "$work/called" --profile "$@" >/dev/null
    )
    numbers "$work/recorded" >"$work/recorded.numbers"
    numbers "$work/called" | diff - "$work/recorded.numbers" || { echo "other numbers when steps are recorded"; exit 1; }
done
# So do mixtures of experts, and normalised heads of another size in packed documents.
for more in "--preset moe-tiny" "--qk-norm --head-dim 48 --pack --end-of-document 10"; do
    cpu=$(loss cpu --sample 0 "$@" $more)
    there=$(loss toy --sample 0 "$@" $more)
    awk -v a="$cpu" -v b="$there" 'BEGIN { d = a - b; exit !(a > 0 && d <= 0.001 && d >= -0.001) }' || { echo "$more: cpu $cpu, toy $there"; exit 1; }
done
# --device goes before TIGON_DEVICE; one that is not there is named.
TIGON_DEVICE=nowhere loss toy --sample 0 --stop-after 1 "$@" >/dev/null
if "$llama" --device nowhere "$@" 2>"$work/out" || ! grep -q -e '--device nowhere: .*nowhere' "$work/out"; then
    cat "$work/out"
    echo "a device that is not there is taken"
    exit 1
fi
