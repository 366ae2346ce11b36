#!/bin/sh
# Random shapes of every kernel of the Ascend backend on the model: two chips, and on one of them a Unified Buffer of
# a half, a quarter and twice the size, and other legal orders of instructions.
#   sweep.sh ASCEND_SWEEP SHAPES [ascend_sweep's arguments...]
set -u
sweep=$1
shapes=$2
shift 2
unset TIGON_IMPL TIGON_DEVICE TIGON_VERBOSE TIGON_ASCEND_SEED
failed=0
once() { # SOC CAPACITY_BITS SHAPES; no bits: the chip's
    unset ASCEND_UB_CAPACITY_BITS
    [ -z "$2" ] || export ASCEND_UB_CAPACITY_BITS="$2"
    echo "== Ascend$1, $3 shapes a kernel${2:+, ASCEND_UB_CAPACITY_BITS=$2}"
    TIGON_SOC=$1 "$sweep" --shapes "$3" $arguments || failed=1
}
arguments=$*
once 910B1 "" "$shapes"
once 910B4 "" "$shapes"
part=$(((shapes + 3) / 4))
for bits in 786432 393216 3145728; do
    once 910B4 $bits $part
done
for seed in 1 2; do
    export TIGON_ASCEND_SEED=$seed
    echo "== TIGON_ASCEND_SEED=$seed"
    once 910B4 "" $part
done
exit $failed
