#!/bin/sh
# A backend that lies beside libtigon, as libtigon_<device>.so, is loaded when its device is chosen, and not before.
#   beside.sh TIGON_COMMAND libtigon.so libtoy.so
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
TIGON_DEVICE=../toy "$tigon" info >"$work/out" 2>&1 && fail "a path passes for a device"
grep -q 'no backend serves device ../toy' "$work/out" || fail "the error does not name the path"
echo passed
