#!/bin/sh
# Two ranks on two cards train as one does on one: losses, norms and held-out losses but for rounding, and each goes on from the other's checkpoint.
#   ranks.sh LLAMA TIGON_COMMAND BUILD_DIR [MPIRUN]
mpirun=${4:-}
[ -n "$mpirun" ] || { echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"; exit 77; }
[ -e "$3/libtigon_cuda.so" ] || { echo "skipped: libtigon_cuda.so is not built"; exit 77; }
"$2" info | grep -qE '^ *cuda .*counts ([2-9]|[1-9][0-9])' || { echo "skipped: there are not two NVIDIA GPUs here"; exit 77; }
. "$(dirname "$0")/../llama/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
wide="$toy --width 128 --ff 256 --steps 9 --eval-every 4 --accumulate 4 --device cuda"

one() {
    "$llama" "$@"
}
two() {
    "$mpirun" -n 2 "$llama" --threads 1 "$@"
}
near() { # A B TOLERANCE WHAT: all numbers of two courses
    course "$1" | grep -v median | grep -oE '"[a-z_]+":[-+0-9.e]+' >a
    course "$2" | grep -v median | grep -oE '"[a-z_]+":[-+0-9.e]+' >b
    [ "$(wc -l <a)" -gt 30 ] || fail "$4: $(wc -l <a) numbers"
    paste -d: a b | awk -F: -v most="$3" '
        { x = $2 - $4; size = $2 < 0 ? -$2 : $2; if (x < 0) x = -x
          if ($1 != $3 || !(x <= most * (1 + size))) { print; wrong = 1 } }
        END { exit wrong }' || fail "$4"
}
for type in f32 bf16; do
    tolerance=$([ $type = f32 ] && echo 2e-5 || echo 1e-2)
    one $wide $data --type $type --out one-$type --log one-$type.log || fail "$type: one card"
    two $wide $data --type $type --out two-$type --log two-$type.log || fail "$type: two cards"
    near one-$type.log two-$type.log $tolerance "$type: one and two cards"
    two $wide $data --type $type --untied --stop-after 5 --out half-$type --log half-$type.log || fail "$type: a part"
    one --out half-$type --resume $data --device cuda --log rest-$type.log || fail "$type: one card goes on"
    one $wide $data --type $type --untied --log whole-$type.log || fail "$type: a whole"
    numbers whole-$type.log | tail -4 >a.rest
    numbers rest-$type.log | tail -4 >b.rest
    paste -d' ' a.rest b.rest | awk -v most=$tolerance '
        { d = $2 - $5; if (d < 0) d = -d; if ($1 != $4 || !(d <= most * (1 + $2))) { print; wrong = 1 } }
        END { exit NR != 4 || wrong }' || fail "$type: one card from the checkpoint of two"
    two --out one-$type --resume --steps 12 $data --device cuda --log more-$type.log || fail "$type: two cards from the checkpoint of one"
    [ "$(numbers more-$type.log | wc -l)" -eq 3 ] || fail "$type: two cards from the checkpoint of one: $(numbers more-$type.log | wc -l) steps"
done
"$mpirun" -n 2 "$llama" $toy $data --device cuda --accumulate 1 --steps 1 2>err && fail "a rank without a micro-batch"
grep -q "each of 2 ranks needs a micro-batch" err || fail "no message: $(head -2 err)"
echo "two cards train as one does, and go on from each other's checkpoints"
