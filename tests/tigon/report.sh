#!/bin/sh
# tigon report: seven points with numbers of runs and plans, in three formats; operators that do not exist.
#   report.sh TIGON SOURCE_DIR
set -eu
tigon=$1
source=$2
unset TIGON_SOC TIGON_DEVICE TIGON_IMPL ASCEND_UB_CAPACITY_BITS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$1"
    exit 1
}
has() { # FILE PATTERN
    grep -qE "$2" "$1" || fail "no \"$2\" in: $(cat "$1")"
}
refuses() { # STATUS TEXT ARGUMENTS...
    wanted=$1
    text=$2
    shift 2
    status=0
    output=$("$tigon" report "$@" 2>&1) || status=$?
    [ "$status" -eq "$wanted" ] || fail "tigon report $*: exit status $status, expected $wanted: $output"
    case $output in *"$text"*) ;; *) fail "tigon report $*: no \"$text\" in: $output" ;; esac
}

refuses 2 "expected an operator"
refuses 2 "no operator begins with \"no_such\"" no_such
refuses 2 "expected one of them" swiglu --json --markdown
refuses 2 "expected f32, bf16 or f16" swiglu --dtype f64
refuses 2 "--all: expected --output FOLDER" --all
refuses 2 "--all: expected --output FOLDER" --all swiglu --output "$work"
refuses 2 "expected a folder with --all" --all --output "$work/none"
refuses 1 "the model has no chip 950" swiglu --soc 950
refuses 1 "cannot be written" swiglu_forward --output "$work/no/such/folder"

"$tigon" report swiglu_forward --output "$work/text"
heading=0
for text in Files "API map" "NPU optimisations" "Tiling and launch" "Parity, forward and backward" Performance Risks; do
    heading=$((heading + 1))
    has "$work/text" "^$heading $text$"
done
has "$work/text" 'kernels/swiglu\.asc\.c +[0-9]+'
has "$work/text" 'asc_exp +2 +arithmetic \(V\) +swiglu_forward_tile swiglu\.asc\.c:[0-9]+, :[0-9]+'
has "$work/text" 'double buffering +yes +gate, up, y; V, MTE2, MTE3 busy [0-9.]+ '
has "$work/text" 'swiglu_forward_f32, large: .*each takes every 40th of [0-9]+ tasks'
has "$work/text" 'ascendmodel/swiglu_forward +bf16 +[1-9][0-9]* +0 '
has "$work/text" 'large +F=8192 R=[0-9]+ +model +[1-9][0-9.]+ '

command -v python3 >/dev/null || exit 0
"$tigon" report swiglu --json --soc Ascend910B1 --dtype bf16 | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert list(r)[1:] == ["files", "api", "optimisations", "tiling", "parity", "performance", "risks"], list(r)
runs = r["performance"]["runs"]
assert [(x["operator"], x["shapes"]) for x in runs] == [
    ("swiglu_" + d, s) for d in ("forward", "backward") for s in ("small", "medium", "large")], runs
for x in runs:
    assert x["clock"] == "model" and x["dtype"] == "bf16" and 0 < x["low us"] <= x["steady us"] <= x["high us"], x
    assert x["first us"] > 0, x
    assert x["MB copied"] >= 0.99 * x["MB needed"] > 0, x
assert all(x["blocks"] == 48 for x in r["tiling"]["launches"] if x["shapes"] == "large"), r["tiling"]
assert {(x["implementation"], x["dtype"]) for x in r["parity"]["implementations"]} == {
    ("ascendmodel/swiglu_" + d, t) for d in ("forward", "backward") for t in ("f32", "bf16", "f16")}, r["parity"]
assert all(x["failed"] == 0 < x["passed"] for x in r["parity"]["implementations"]), r["parity"]
uses = {(x["operator"], x["call"]): x["uses"] for x in r["api"]["calls"]}
assert uses["swiglu_backward", "asc_exp"] == 2 and uses["swiglu_backward", "asc_copy_gm2ub_align"] == 1, uses
'
"$tigon" report swiglu_forward --markdown | grep -q '^## 7 Risks$' || fail "Markdown has no heading"

# The committed pages: each operator that has a kernel is in one.
for operator in $(sed -n 's/^OPERATOR(\([a-z0-9_]*\),.*/\1/p' "$source/backends/ascend/operators.inc"); do
    grep -qw "$operator" "$source"/docs/results/npu/*.md ||
        fail "docs/results/npu: no report of $operator; build/tigon report --all --output docs/results/npu writes them"
done
