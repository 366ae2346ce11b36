#!/bin/sh
# Two ranks on two cards train as one does on one: losses, norms and held-out losses but for
# rounding, whether each has windows of its own or both share each window, and each goes on from the
# other's checkpoint.
#   ranks.sh LLAMA TIGON_COMMAND BUILD_DIR [MPIRUN]
mpirun=${4:-}
[ -n "$mpirun" ] || { echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"; exit 77; }
[ -e "$3/libtigon_cuda.so" ] || { echo "skipped: libtigon_cuda.so is not built"; exit 77; }
"$2" info | grep -qE '^ *cuda .*counts ([2-9]|[1-9][0-9])' || { echo "skipped: there are not two NVIDIA GPUs here"; exit 77; }
. "$(dirname "$0")/../llama/common.sh"
mpi_anywhere
wide="$toy --width 128 --ff 256 --steps 9 --eval-every 4 --accumulate 4 --device cuda"

one() {
    "$llama" "$@"
}
two() {
    "$mpirun" -n 2 "$llama" --threads 1 "$@"
}
near() { # A B STEPS WHAT: all numbers of the last steps, of ten from step 0 on, of two courses; at least four of each
    for log in "$1" "$2"; do
        course "$log" | grep -v median | sed -n "/\"step\":$((10 - $3)),/,\$p" | grep -oE '"[a-z_]+":[-+0-9.e]+' >$log.values
    done
    [ "$(wc -l <"$1.values")" -ge $((4 * $3)) ] || fail "$4: $(wc -l <"$1.values") numbers"
    paste -d: "$1.values" "$2.values" | awk -F: -v most="$tolerance" '
        { x = $2 - $4; size = $2 < 0 ? -$2 : $2; if (x < 0) x = -x
          if ($1 != $3 || !(x <= most * (1 + size))) { print; wrong = 1 } }
        END { exit wrong }' || fail "$4"
}
for type in f32 bf16; do
    tolerance=$([ $type = f32 ] && echo 2e-5 || echo 1e-2)
    one $wide $data --type $type --out one-$type --log one-$type.log || fail "$type: one card"
    two $wide $data --type $type --out two-$type --log two-$type.log || fail "$type: two cards"
    near one-$type.log two-$type.log 10 "$type: one and two cards"
    two $wide $data --type $type --untied --stop-after 5 --out half-$type --log half-$type.log || fail "$type: a part"
    one --out half-$type --resume $data --device cuda --log rest-$type.log || fail "$type: one card goes on"
    one $wide $data --type $type --untied --log whole-$type.log || fail "$type: a whole"
    near whole-$type.log rest-$type.log 4 "$type: one card from the checkpoint of two"
    two --out one-$type --resume --steps 12 $data --device cuda --log more-$type.log || fail "$type: two cards from the checkpoint of one"
    [ "$(numbers more-$type.log | wc -l)" -eq 3 ] || fail "$type: two cards from the checkpoint of one: $(numbers more-$type.log | wc -l) steps"
done
for options in "" "--pack --end-of-document 10"; do # both cards share each window
    for type in f32 bf16; do
        tolerance=$([ $type = f32 ] && echo 2e-5 || echo 1e-2)
        rm -f ring-one.log ring-two.log
        one $wide $data --type $type $options --log ring-one.log || fail "$type $options: one card"
        two $wide $data --type $type $options --ring 2 --log ring-two.log || fail "$type $options: a ring"
        near ring-one.log ring-two.log 10 "$type $options: one card and a ring of two"
    done
done
mixture="--qk-norm --experts 6 --experts-used 2 --expert-ff 64"
for type in f32 bf16; do # both cards share out experts
    tolerance=$([ $type = f32 ] && echo 2e-4 || echo 2e-2) # an expert more or less for a token whose scores are within rounding
    rm -f experts-*.log
    one $wide $data $mixture --type $type --log experts-one.log || fail "$type: one card, experts"
    two $wide $data $mixture --type $type --expert-parallel --log experts-two.log || fail "$type: experts shared out"
    near experts-one.log experts-two.log 10 "$type: one card and two that share out experts"
    two $wide $data $mixture --type $type --expert-parallel --out experts-$type --log experts-half.log --stop-after 5 || fail "$type: a part"
    one $data --device cuda --resume --out experts-$type --log experts-rest.log || fail "$type: one card goes on"
    near experts-one.log experts-rest.log 4 "$type: one card from the checkpoint of two that share out experts"
done
for count in 1 2; do # a rank is killed: the checkpoint is whole
    kill_a_rank killed-$count
    "$mpirun" -n $count "$llama" --threads 1 $data --device cuda --resume --out killed-$count --stop-after 2 ||
        fail "$count cards resume after a kill: $(ls killed-$count)"
done
"$mpirun" -n 2 "$llama" $toy $data --device cuda --accumulate 1 --steps 1 2>err && fail "a rank without a micro-batch"
grep -q "each of 2 ranks needs a micro-batch" err || fail "no message: $(head -2 err)"
echo "two cards train as one does, and go on from each other's checkpoints"
