#!/bin/sh
# ThreadSanitizer: builds without oneDNN, which is not instrumented, and runs all tests of such a build, those of threads.
#   thread.sh SOURCE_DIR BUILD_DIR
set -eu
cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Sanitize -DTIGON_SANITIZE=thread -DTIGON_ONEDNN=OFF -DTIGON_ONLY_LEVELS=v3 >/dev/null
cmake --build "$2" -j 2 --target test_programs >"$2/build.log" 2>&1 || { tail -50 "$2/build.log"; exit 1; }
export TSAN_OPTIONS="halt_on_error=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
exec ctest --test-dir "$2" -j 2 --output-on-failure --no-tests=error
