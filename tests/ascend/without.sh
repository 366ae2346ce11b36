#!/bin/sh
# The library and the command are built and linked without backends/ascend, whose folder is not even there: the planner is the
# library's own, and no other part needs the backend.
#   without.sh CMAKE SOURCE_DIR COMPILER [CMAKE_OPTION...]
set -eu
cmake=$1
source=$2
export CC="$3"
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_BASEDIR="$work/tree"
sh "$(dirname "$0")/../common/copy_tree.sh" "$source" "$work/tree" backends/ascend
fail() {
    echo "FAILED: $1"
    cat "$work/log"
    exit 1
}
"$cmake" -S "$work/tree" -B "$work/tree/build" -DTIGON_ASCEND=OFF -DTIGON_TESTS=OFF -DTIGON_ONEDNN=OFF -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs "$@" >"$work/log" 2>&1 || fail "configure"
"$cmake" --build "$work/tree/build" -j 2 --target tigon_command >"$work/log" 2>&1 || fail "build"
tigon=$work/tree/build/tigon
"$tigon" ub-check --soc 910B1 --shape 1024x4096 --buffer x:4x2 >"$work/log" || fail "the planner"
grep -q 'fits' "$work/log" || fail "the planner says nothing"
"$tigon" list --json >"$work/log" || fail "tigon list"
if grep -q ascend "$work/log"; then
    fail "an operator has an implementation of ascend"
fi
if "$tigon" report swiglu >"$work/log" 2>&1; then
    fail "tigon report has a kernel to report on"
fi
grep -q 'has no kernel on npu-model' "$work/log" || fail "tigon report says something else"
echo "linked without backends/ascend"
