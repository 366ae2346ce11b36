#!/bin/sh
# The build with CANN, with a stand-in for its compiler that keeps what it is told: every kernel is compiled with the options that its
# tiles and its flags hang on, and the library knows when one of them is left out.
#   bisheng.sh CMAKE SOURCE_DIR COMPILER
set -eu
cmake=$1
source=$2
export CC="$3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    cat "$work/told" 2>/dev/null || true
    exit 1
}
cat >"$work/bisheng" <<'SH'
#!/bin/sh
echo "$*" >>"$(dirname "$0")/told"
while [ $# -gt 1 ]; do
    [ "$1" != -o ] || echo object >"$2"
    shift
done
SH
chmod +x "$work/bisheng"
build() { # CMAKE_OPTIONS...
    rm -rf "$work/build" "$work/told"
    "$cmake" -S "$source" -B "$work/build" -DTIGON_ASCEND_CANN=ON -DTIGON_BISHENG="$work/bisheng" -DTIGON_ONEDNN=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
        -DTIGON_ASCEND_MODEL=OFF -DTIGON_ONLY_LEVELS=v2 "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "configure"; }
    "$cmake" --build "$work/build" --target tigon_ascend_kernels >"$work/log" 2>&1 || { cat "$work/log"; fail "build"; }
    for kind in "" cube_ mix_; do
        [ -s "$work/build/tigon_ascend_${kind}kernels.o" ] || fail "no object file tigon_ascend_${kind}kernels.o for the card"
    done
}
kernels=$(find "$source/backends/ascend/kernels" -name '*.asc.c' | wc -l)
compiled_with() { # OPTION: how many kernels were
    grep -e "-x asc -c" "$work/told" | grep -c -e " $1 " || true
}

build
for option in --npu-arch=dav-2201 --cce-auto-sync=off --cce-disable-asc-reserved-ubuf; do
    [ "$(compiled_with $option)" = "$kernels" ] || fail "$option: not all of $kernels kernels are compiled with it"
done
grep -q -- '-DASCEND_RESERVED_UBUF=0' "$work/build/compile_commands.json" || fail "the library does not know of the option"

build -DTIGON_ASCEND_RESERVED_UBUF=ON
[ "$(compiled_with --cce-disable-asc-reserved-ubuf)" = 0 ] || fail "the option is passed though it should not be"
[ "$(compiled_with --cce-auto-sync=off)" = "$kernels" ] || fail "--cce-auto-sync=off is lost"
grep -q -- '-DASCEND_RESERVED_UBUF=1' "$work/build/compile_commands.json" || fail "the library does not know that the option is left out"
echo "$kernels kernels, compiled as the planner takes them to be"
