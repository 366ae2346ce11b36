#!/bin/sh
# Which lines and branches of the kernels no case of tigon check reaches, under the settings of the tests ascend.check.*: compiles
# them once more, with gcc's counters. What no case can reach says why: /* unreached: ... */ on its line, or in a comment above it.
# Status 1: something is left.
#   reach.sh TIGON ASCSIM FOLDER
set -eu
tigon=$(realpath "$1")
ascsim=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
kernels=$source/backends/ascend/kernels
rm -rf "$3" && mkdir -p "$3/model"
folder=$(cd "$3" && pwd)
unset TIGON_IMPL TIGON_VERBOSE TIGON_ASCEND_SEED TIGON_SOC ASCEND_UB_CAPACITY_BITS
cd "$folder"
for kernel in "$kernels"/*/*.asc.c; do
    gcc $("$ascsim" flags compile) -Og -fno-inline -fno-thread-jumps --coverage -fprofile-update=atomic -fvisibility=hidden -I"$kernels" -c "$kernel"
done
# The counters are atomic, and -fsanitize=thread has atomic operations go through a function of its own.
echo 'long __tsan_atomic64_fetch_add(volatile long *at, long n, int order) { (void)order; return __atomic_fetch_add(at, n, 0); }' |
    gcc -w -O2 -fPIC -xc -c - -o model/atomic.o
gcc ./*.o model/atomic.o --coverage $("$ascsim" flags link) -o model/libtigon_ascend_model.so
ln -s "$(ldd model/libtigon_ascend_model.so | sed -n 's/.*libascsim.so => \([^ ]*\).*/\1/p')" model/libascsim.so
export TIGON_ASCEND_MODEL="$folder/model" TIGON_DEVICE=npu-model OMP_WAIT_POLICY=passive
operators=$(sh "$source/tests/ascend/operators.sh" "$source" | grep -vE '^(gemm|flash_attention|fused_neighborhood_attention)')
for setting in TIGON_SOC=910B1 TIGON_SOC=910B4 ASCEND_UB_CAPACITY_BITS=786432; do
    echo "$setting: $(env $setting "$tigon" check --strict $operators 2>&1 | tail -1)"
done
echo "a quarter: $(ASCEND_UB_CAPACITY_BITS=393216 "$tigon" check --strict embedding rms_norm fused_add_rms_norm softmax cross_entropy layer_norm poly_norm group_norm selective_log_softmax grpo_loss softmax_jsd sum_rows sum_squares sparsemax 2>&1 | tail -1)"
# Indices are looked at in a card's memory alone.
card=$(dirname "$tigon")/tests/ascend
env -u TIGON_DEVICE LD_LIBRARY_PATH="$card" STAND_IN_MODEL="$folder/model" STAND_IN_RECORD="$folder/record" "$card/ascend_indices"
python3 "$here/reach.py" "$folder"
