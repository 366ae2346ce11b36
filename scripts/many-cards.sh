#!/bin/sh
# Does a step of the trainer scale over the cards of one machine? Runs 1, 2, 4, 8 ranks, a card each, and prints a table for each part;
# FOLDER/results.jsonl has the same as lines that `tigon plot` draws.
#   sh scripts/many-cards.sh [FOLDER [PART...]]
# Parts, each of ten minutes at most: dense, torch, experts, ring, kill, links; all of them if none is said.
#   dense    1b in bf16, 8 windows of 2048 tokens a card, data parallel
#   torch    the same model in PyTorch, compiled, under DDP and FSDP2, and with Tigon's operators (needs transformers)
#   experts  1b with 16 experts of 4096, 2 of them used: shared out by the cards, and all of them on each
#   ring     1b and one window of 131072 tokens, which all cards share
#   kill     a rank is killed: how long the others take to end, and whether half as many go on from the checkpoint
#   links    sums of gradients, and messages from each card to each other, without a trainer
# RANKS="1 2": these numbers of ranks. MORE="--layers 4": options of all runs of the trainer. STEPS=10. LLAMA, LINK: other programs than build/llama
# and build/llama_link. TIGON: build/tigon, for the chart. DEVICE: cuda.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-many-cards}
[ $# -eq 0 ] || shift
parts=${*:-dense torch experts ring kill links}
build=$source/build
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
steps=${STEPS:-10}
device=${DEVICE:-cuda}
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"

# ---- what is needed ----

if [ ! -x "${LLAMA:-$build/llama}" ] || { [ "$device" = cuda ] && [ ! -e "$build/libtigon_cuda.so" ]; }; then
    make -C "$source" cuda >"$out/build.txt" 2>&1 || { tail -5 "$out/build.txt"; exit 1; }
fi
llama=${LLAMA:-$build/llama} link=${LINK:-$build/llama_link} tigon=${TIGON:-$build/tigon}
command -v mpirun >/dev/null || { echo "mpirun starts the ranks, and is not here (Debian: openmpi-bin)"; exit 1; }
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if [ -z "${LLAMA_NCCL:-}" ]; then # pip's, if there is one
    LLAMA_NCCL=$(python3 -c "import nvidia.nccl as n; print(list(n.__path__)[0] + '/lib/libnccl.so.2')" 2>/dev/null)
    [ -e "$LLAMA_NCCL" ] && export LLAMA_NCCL || unset LLAMA_NCCL
fi
cards=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
ranks=${RANKS:-}
for n in 1 2 4 8; do
    [ -n "${RANKS:-}" ] || [ "$n" -gt "$cards" ] || ranks="$ranks $n"
done
[ -n "$ranks" ] || { echo "there is no card here; RANKS tells how many ranks all the same"; exit 1; }
threads=$(($(nproc) / $(echo "$ranks" | tr ' ' '\n' | sort -n | tail -1)))
[ "$threads" -gt 0 ] || threads=1
cat "$source"/docs/*.md >"$out/text"

# ---- runs ----

# train N NAME OPTIONS...: its log is NAME.N.jsonl; 1 if it fails.
train() {
    n=$1 name=$2
    shift 2
    rm -f "$out/$name.$n.jsonl"
    set -- --device "$device" --data "$out/text" --quiet --threads "$threads" --eval-every 0 --eval-windows 1 --warmup 2 --steps "$steps" "$@" \
        ${MORE:-} --log "$out/$name.$n.jsonl"
    if [ "$n" -gt 1 ]; then
        mpirun -n "$n" "$llama" "$@" >"$out/$name.$n.txt" 2>&1
    else
        "$llama" "$@" >"$out/$name.$n.txt" 2>&1
    fi
}

# speeds NAME N: tokens/s of the median step and of those at a fifth and four fifths, bytes of a card, loss of the last step.
speeds() {
    sed -n 's/.*"tokens_per_s":\([0-9.e+]*\).*/\1/p' "$out/$1.$2.jsonl" 2>/dev/null | sed 1,2d | sort -n |
        awk -v bytes="$(sed -n 's/.*"device_peak_bytes":\([0-9]*\).*/\1/p' "$out/$1.$2.jsonl")" \
            -v loss="$(sed -n 's/.*"step":[0-9]*,"loss":\([^,]*\).*/\1/p' "$out/$1.$2.jsonl" | tail -n 1)" '
            { rate[NR] = $1 }
            function at(part) { i = int(NR * part + 0.5); return rate[i < 1 ? 1 : i] }
            END { if (NR) print at(0.5), at(0.2), at(0.8), bytes + 0, loss }'
}

table() { # HEAD
    echo
    echo "$1"
    echo
    echo "| what | ranks | tokens/s | 20 to 80 % of the steps | of N times one rank's | a card, GB | last loss |"
    echo "|---|---:|---:|---:|---:|---:|---:|"
}

# course NAME WHAT OPTIONS...: a row for each number of ranks, and a line of results.jsonl. ACCUMULATE: micro-batches of a step, one for each rank if it is
# not set. SHARES_WINDOWS: all ranks are a ring.
course() {
    name=$1 what=$2
    shift 2
    one='' first='' xs='' middle='' low='' high=''
    for n in $ranks; do
        if ! train "$n" "$name" --accumulate "${ACCUMULATE:-$n}" ${SHARES_WINDOWS:+--ring $n} "$@" || [ -z "$(speeds "$name" "$n")" ]; then
            echo "| $what | $n | fails: $(grep -a 'llama:' "$out/$name.$n.txt" | head -n 1 | cut -c1-120) | | | | |"
            continue
        fi
        # shellcheck disable=SC2046
        set_speeds $(speeds "$name" "$n")
        [ -n "$one" ] || { one=$rate first=$n; }
        awk -v what="$what" -v n="$n" -v r="$rate" -v a="$lower" -v b="$upper" -v one="$one" -v first="$first" -v bytes="$bytes" -v loss="$loss" 'BEGIN {
            printf "| %s | %d | %.0f | %.0f to %.0f | %.3f | %.1f | %s |\n", what, n, r, a, b, r / one * first / n, bytes / 1e9, loss }'
        xs="$xs$n, " middle="$middle$rate, " low="$low$lower, " high="$high$upper, "
    done
    [ -n "$xs" ] || return
    printf '{"kernel_name": "trainer", "kernel_provider": "%s", "kernel_operation_mode": "%s", "metric_name": "speed", "metric_unit": "tokens/s", ' \
        "$what" "$part" >>"$out/results.jsonl"
    printf '"x_label": "cards", "x_values": [%s], "y_values_50": [%s], "y_values_20": [%s], "y_values_80": [%s]}\n' \
        "${xs%, }" "${middle%, }" "${low%, }" "${high%, }" >>"$out/results.jsonl"
}
set_speeds() {
    rate=$1 lower=$2 upper=$3 bytes=$4 loss=$5
}

# ---- parts ----

size="--preset 1b --type bf16 --recompute 2"
batch="--batch 8 --seq 2048"
mixture="--qk-norm --experts 16 --experts-used 2 --expert-ff 4096"

dense() {
    table "1b, bf16, 8 x 2048 tokens a card, data parallel with moments shared out"
    course dense "data parallel" $size $batch
}

experts() {
    table "1b with 16 experts of 4096, 2 used, bf16, 8 x 2048 tokens a card"
    course shared "experts shared out" $size $batch $mixture --expert-parallel
    course apart "data parallel alone" $size $batch $mixture
}

ring() {
    table "1b, bf16, one window of ${WINDOW:-131072} tokens, which the cards share"
    SHARES_WINDOWS=1 ACCUMULATE=1
    course ring "a ring" --preset 1b --type bf16 --recompute 3 --batch 1 --seq "${WINDOW:-131072}"
    unset SHARES_WINDOWS ACCUMULATE
}

torch() {
    echo
    echo "The same model in PyTorch, 8 x 2048 tokens a card: $(python3 -c 'import torch; print(torch.__version__)' 2>&1 | tail -n 1)"
    echo
    for n in $ranks; do
        [ "$n" -gt 1 ] || continue
        echo "$n ranks:"
        PYTHONPATH="$build/python:${PYTHONPATH:-}" python3 "$source/bindings/python/bench/ranks.py" --model 1b --ranks "$n" --batch 8 --length 2048 \
            --variants compile,tigon 2>"$out/torch.$n.txt" || tail -n 1 "$out/torch.$n.txt"
    done
}

# The last number of ranks saves in each step; one of them is killed.
kill_one() {
    most=$(echo "$ranks" | tr ' ' '\n' | tail -n 1) half=$((most / 2))
    [ "$most" -gt 1 ] || { echo "kill: takes two cards"; return; }
    rm -rf "$out/killed" "$out/kill.$most.jsonl"
    small="--preset 124m --type bf16 --batch 4 --seq 1024 --accumulate $most --save-every 2 --steps 1000 --eval-every 0 --eval-windows 1 --threads $threads"
    mpirun -n "$most" "$llama" --device "$device" --data "$out/text" --quiet $small ${MORE:-} --out "$out/killed" --log "$out/kill.$most.jsonl" \
        >"$out/kill.txt" 2>&1 &
    launcher=$!
    for _ in $(seq 600); do
        [ "$(grep -c '"step"' "$out/kill.$most.jsonl" 2>/dev/null)" -ge 5 ] 2>/dev/null && [ -e "$out/killed/model.safetensors" ] && break
        sleep 0.1
    done
    victim=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v launcher=$launcher -v name="($(basename "$llama"))" '$2 == name && $4 == launcher { p = $1 } END { print p }')
    began=$(date +%s)
    kill -KILL "$victim" 2>>"$out/kill.txt"
    wait $launcher
    echo
    echo "Of $most ranks one is killed: the others have ended $(($(date +%s) - began)) s later."
    cp -r "$out/killed" "$out/killed-again"
    go_on "$half" "$out/killed"
    go_on "$most" "$out/killed-again"
    echo "Step and loss of $half ranks that go on from the checkpoint, and of $most:"
    paste "$out/resumed.$half.steps" "$out/resumed.$most.steps"
    rm -rf "$out/killed-again"
    rm -rf "$out/killed"
}

go_on() { # N FOLDER
    n=$1
    rm -f "$out/resumed.$n.jsonl"
    set -- --device "$device" --data "$out/text" --quiet --resume --out "$2" --stop-after 3 --threads "$threads" --log "$out/resumed.$n.jsonl"
    if [ "$n" -gt 1 ]; then
        mpirun -n "$n" "$llama" "$@" >>"$out/kill.txt" 2>&1
    else
        "$llama" "$@" >>"$out/kill.txt" 2>&1
    fi
    sed -n 's/{"step":\([^,]*\),"loss":\([^,]*\),.*/\1 \2/p' "$out/resumed.$n.jsonl" >"$out/resumed.$n.steps"
}

links() {
    echo
    echo "| bytes of each card | ranks | sums, ms | GB/s out of a card | to all others, ms | GB/s out of a card |"
    echo "|---:|---:|---:|---:|---:|---:|"
    for n in $ranks; do
        [ "$n" -gt 1 ] || continue
        mpirun -n "$n" "$link" "$device" 2>"$out/links.$n.txt" | grep -E '^[0-9]+ ' >"$out/links.$n"
        awk -v n="$n" '{ moved = $1 * (n - 1) / n / 1e9
            printf "| %d | %d | %.3f | %.0f | %.3f | %.0f |\n", $1, n, $2 * 1e3, moved / $2, $3 * 1e3, moved / $3 }' "$out/links.$n"
    done
}

rm -f "$out/results.jsonl"
echo "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c | tr -s ' '), $threads threads a rank, $steps steps"
for part in $parts; do
    case $part in
    dense | experts | ring | torch | links) $part ;;
    kill) kill_one ;;
    *) echo "no part $part: dense, torch, experts, ring, kill, links" && exit 1 ;;
    esac
done
if [ -e "$out/results.jsonl" ] && [ -x "$tigon" ]; then
    "$tigon" plot "$out/results.jsonl" --output "$out/results.svg" >/dev/null && echo && echo "chart: $out/results.svg"
fi
