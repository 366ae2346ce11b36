#!/bin/sh
# --ring N: N ranks share each window, of one text or, with --pack, of documents. The course is that of one rank but for the order of sums: losses in f32 to 1e-5 over 9 steps, norms and held-out
# losses alike; with the same ranks the bits are the same, stopped and resumed or not, and another number of ranks goes on from the checkpoint.
#   ring.sh LLAMA [MPIRUN]
. "$(dirname "$0")/common.sh"
refuses "--ring 2 does not divide the number of ranks, 1" $toy $data --ring 2 --steps 1
refuses "is not a multiple of 10" $toy $data --ring 5 --steps 1
if [ -z "${2:-}" ]; then
    echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"
    exit 77
fi
mpirun=$2
mpi_anywhere
ranks() { # COUNT ARGUMENTS...
    count=$1
    shift
    "$mpirun" -n "$count" "$llama" --threads 1 "$@"
}
# held_out LOG: step and held-out loss
held_out() {
    sed -n 's/{"step":\([^,]*\),"held_out":\([^,}]*\).*/\1 \2/p' "$1"
}
close() { # A B LIMIT WHAT: numbers of like lines, of 1 and more
    paste "$1" "$2" | awk -v limit="$3" '
        { n = NF / 2; for (i = 1; i <= n; i++) { d = ($i - $(i + n)) / ($i + 1e-9); if (d < 0) d = -d; if (d > most) most = d } }
        END { printf "%.1e of %.0e\n", most, limit; exit NR == 0 || most > limit }' || fail "$4: $(paste "$1" "$2" | head -3)"
}
course_of="$toy $data --steps 9 --eval-every 4"
packed="--pack --end-of-document 10"
for how in "2 2 1" "3 3 1" "4 2 3" "4 4 1"; do # ranks, --ring, micro-batches
    set -- $how
    for options in "--type f32" "--type f32 $packed --qk-norm --head-dim 24" "--type bf16" "--type bf16 $packed"; do
        case $options in *f32*) limit=1e-5 of_norms=1e-4 ;; *) limit=1e-3 of_norms=1e-1 ;; esac
        case "$how, $options" in "2 2 1"* | *f32*) ;; *) continue ;; esac
        "$llama" $course_of $options --accumulate $3 --log one.log
        ranks $1 $course_of $options --accumulate $3 --ring $2 --log ring.log || fail "$how, $options"
        numbers one.log | cut -d' ' -f1,2 >one && numbers ring.log | cut -d' ' -f1,2 >ring && close one ring $limit "$how, $options: losses"
        numbers one.log >one && numbers ring.log >ring && close one ring $of_norms "$how, $options: norms"
        held_out one.log >one && held_out ring.log >ring && close one ring $limit "$how, $options: held-out losses"
    done
done
for options in "" "$packed"; do
    rm -rf whole parts whole.log parts.log
    ranks 2 $course_of $options --type bf16 --ring 2 --out whole --log whole.log
    ranks 2 $course_of $options --type bf16 --ring 2 --out parts --log parts.log --stop-after 5
    ranks 2 $data --resume --out parts --log parts.log
    course whole.log | grep '"loss"' >one
    course parts.log | grep '"loss"' >two
    same one two "stopped and resumed"
    for file in model optimizer-000009; do
        same whole/$file.safetensors parts/$file.safetensors "stopped and resumed: $file.safetensors differs"
    done
done
"$llama" $data --resume --out whole --steps 11 --ring 1 --log whole.log || fail "one rank goes on"
[ "$(numbers whole.log | wc -l)" -eq 11 ] || fail "one rank goes on: $(tail -n 2 whole.log)"
echo "rings of 2, 3 and 4 ranks train as one rank does, on texts and on documents"
