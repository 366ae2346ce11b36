#!/bin/sh
# Ranks that train on devices of their own, as they do on NVIDIA cards: toys, with a stand-in for NCCL between them. A course of one rank, of three,
# of three that share out experts, and one that goes on from rank count to rank count, with experts shared out and without, have the same losses and
# norms: of the reference's sums in f32 and bf16, but for the order of sums over ranks. What ranks that share out experts take of a device is less.
#   cards.sh LLAMA libtoy.so libtoy_nccl.so [MPIRUN]
[ -n "${4:-}" ] || { echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"; exit 77; }
. "$(dirname "$0")/../llama/common.sh"
mpi_anywhere
mkdir -p driver
ln -sf "$3" driver/libcuda.so.1
export TIGON_BACKEND_PATH="$2" TIGON_FALLBACK=host TOY_REFERENCE=1 LLAMA_NCCL="$3" LD_LIBRARY_PATH="$PWD/driver"
mpirun=$4
ranks() { # N ARGUMENTS...
    count=$1
    shift
    "$mpirun" -n "$count" "$llama" --device toy --threads 1 "$@" </dev/null 2>err || { tail -n 3 err; fail "$count ranks: $*"; }
}
mixture="--qk-norm --head-dim 24 --experts 13 --experts-used 2 --expert-ff 56 --steps 5 --eval-every 3"
near() { # A B: losses and norms of all steps, and the last held-out loss
    for log in "$1" "$2"; do
        { numbers "$log" | tr ' ' '\n'; grep -o 'held_out":[^}]*' "$log" | tail -n 1 | cut -d: -f2; } >"$log.values"
    done
    [ "$(wc -l <"$1.values")" -eq 16 ] || fail "$1: $(wc -l <"$1.values") numbers"
    paste "$1.values" "$2.values" | awk -v most="$tolerance" '
        { x = $1 - $2; if (x < 0) x = -x; if ($2 == "" || !(x <= most * (1 + $1))) { print; wrong = 1 } }
        END { exit wrong }' || fail "$type $more: $1 and $2"
}
peak() {
    grep -o 'device_peak_bytes":[0-9]*' "$1" | cut -d: -f2
}
while read -r type micro_batches; do # in the last round of four one rank alone has tokens
    more="--accumulate $micro_batches"
    tolerance=$([ $type = f32 ] && echo 1e-6 || echo 2e-3)
    rm -rf ./*.log parts
    of="$toy $data $mixture --type $type $more"
    ranks 1 $of --log one.log
    ranks 3 $of --log apart.log
    ranks 3 $of --expert-parallel --log shared.log
    ranks 3 $of --expert-parallel --log parts.log --out parts --stop-after 2 --recompute 3
    ranks 1 --resume $data --log parts.log --out parts --stop-after 1
    ranks 3 --resume $data --log parts.log --out parts --stop-after 1 --expert-parallel --recompute 0
    ranks 2 --resume $data --log parts.log --out parts --expert-parallel --sample 30 >collected.text
    ranks 1 --resume $data --eval-only --sample 30 --out parts >whole.text
    near one.log apart.log
    near one.log shared.log
    near one.log parts.log
    same whole.text collected.text "$type $more: the sample of a rank that has collected the experts"
    [ "$(peak shared.log)" -lt "$(peak apart.log)" ] || fail "memory: $(peak shared.log) and $(peak apart.log)"
done <<COURSES
f32 3
f32 4
bf16 4
COURSES
# The script that measures cards: a row for each number of ranks, all of which tell a speed.
PATH=$(dirname "$mpirun"):$PATH RANKS="1 2" DEVICE=toy STEPS=4 LLAMA="$llama" TIGON=none MORE="$toy --vocab 256 --heads 2" sh "$source/scripts/many-cards.sh" \
    many dense experts >many.txt || fail "$(cat many.txt)"
[ "$(grep -cE '^\| [a-z ]+ \| [12] \| [0-9]+ \|' many.txt)" -eq 6 ] || fail "$(cat many.txt)"
[ "$(grep -c '"x_values": \[1, 2\]' many/results.jsonl)" -eq 3 ] || fail "$(cat many/results.jsonl)"
echo "ranks with devices of their own share out experts: losses of one rank, and go on from each other's checkpoints"
