#!/bin/sh
# What is too long for every run of the tests: all cases with other values, the NPU kernels on other
# sizes of the buffer and with every flag and barrier left out once, 25 million fuzzed calls by
# default (an hour or so), and the sanitizers over the kernels of all levels and every case.
#   scripts/soak.sh [FUZZED_CALLS]
set -eu
for seed in 2 3 4; do
    echo "soak: tigon check --strict --seed $seed"
    build/tigon check --strict --seed $seed >build/soak.log || { grep FAILED build/soak.log; exit 1; }
    tail -1 build/soak.log
done
for setting in TIGON_SOC=910B1 TIGON_SOC=910B4 ASCEND_UB_CAPACITY_BITS=786432 ASCEND_UB_CAPACITY_BITS=393216 TIGON_ASCEND_SEED=3; do
    echo "soak: the NPU kernels, all cases, $setting"
    env TIGON_DEVICE=npu-model $setting build/tigon check --strict >build/soak.log || { grep FAILED build/soak.log; exit 1; }
    tail -1 build/soak.log
done
echo "soak: the NPU kernels without one call that synchronises, each in turn"
rm -rf build/mutate
sh tests/ascend/mutate/mutate.sh build/tigon build/tests/libascend_forget.so build/mutate
calls=${1:-25000000}
echo "soak: $calls fuzzed calls"
build/tests/fuzz_arguments "$calls" "$(date +%s)"
echo "soak: sanitizers, all levels"
sh tests/sanitizers/address.sh . build/soak-address build/tigon ""
sh tests/sanitizers/thread.sh . build/soak-thread
TSAN_OPTIONS=halt_on_error=1 build/soak-thread/tests/threads_same_bits
echo "soak: passed"
