#!/bin/sh
# Which lines and branches of the CPU's kernels does no case of the checker reach?
#   coverage.sh SOURCE_DIR BUILD_DIR [LEVELS]     half an hour; LEVELS: "v3;v4" without it, whose vectors differ in length
# Builds the library with gcov's counters in BUILD_DIR, runs `tigon check` over all cases, and lists what was never run. No
# function is inlined there, so that what is counted is each branch of the source once, not once a type that it is compiled for.
# A line that no case can reach says so, with the reason: /* no case: ... */ at its end or above it; in the comment above a
# function it is for all of that. What only a failed allocation or a refused part runs is left to the tests of those. Status 1:
# something is listed.
set -eu
source=$(realpath "$1")
mkdir -p "$2"
build=$(realpath "$2")
levels=${3:-v3;v4}
cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Coverage -DCMAKE_C_FLAGS_COVERAGE="-Og -g1 --coverage -fprofile-update=atomic \
    -Dalways_inline=unused -fno-inline -fno-thread-jumps" \
    -DTIGON_ONLY_LEVELS="$levels" -DTIGON_ASCEND_MODEL=OFF -DTIGON_TESTS=OFF >/dev/null
cmake --build "$build" -j "$(nproc)" --target tigon_command >/dev/null
find "$build" -name '*.gcda' -delete
"$build/tigon" check --strict >"$build/check.txt" || echo "the checker fails: see $build/check.txt"
TIGON_BLAS=libopenblas.so.0 "$build/tigon" check --strict cpu/gemm.blas >"$build/blas.txt" || echo "the checker fails: see $build/blas.txt"
export TIGON_TUNE=stream=0 # the tests check.streams.*
"$build/tigon" check --quick >"$build/streams.txt" || echo "the checker fails: see $build/streams.txt"
"$build/tigon" check softmax_forward >"$build/long.txt" || echo "the checker fails: see $build/long.txt"
exec python3 "$(dirname "$0")/coverage.py" "$source" "$build"
