#!/bin/sh
# tigon profile --published, --compare: the calls of the document's table, the increment that the model is held to, what it refuses.
#   profile.sh TIGON SOURCE_DIR
set -eu
tigon=$1
unset TIGON_SOC TIGON_DEVICE TIGON_IMPL ASCEND_UB_CAPACITY_BITS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$1"
    exit 1
}
refuses() { # TEXT ARGUMENTS...
    text=$1
    shift
    status=0
    output=$("$tigon" profile "$@" 2>&1) || status=$?
    [ "$status" -eq 2 ] || fail "tigon profile $*: exit status $status, expected 2: $output"
    case $output in *"$text"*) ;; *) fail "tigon profile $*: no \"$text\" in: $output" ;; esac
}
# A trace is written if it is asked for, and not without bound.
"$tigon" profile geglu_backward --size small --out "$work/profile" >"$work/out"
grep -q "first us  *steady us" "$work/out" || fail "no steady state"
[ ! -e "$work/profile/trace.json" ] || fail "a trace is written that nobody asked for"
output=$("$tigon" profile geglu_backward --size large --out "$work/profile" --trace 2>&1)
case $output in *"trace.json holds the first instructions; "*" are left out"*) ;; *) fail "no word on the rest: $output" ;; esac
[ "$(wc -c <"$work/profile/trace.json")" -lt 60000000 ] || fail "trace.json is too large"
python3 -m json.tool "$work/profile/trace.json" >/dev/null || fail "trace.json is no JSON"
refuses "expected an operator"
refuses "--published: found another call" --published swiglu
refuses "--published: found another call" --published --size small
refuses "--ten: found another call" --ten swiglu
refuses "--compare: found another call" --compare x --ten
refuses "--json: not with --ten or --compare" --compare x --json
refuses "--device is npu, expected npu-model" --device npu swiglu
echo "Op Name,Block Dim" >"$work/other.csv"
output=$("$tigon" profile --compare "$work/other.csv" 2>&1) && fail "times that are not there are compared"
case $output in *'has no columns "Op Name" and "Task Duration(us)"'*) ;; *) fail "no word on the columns: $output" ;; esac
refuses "--update: expected with --published" swiglu --update x
refuses "--update: expected with --published" --published --json --update x

"$tigon" profile --published --update "$work/none" 2>/dev/null && fail "a document that is not there was written"
page=docs/results/model-kernels.md
cp "$2/$page" "$work/document.md"
"$tigon" profile --published --update "$work/document.md"
# Times follow the kernels; the calls and what is published of them do not.
calls() {
    sed -n '/^<!-- tigon profile: published/,/^<!-- end: tigon/p' "$1" | cut -d'|' -f1-7
}
calls "$2/$page" >"$work/found"
calls "$work/document.md" >"$work/expected"
diff "$work/found" "$work/expected" || fail "$page: build/tigon profile --published --update $page writes it"

# Liger's forward from 1024 to 2048 columns: 42 +- 10 us. Launches of next to nothing: within a microsecond or two.
"$tigon" profile --published --json | python3 -c '
import json, sys
calls = json.load(sys.stdin)["calls"]
increment = [r for r in calls if r["less"] and r["operator"] == "fused_add_rms_norm_forward"]
assert len(increment) == 1 and 32 <= increment[0]["model_us"] <= 52, increment
small = [r for r in calls if not r["less"] and r["us"] < 4]
assert len(small) >= 4, small
for r in small:
    assert abs(r["model_us"] - r["us"]) < 2, r
'
