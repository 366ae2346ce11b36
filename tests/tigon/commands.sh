#!/bin/sh
# The command line: help, wrong usage, and JSON that is JSON, with the fields that bindings are generated from.
#   commands.sh TIGON
set -eu
tigon=$1
fail() {
    echo "$1"
    exit 1
}
expect() { # STATUS ARGUMENTS...
    wanted=$1
    shift
    status=0
    output=$("$tigon" "$@" 2>&1) || status=$?
    [ "$status" -eq "$wanted" ] || fail "tigon $*: exit status $status, expected $wanted: $output"
}
expect 0 --help
expect 0 --version
expect 2
expect 2 no-such-command
for command in $("$tigon" --help | awk '/^  [a-z]/ { print $1 }'); do
    expect 0 "$command" --help
    case $output in *"usage: tigon $command"*) ;; *) fail "tigon $command --help: no usage line" ;; esac
    case $output in *--json*) ;; *) fail "tigon $command has no --json" ;; esac
    expect 2 "$command" --no-such-option
done
expect 0 info
expect 0 list
expect 0 list --resolve rms_norm
expect 2 list no_such_operator
expect 2 list --matrix no_such_operator
expect 2 list --matrix --resolve
expect 2 list --markdown
expect 2 list --matrix --json --markdown
expect 2 list --matrix --update x.md softmax
expect 0 list --matrix swiglu_forward
case $output in *"swiglu "*forward*"f32 bf16 f16"*) ;; *) fail "tigon list --matrix swiglu_forward: $output" ;; esac
# The doctor: a verdict first, a block a device, the operators when they are asked for; whose each implementation is.
expect 0 doctor
case $output in "Calls run on cpu"*"nothing is missing"*"
cpu "*"calls run here; level v"*"
cuda "*"cannot be used: "*"
npu "*) ;; *) fail "tigon doctor: $output" ;; esac
[ "$(echo "$output" | wc -l)" -lt 40 ] || fail "tigon doctor is long: $output"
case $output in *softmax_forward*) fail "tigon doctor tells of operators: $output" ;; esac
expect 0 doctor --operators
case $output in *"  softmax_forward "*"cpu/softmax_forward."*"the CPU's"*) ;; *) fail "tigon doctor --operators: $output" ;; esac
TIGON_IMPL=unfused expect 0 doctor soft rms
case $output in *with\ TIGON_IMPL=unfused*rms_norm_forward*unfused/softmax_forward*"unfused's"*) ;; *) fail "TIGON_IMPL=unfused tigon doctor: $output" ;; esac
TIGON_IMPL=nobody expect 1 doctor
case $output in "No call can run: TIGON_IMPL: there is no backend nobody"*) ;; *) fail "TIGON_IMPL=nobody tigon doctor: $output" ;; esac
# Settings of memory: what is measured, and what is no setting.
expect 0 tune --mib 1 --rounds 1 --json
for name in pass exps rows stream; do
    case $output in *'"name": "'$name'", "now": '[0-9]*) ;; *) fail "tigon tune --json: no $name: $output" ;; esac
done
case $output in *'"TIGON_TUNE": "'*) ;; *) fail "tigon tune --json: no advice: $output" ;; esac
expect 2 tune --rounds 0
expect 2 tune --mib -1
TIGON_TUNE=pass=4096,stream=0 expect 0 tune --mib 1 --rounds 1 --json
case $output in *'"name": "pass", "now": 4096'*'"name": "stream", "now": 0,'*) ;; *) fail "TIGON_TUNE is not what is set: $output" ;; esac
for wrong in pass=x pass= pass passes=1 stream=0,exps=-1; do
    TIGON_TUNE=$wrong expect 1 info
    case $output in *TIGON_TUNE*) ;; *) fail "TIGON_TUNE=$wrong: $output" ;; esac
done
# What is asked for is done, or it is a failure.
expect 0 check softmax_forward cpu/softmax_backward
for nothing in cpu/softmax_forward.v9 no_such_operator no/softmax_forward; do
    expect 2 check "$nothing"
    case $output in *"\"$nothing\""*) ;; *) fail "tigon check $nothing: $output" ;; esac
    expect 2 check swiglu "$nothing"
    expect 2 check --list "$nothing"
done
expect 2 check --sweep 0 softmax
expect 2 check --sweep -3 softmax
expect 2 check --list --sweep 3 softmax
# An operator is named by the beginning of its name, never by an empty one; each name stands for something.
for command in list check numerics bench "bench --dispatch" doctor report profile ub-check plot; do
    # shellcheck disable=SC2086
    expect 2 $command ""
    case $output in *"a name is empty"*) ;; *) fail "tigon $command \"\": $output" ;; esac
done
for command in list numerics "numerics --list" bench "bench --dispatch"; do
    # shellcheck disable=SC2086
    expect 2 $command softmax no_such_operator
    case $output in *"no operator begins with \"no_such_operator\""*) ;; *) fail "tigon $command: $output" ;; esac
done
for command in profile report; do
    expect 2 $command no_such_operator
    case $output in *"no operator begins with \"no_such_operator\""*) ;; *) fail "tigon $command: $output" ;; esac
done
expect 2 report s
case $output in *"more than 8 operators begin with \"s\""*) ;; *) fail "tigon report s: $output" ;; esac
# Nor is a value empty, or a word of a list.
for wrong in "check --device=" "check --backend=" "list --update=" "bench --provider=" "ub-check --soc=" "ub-check --liger=" \
    "report swiglu --output=" "plot --operator=" "bench --dtype f32, dyt" "bench --mode ,full dyt" "bench --size small,,large dyt" \
    "bench --provider tigon, dyt" "bench --cache warm, dyt" "check --types f32, dyt"; do
    # shellcheck disable=SC2086
    expect 2 $wrong
    case $output in *"is empty"*) ;; *) fail "tigon $wrong: $output" ;; esac
done
expect 0 check --help
case $output in *"cpu, cuda, npu, npu-model"*) ;; *) fail "tigon check --help does not name the devices: $output" ;; esac
expect 2 check --types f64 softmax
expect 2 check --types "" softmax
expect 0 check --types f16,f32 softmax_forward
case $output in *bf16*) fail "tigon check --types f16,f32 runs bf16: $output" ;; esac
names=$("$tigon" list softmax_forward | awk '$1 ~ /^cpu\// { print $1 }')
best=${names%%"
"*} lowest=${names##*.}
if [ "${best##*.}" != "$lowest" ]; then # one of two names is left out: this processor is held to the lowest level
    TIGON_CPU_MAX=$lowest && export TIGON_CPU_MAX
    expect 1 check softmax_forward "$best"
    case $output in *"nothing was run for $best"*) ;; *) fail "tigon check softmax_forward $best: $output" ;; esac
    unset TIGON_CPU_MAX
fi
expect 0 numerics --list
expect 2 numerics no_such_operator
expect 2 numerics --all --markdown
expect 2 numerics --json --list
expect 2 numerics --update x.md softmax
expect 0 numerics softmax
case $output in *"cpu/softmax_backward"*unfused*) ;; *) fail "tigon numerics softmax: $output" ;; esac
TIGON_CPU_MAX=v99 && export TIGON_CPU_MAX
expect 1 info
case $output in *TIGON_CPU_MAX*) ;; *) fail "tigon info does not explain a wrong TIGON_CPU_MAX: $output" ;; esac
unset TIGON_CPU_MAX

# Documents are updated between their markers and nowhere else.
document=$(mktemp)
trap 'rm -f "$document"' EXIT
printf 'before\n<!-- tigon list: matrix -->\nold\n' >"$document"
if "$tigon" numerics --update "$document" 2>/dev/null; then fail "numerics --update of a document without markers succeeds"; fi
grep -q old "$document" || fail "numerics --update changes a document without markers"

command -v python3 >/dev/null || exit 0
"$tigon" list --json --matrix swiglu_forward 2>/dev/null | python3 -c '
import json, sys
cells = json.load(sys.stdin)["cells"]
assert {(c["operator"], c["direction"]) for c in cells} == {("swiglu", "forward")}, cells
assert {c["dtype"] for c in cells} == {"f32", "bf16", "f16"}
assert {"cpu", "ref", "unfused"} <= {c["backend"] for c in cells}
assert all(c["state"] == "verified" for c in cells if c["backend"] in ("cpu", "ref")), cells
'
"$tigon" numerics --json softmax_forward | python3 -c '
import json, sys
records = json.load(sys.stdin)["records"]
assert {r["dtype"] for r in records} == {"f32", "bf16", "f16"}
for r in records:
    assert r["implementation"].startswith("cpu/softmax_forward") and r["output"] == "y", r
    assert 0 <= r["mean_ulp"] <= r["max_ulp"] < 100 and r["wrong"] == 0 <= r["unfused"]["max_ulp"], r
'
# The study of the true class's gradient is of the probabilities that it names.
"$tigon" numerics --json cross_entropy_forward | python3 -c '
import json, sys
found = [g["p"] for g in json.load(sys.stdin)["true_class_gradient"]]
assert all(abs(p - q) < 0.01 * (1 - q) + 3e-4 for p, q in zip(found, (0.9, 0.99, 0.999), strict=True)), found
'
"$tigon" info --probe --json | python3 -c '
import json, sys
measured = json.load(sys.stdin)["measured"]
assert measured["copy_gbps"] > 0.1 and measured["products_gflops"] > 0.1, measured
' || fail "tigon info --probe measures nothing"
"$tigon" doctor --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["verdict"].startswith("Calls run on cpu") and d["device"] == "cpu", d
cpu = next(x for x in d["devices"] if x["device"] == "cpu")
assert cpu["chosen"] and cpu["ready"] and cpu["own"] + cpu["composed"] == len(d["operators"]) > 50, cpu
for x in d["devices"]:
    counted = x["own"] + x["composed"] + x["of_cpu"] + x["of_cpu_copied"] + x["none"]
    assert counted == (len(d["operators"]) if x["ready"] else 0) and x["ready"] == (x["why"] is None), x
for op in d["operators"]: # what is the CPU'"'"'s is not called the device'"'"'s
    for x in op["devices"]:
        impl, why = x["implementation"], x["why"]
        assert ("own" in why) == (x["device"] != "cpu" and not impl.startswith("cpu/")), (op["name"], x)
'
"$tigon" info --json | python3 -c '
import json, sys
info = json.load(sys.stdin)
assert info["version"] and info["probes"] and info["backends"], info
assert all({"device", "count", "why"} <= set(p) for p in info["probes"])
'
"$tigon" list --json --resolve | python3 -c '
import json, sys
kinds = {"in", "opt", "out", "out_opt", "f64", "i64"}
schema = json.load(sys.stdin)
operators = schema["operators"]
assert len(operators) > 10
for op in operators:
    names = [a["name"] for a in op["arguments"]]
    assert len(set(names)) == len(names) > 0, op
    assert all(a["kind"] in kinds for a in op["arguments"]), op
    assert all(a.get("over", names[0]) in names for a in op["arguments"]), op
    for a in op["arguments"]:
        if a["kind"] in ("f64", "i64"):
            assert ("default" in a) + ("default_text" in a) + a.get("required", False) == 1, (op["name"], a)
            assert "values" not in a or a["default"] in a["values"].values(), (op["name"], a)
        else:
            assert a["dtypes"] and a["types"] in schema["types"], (op["name"], a)
    assert all(r["supported"] or r["why_not"] for r in op["implementations"]), op
    assert op["implementations"], op["name"] + " has no implementations"
    assert all({"name", "backend", "needs"} <= set(r) for r in op["implementations"]), op
    assert any(r["backend"] == "ref" for r in op["implementations"]), op["name"] + " has no reference"
    assert set(op["resolved"]) <= {r["name"] for r in op["implementations"]}, op
    for a in op["arguments"]:
        tensor = a["kind"] not in ("f64", "i64")
        assert tensor == ("types" in a) == ("layout" in a) == ("shape" in a), a
loss = next(op for op in operators if op["name"] == "cross_entropy_forward")["arguments"]
assert loss[1]["dtypes"] == ["i64", "i32"] and loss[0]["layout"] == "planes", loss
rms = next(op for op in operators if op["name"] == "rms_norm_forward")
assert [(a["name"], a["kind"]) for a in rms["arguments"]] == [
    ("x", "in"), ("weight", "opt"), ("gate", "opt"), ("scale", "opt"), ("shift", "opt"), ("y", "out"), ("rstd", "out_opt"),
    ("eps", "f64"), ("offset", "f64"), ("casting_mode", "i64")], rms
argument = lambda op, name: next(a for o in operators if o["name"] == op for a in o["arguments"] if a["name"] == name)
assert argument("rms_norm_forward", "eps")["default"] == 1e-6
assert argument("rms_norm_forward", "x")["dtypes"] == ["f32", "bf16", "f16", "f64"]
assert argument("rms_norm_forward", "casting_mode")["values"] == {"llama": 0, "gemma": 1, "none": -1}
assert argument("cross_entropy_forward", "reduction")["values"] == {"mean": 0, "sum": 1, "none": 2}
assert argument("grpo_loss_forward", "delta")["default"] == "inf"
assert argument("flash_attention_forward", "scale")["default_text"] == "1 / sqrt(D)"
assert argument("adamw", "step")["required"]
npu = [r for op in operators for r in op["implementations"] if r["device"] == "npu"]
assert all(not r["supported"] and "libascendcl.so" in r["why_not"] for r in npu), npu
'
