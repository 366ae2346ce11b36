#!/bin/sh
# AddressSanitizer and UndefinedBehaviorSanitizer: builds, then runs the test programs and the checker on its quick cases.
# The kernels are those of this machine's highest level; or of all LEVELS, and then on any number of threads as well. The model
# of the NPU stays away: no test here runs it.
#   address.sh SOURCE_DIR BUILD_DIR TIGON [LEVELS]
set -eu
elsewhere='^(threads\.same_bits|core\.schema)' # the one runs with the other sanitizer, the other's calls are those of the fuzz
[ $# -lt 4 ] || elsewhere='^$'
levels=${4-$(TIGON_CPU_MAX= "$3" info --json | sed -n 's/.*"cpu_level": "\([^"]*\)".*/\1/p')}
[ "$levels" != v4bf16 ] || levels="v4;v4bf16" # which has few implementations of its own
cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Sanitize "-DTIGON_SANITIZE=address;undefined" "-DTIGON_ONLY_LEVELS=$levels" \
    -DTIGON_ASCEND_MODEL=OFF >/dev/null
cmake --build "$2" -j 2 --target test_programs >"$2/build.log" 2>&1 || { tail -50 "$2/build.log"; exit 1; }
export ASAN_OPTIONS="detect_stack_use_after_return=0:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1"
exec ctest --test-dir "$2" -j 2 --output-on-failure --no-tests=error -E "$elsewhere"
