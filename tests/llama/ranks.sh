#!/bin/sh
# Several ranks train as one does: with the same options the bits are the same, of losses, norms, held-out losses and checkpoints, and each number of
# ranks goes on from the checkpoint of any other. A rank that is killed takes the others with it, and leaves the last checkpoint.
#   ranks.sh LLAMA [MPIRUN]
. "$(dirname "$0")/common.sh"
if [ -z "${2:-}" ]; then
    OMPI_COMM_WORLD_SIZE=2 refuses "built without MPI" $toy $data --steps 1
    echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"
    exit 77
fi
mpirun=$2
mpi_anywhere
ranks() { # COUNT ARGUMENTS...
    count=$1
    shift
    if [ "$count" -eq 1 ]; then
        "$llama" "$@"
    else
        "$mpirun" -n "$count" "$llama" --threads 1 "$@"
    fi
}
# A log without times, and without the last line.
steps() {
    course "$1" | grep -v median
}
same_checkpoint() { # A B STEP WHAT
    for file in model optimizer-$3; do
        same "$1/$file.safetensors" "$2/$file.safetensors" "$4: $file.safetensors differs"
    done
}
# Layers of several chunks each, so that ranks share them.
wide="$toy --width 128 --ff 256 --steps 9 --eval-every 4"

# 1, 2 and 3 ranks; 4 micro-batches, which 3 ranks cannot share evenly.
for type in f32 bf16; do
    for count in 1 2 3; do
        ranks $count $wide $data --type $type --accumulate 4 --out $type-$count --log $type-$count.log || fail "$type: $count ranks"
        steps $type-$count.log >$type-$count.steps
        [ "$count" -eq 1 ] && continue
        same $type-1.steps $type-$count.steps "$type: losses of 1 and $count ranks"
        same_checkpoint $type-1 $type-$count 000009 "$type, 1 and $count ranks"
    done
done
[ "$(grep -c held_out f32-1.steps)" -eq 4 ] || fail "$(grep -c held_out f32-1.steps) held-out losses, expected 4"

# Muon's matrices are whole, whoever keeps their parts.
for count in 1 2 3; do
    ranks $count $wide $data --optimizer muon --type bf16 --accumulate 2 --out muon-$count --log muon-$count.log || fail "muon: $count ranks"
    steps muon-$count.log >muon-$count.steps
    same muon-1.steps muon-$count.steps "muon: losses of 1 and $count ranks"
    same_checkpoint muon-1 muon-$count 000009 "muon, 1 and $count ranks"
done

# A checkpoint goes from 1 to 3 to 2 ranks. Without --accumulate a step has one micro-batch for each rank; a checkpoint keeps how many.
ranks 3 $wide $data --untied --type bf16 --out whole --log whole.log
ranks 1 $wide $data --untied --type bf16 --accumulate 3 --out parts --log parts.log --stop-after 3
ranks 3 $data --resume --out parts --log parts.log --stop-after 2
ranks 2 $data --resume --out parts --log parts.log
course whole.log | grep '"loss"' >whole.steps
course parts.log | grep '"loss"' >parts.steps
same whole.steps parts.steps "losses when 1, 3 and 2 ranks resume"
same_checkpoint whole parts 000009 "1, 3 and 2 ranks resume"
# So does one of a single micro-batch, of which two ranks have one to do.
ranks 1 $wide $data --out single --log single.log
ranks 2 $wide $data --accumulate 1 --out pair --log pair.log
same_checkpoint single pair 000009 "1 micro-batch, 2 ranks"

# In any order: the same to rounding, 5 micro-batches or fewer than there are ranks.
for accumulate in 5 2; do
    ranks 1 $wide $data --accumulate $accumulate --log one.log
    ranks 3 $wide $data --accumulate $accumulate --unordered --log three.log
    numbers one.log >one
    numbers three.log >three
    paste one three | awk '
        { d = $2 - $5; n = $3 - $6; if (d * d > 1e-8 || n * n > 1e-6) { print; bad = 1 } } END { exit bad || NR != 9 }' ||
        fail "--unordered with $accumulate micro-batches: other losses"
done

# Killed: the checkpoint is whole.
kill_a_rank killed
ranks 3 $data --resume --out killed --stop-after 2 || fail "resume after a kill: $(ls killed)"

# Told to end by SIGUSR1, which mpirun passes on: all ranks end after the same step, and save.
start told
kill -USR1 $launcher
status=0
wait $launcher || status=$?
[ $status -eq 130 ] || fail "told to end: status $status, expected 130: $(cat err)"
ranks 1 $data --resume --out told --stop-after 1 || fail "resume of a run that was told to end"
echo "1, 2 and 3 ranks give the same bits and go on from each other's checkpoints; a killed one ends the run in $seconds s"
