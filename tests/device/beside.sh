#!/bin/sh
# A backend that lies beside libtigon, as libtigon_<device>.so, is loaded when its device is chosen, and not before.
#   beside.sh TIGON_COMMAND libtigon.so libtoy.so libabsent.so
set -eu
tigon=$1
unset TIGON_DEVICE TIGON_BACKEND_PATH TIGON_IMPL TIGON_STRICT 2>/dev/null || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*"
    [ ! -s "$work/out" ] || tail -20 "$work/out"
    exit 1
}
cp "$2" "$work/libtigon.so"
cp "$3" "$work/libtigon_toy.so"
echo "no library" >"$work/libtigon_torn.so"
LD_PRELOAD=$work/libtigon.so
export LD_PRELOAD

TIGON_DEVICE=toy "$tigon" check --quick softmax >"$work/out" 2>&1 || fail "TIGON_DEVICE=toy"
grep -q 'toy/softmax_forward' "$work/out" || fail "the toy's implementations did not run"
"$tigon" info >"$work/out" 2>&1
grep -q toy "$work/out" && fail "it is loaded though nobody chose its device"
TIGON_TOY_SETTING=1 TIGON_TOI_SETTING=1 "$tigon" info >"$work/out" 2>&1
grep -q 'nobody reads TIGON_TOY_SETTING' "$work/out" && fail "names of a backend that is not loaded yet are judged"
grep -q 'nobody reads TIGON_TOI_SETTING' "$work/out" || fail "a name that nobody can read is not told"
[ "$(grep -c 'not a setting of Tigon' "$work/out")" = 1 ] || fail "tigon info judges names otherwise than the log"
TIGON_DEVICE=torn "$tigon" info >"$work/out" 2>&1 && fail "a torn library is no error"
grep -q 'libtigon_torn.so: cannot be loaded: ' "$work/out" || fail "the error does not name the file"
TIGON_DEVICE=none "$tigon" info >"$work/out" 2>&1 && fail "a device that nobody serves is no error"
grep -q 'no backend serves device none' "$work/out" || fail "the error does not name the device"
# Of what a build may leave out it is said what builds it, and where it was looked for.
TIGON_DEVICE=cuda "$tigon" info >"$work/out" 2>&1 && fail "a library that is not there is no error"
for text in 'TIGON_DEVICE: no backend serves device cuda' 'make cuda' 'pip install . -C cmake.define.TIGON_CUDA=ON' \
    "looked for: $work/libtigon_cuda.so"; do
    grep -qF "$text" "$work/out" || fail "TIGON_DEVICE=cuda does not say \"$text\""
done
"$tigon" doctor >"$work/out" || fail "tigon doctor without the library"
grep -q '^cuda  *cannot be used: its library is not here' "$work/out" || fail "tigon doctor does not miss the library"
TIGON_DEVICE=cuda "$tigon" doctor >"$work/out" && fail "tigon doctor is content with a device that nobody serves"
head -1 "$work/out" | grep -q '^No call can run: TIGON_DEVICE: no backend serves device cuda' || fail "tigon doctor's verdict"
grep -q '^cpu  *ready: TIGON_DEVICE=cpu chooses it' "$work/out" || fail "tigon doctor does not tell what would do"

# A library that is there without its driver: list and doctor tell what it has, and why that is not available.
cp "$4" "$work/libtigon_cuda.so"
"$tigon" list softmax_forward >"$work/out" || fail "tigon list beside a library without a driver"
grep -q '^  cuda/softmax_forward.card  *device cuda  (not available here)' "$work/out" || fail "tigon list leaves its implementations out"
grep -q '^  device cuda: there is no card for this test' "$work/out" || fail "tigon list does not tell why"
"$tigon" list --json softmax_forward >"$work/out"
grep -q '"supported": false, "why_not": "cuda: there is no card for this test"' "$work/out" || fail "tigon list --json"
"$tigon" doctor >"$work/out" || fail "tigon doctor beside a library without a driver"
head -1 "$work/out" | grep -q '^Calls run on cpu[^e]*nothing is missing' || fail "tigon doctor's verdict on the CPU"
grep -q '^cuda  *cannot be used: there is no card for this test' "$work/out" || fail "tigon doctor does not tell why"
grep -q "library $work/libtigon_cuda.so: 1 implementations" "$work/out" || fail "tigon doctor does not tell which library"
TIGON_DEVICE=../toy "$tigon" info >"$work/out" 2>&1 && fail "a path passes for a device"
grep -q 'no backend serves device ../toy' "$work/out" || fail "the error does not name the path"
echo passed
