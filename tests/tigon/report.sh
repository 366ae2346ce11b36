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
for text in Files "API map" "NPU optimisations" "Tiling and launch" "Parity, forward and backward" Performance "Risks and next steps"; do
    heading=$((heading + 1))
    has "$work/text" "^$heading $text$"
done
has "$work/text" 'swiglu_forward +Liger function +liger_kernel\.ops\.swiglu\.LigerSiLUMulFunction\.forward +ctx, a, b, gate_multiplier=1\.0, '
has "$work/text" 'swiglu_forward +Liger kernel \(Triton\) +liger_kernel\.ops\.swiglu\._swiglu_forward_kernel +a_ptr, '
has "$work/text" 'swiglu_forward +Tigon +tg_swiglu_forward +in gate, opt up, out y'
has "$work/text" 'swiglu_forward +check on a card .* +tigon check --device npu --strict swiglu_forward'
has "$work/text" 'kernels/maps/swiglu\.asc\.c +[0-9]+'
has "$work/text" 'asc_exp +arithmetic +vector +6 +[1-9][0-9]* +[1-9][0-9.]* +0\.00 +swiglu_forward\.asc\.h:[0-9]+, :[0-9]+, swiglu_limited\.h:[0-9]+, :[0-9]+, '
has "$work/text" 'swiglu_forward_f32 +gate_multiplier +real +1$'
has "$work/text" 'double buffering +yes +up, gate; V, MTE2, MTE3 busy [0-9.]+ '
has "$work/text" 'swiglu_forward_f32, large: .*each takes every 40th of [0-9]+ tasks'
has "$work/text" 'ascendmodel/swiglu_forward +bf16 +[1-9][0-9]* +0 '
has "$work/text" 'large +F=8192 R=[0-9]+ +model +[1-9][0-9.]+ '

"$tigon" report multi_token_attention_forward --output "$work/groups" # of whose channels fewer fit than it has groups

command -v python3 >/dev/null || exit 0
"$tigon" report swiglu --json --soc Ascend910B1 --dtype bf16 >"$work/swiglu.json"
"$tigon" report poly_norm_forward --json >"$work/poly_norm.json" # its loop is asc_pipeline.asc.h, its steps are the family's
"$tigon" report fused_neighborhood_attention_forward --json >"$work/attention.json" # on cube cores and vector cores
python3 "$source/tests/tigon/report_record.py" "$source" "$work/swiglu.json" "$work/poly_norm.json" "$work/attention.json"
python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
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
times = {(x["operator"], x["call"]): x["times"] for x in r["api"]["calls"]}
tiles = {x["kernel"]: x["tasks"] for x in r["tiling"]["launches"] if x["shapes"] == "large"}
names = {(x["operator"], x["symbol"]): x["parameters"] for x in r["api"]["symbols"]}
assert names["swiglu_backward", "liger_kernel.ops.swiglu.swiglu_backward"] == "a, b, dc, gate_multiplier=1.0", names
steps = {x["operator"]: x["type"] for x in r["risks"]["steps"]}
assert set(steps) == {"swiglu_forward", "swiglu_backward"} and all(t.startswith("tigon ") for t in steps.values()), steps
# A tile of swiglu: two or three copies in, one or two out, two exponentials; widened from bf16, never from f16.
n = tiles["swiglu_forward_bf16"], tiles["swiglu_backward_bf16"]
for call, forward, backward in (("asc_copy_gm2ub_align", 2, 3), ("asc_copy_ub2gm_align", 1, 2), ("asc_exp", 2, 2), ("asc_half2float", 0, 0)):
    assert times["swiglu_forward", call] == forward * n[0] and times["swiglu_backward", call] == backward * n[1], (call, times, n)
assert times["swiglu_forward", "asc_bfloat162float"] == 2 * n[0], times
given = {x["argument"]: x["given"] for x in r["api"]["arguments"] if x["kernel"] == "swiglu_forward_bf16"}
assert list(given) == ["gate", "up", "y", "gate_multiplier", "down_multiplier"], given
assert given["gate"] == given["y"] and given["gate"].endswith(" bytes") and given["gate_multiplier"] == 1, given
' "$work/swiglu.json"
"$tigon" report swiglu_forward --markdown | grep -q '^## 7 Risks and next steps$' || fail "Markdown has no heading"

# What is said of Liger's symbols is what tigon.liger has under the same names: parameters and defaults, and no more than more of them.
python3 - "$source" <<'END'
import ast, pathlib, re, sys
source = pathlib.Path(sys.argv[1])
table = re.findall(r'LIGER\((\w+), "([\w.]+)", FUNCTION, "([\w.]+)",\s*((?:"[^"]*"\s*)+)\)', (source / "tools/tigon/report/liger.inc").read_text())
compared = 0
for op, module, name, text in table:
    file = source / "bindings/python/tigon/liger/ops" / (module.split(".")[-1] + ".py")
    found = {}
    for node in ast.parse(file.read_text()).body:
        for f, prefix in [(node, "")] + [(g, node.name + ".") for g in getattr(node, "body", []) if isinstance(node, ast.ClassDef)]:
            if isinstance(f, ast.FunctionDef):
                for a in f.args.args + f.args.kwonlyargs:
                    a.annotation = None
                found[prefix + f.name] = ast.unparse(f.args)
    parameters = "".join(re.findall(r'"([^"]*)"', text))
    if name in found and not name.endswith(".backward"):  # autograd hands over what comes back by its place
        assert (found[name].lower() + ",").startswith(parameters.lower() + ","), f"{name}: tigon.liger has ({found[name]}), the report ({parameters})"
        compared += 1
assert compared > 30, compared
END

# The committed pages: each operator that has a kernel is in one.
for operator in $(sh "$source/tests/ascend/operators.sh" "$source"); do
    grep -qw "$operator" "$source"/docs/results/npu/*.md ||
        fail "docs/results/npu: no report of $operator; build/tigon report --all --output docs/results/npu writes them"
done
