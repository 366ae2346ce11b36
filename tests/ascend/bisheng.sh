#!/bin/sh
# The build with CANN, with stand-ins for its compiler and its linker. Each of them refuses what would not give code that the run time of a
# card loads, and keeps what it is told: every kernel is compiled once, as device code alone, with the options that its tiles and its
# flags hang on, and linked once; the library knows when one of the options is left out.
#   bisheng.sh CMAKE SOURCE_DIR COMPILER
set -eu
cmake=$1
source=$2
export CC="$3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    cat "$work/told" "$work/log" 2>/dev/null || true
    exit 1
}
. "$source/tests/ascend/cann.sh"
make_cann "$work/cann"
export TOLD="$work/told"

configure() { # CMAKE_OPTIONS...
    rm -rf "$work/build" "$work/told"
    ASCEND_HOME_PATH="$work/cann" "$cmake" -S "$source" -B "$work/build" -DTIGON_ASCEND_CANN=ON -DTIGON_ONEDNN=OFF \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTIGON_ASCEND_MODEL=OFF -DTIGON_ONLY_LEVELS=v2 "$@" >"$work/log" 2>&1
}
build() { # CMAKE_OPTIONS...
    configure "$@" || fail "configure"
    "$cmake" --build "$work/build" --target tigon_ascend_kernels >"$work/log" 2>&1 || fail "build"
}
kernels=$(find "$source/backends/ascend/kernels" -name '*.asc.c' | wc -l)
compiled_with() { # OPTION: how many kernels were
    grep -c -e "^bisheng.* $1 " "$work/told" || true
}

build
for option in --cce-auto-sync=off --cce-disable-asc-reserved-ubuf; do
    [ "$(compiled_with $option)" = "$kernels" ] || fail "$option: not all of $kernels kernels are compiled with it"
done
grep -q -- '-DASCEND_RESERVED_UBUF=0' "$work/build/compile_commands.json" || fail "the library does not know of the option"
for kind in "" cube_ mix_; do
    grep -q '^linked$' "$work/build/tigon_ascend_${kind}kernels.o" || fail "tigon_ascend_${kind}kernels.o cannot be loaded"
done
linked=$(cat "$work"/build/tigon_ascend_*kernels.o | grep '^device code of ' | sort -u | wc -l)
[ "$linked" = "$kernels" ] || fail "$linked of $kernels kernels are linked"

build -DTIGON_ASCEND_RESERVED_UBUF=ON
[ "$(compiled_with --cce-disable-asc-reserved-ubuf)" = 0 ] || fail "the option is passed though it should not be"
[ "$(compiled_with --cce-auto-sync=off)" = "$kernels" ] || fail "--cce-auto-sync=off is lost"
grep -q -- '-DASCEND_RESERVED_UBUF=1' "$work/build/compile_commands.json" || fail "the library does not know that the option is left out"

build "-DTIGON_ASCEND_DOUBTS=gaps;channels;sync"
for definition in ASC_AVOID_GAPS=1 ASC_AVOID_WIDE_CHANNELS=1 ASC_SYNC_AT_ADDRESS=1; do
    [ "$(compiled_with -D$definition)" = "$kernels" ] || fail "-D$definition: not all of $kernels kernels are compiled with it"
done
! configure -DTIGON_ASCEND_DOUBTS=everything || fail "a doubt that nobody has is taken"
grep -q 'expected a list of gaps' "$work/log" || fail "does not say which doubts there are"

# Another linker that is installed is not taken for CANN's.
rm "$work/cann/compiler/ccec_compiler/bin/ld.lld"
! configure || fail "a build without CANN's linker is configured"
grep -q 'no ld.lld' "$work/log" || fail "does not say that CANN's linker is missing"
echo "$kernels kernels, compiled as the planner takes them to be, linked as the run time takes them"
