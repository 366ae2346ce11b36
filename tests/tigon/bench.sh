#!/bin/sh
# tigon bench: its records, its sweeps in Liger's format, merging into a file of those, wrong usage.
#   bench.sh TIGON
set -eu
tigon=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "$1"
    exit 1
}
bench() {
    "$tigon" bench "$@" 2>"$folder/messages" || fail "tigon bench $*: exit status $?: $(cat "$folder/messages")"
}
wrong() {
    status=0
    "$tigon" bench "$@" >"$folder/out" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "tigon bench $*: exit status $status, expected 2: $(cat "$folder/out")"
}
wrong no_such_operator
wrong --mode sideways
wrong --dtype f8
wrong --cache lukewarm
wrong --sweep R
wrong --sweep R=8:4
wrong --csv somewhere
wrong --provider no_such_backend --size small rms_norm
wrong --size small,no_such_size rms_norm
# A name that means nothing to the operator is no size of it.
wrong --shape "Q=3" rms_norm
grep -q 'no operator of the group has a size "Q", expected one of R, N' "$folder/out" || fail "no size Q: $(cat "$folder/out")"
wrong --shape "r=3" rms_norm
# The value of an option is a number, or the name of a choice.
wrong --shape "B=1 S=2 Hq=1 Hk=1 D=8 P=2 C=4 pairing=sideways" rope
grep -q 'pairing is "sideways", expected the name or number of a choice' "$folder/out" || fail "pairing=sideways: $(cat "$folder/out")"
wrong --shape "eps=small" rms_norm
grep -q 'eps is "small", expected a number' "$folder/out" || fail "eps=small: $(cat "$folder/out")"

bench rms_norm --size small --rounds 3 --provider tigon,unfused,ref --json >"$folder/now.json"
bench rms_norm_forward --size small --rounds 3 --dtype f32 --cache cold --json >"$folder/cold.json"
bench rms_norm --size small --rounds 3 --dtype f16 >"$folder/table"
bench batched_gemm --size small,medium --rounds 3 --dtype f32 --mode forward --provider tigon --json >"$folder/sizes.json"
[ "$(grep -oE '"size": *"[a-z]*"' "$folder/sizes.json" | tr -dc 'a-z\n' | tr '\n' ' ')" = "sizesmall sizemedium " ] || fail "--size small,medium: $(grep -o '"size": *"[a-z]*"' "$folder/sizes.json")"
grep -q 'rms_norm  R=64 N=1024  f16, small' "$folder/table" || fail "no head in the table: $(cat "$folder/table")"
bench rms_norm --size small --rounds 3 --cache warm --baseline "$folder/now.json" --allow 1000 >/dev/null
bench rms_norm --dispatch --json >"$folder/dispatch.json"
bench rms_norm_forward --shape "N=100 casting_mode=1" --dtype f32 --cache warm --sweep R=8:32 --rounds 3 --csv "$folder/all.csv" >"$folder/sweep.json"
lines=$(wc -l <"$folder/all.csv")
cp "$folder/all.csv" "$folder/before.csv"
# What --csv writes is drawn as what --sweep prints.
"$tigon" plot --text "$folder/all.csv" >"$folder/of_csv" || fail "tigon plot cannot read what --csv writes"
"$tigon" plot --text "$folder/sweep.json" >"$folder/of_sweep"
cmp "$folder/of_csv" "$folder/of_sweep" || fail "other charts of all.csv: $(cat "$folder/of_csv")"
bench rms_norm_forward --shape "N=100 casting_mode=1" --dtype f32 --cache warm --sweep R=8:32 --rounds 3 --csv "$folder/all.csv" >/dev/null
cmp "$folder/all.csv" "$folder/before.csv" || fail "rows that were there did not stay"
bench rms_norm_forward --shape "N=100 casting_mode=1" --dtype f32 --cache warm --sweep R=8:64 --rounds 3 --csv "$folder/all.csv" --overwrite >/dev/null
[ "$(wc -l <"$folder/all.csv")" -eq $((lines + 4)) ] || fail "expected $((lines + 4)) lines: $(cat "$folder/all.csv")"

# Where rows do not know their batch: no oneDNN, and what that costs.
bench gemm --size small --rounds 3 --dtype f32 --provider tigon,invariant >"$folder/invariant"
grep -Eq '^ +invariant [0-9.]+ times as long as tigon' "$folder/invariant" || fail "no cost: $(cat "$folder/invariant")"
grep -E '^ .* invariant .*cpu/gemm' "$folder/invariant" | grep -q . || fail "no row: $(cat "$folder/invariant")"
if grep -E ' invariant .*cpu/gemm.(onednn|blas)' "$folder/invariant"; then fail "a product that knows its batch"; fi

command -v python3 >/dev/null || exit 0
cat >"$folder/verify.py" <<'END'
import csv, json, sys
folder = sys.argv[1]
records = json.load(open(folder + "/now.json")) + json.load(open(folder + "/cold.json"))
needed = """operator mode provider implementation dtype shape cache threads ms_20 ms_50 ms_80 bytes gbps
    fraction_of_limit limit_gbps_20 limit_gbps_80 flops gflops fraction_of_gemm peak_bytes""".split()
seen = set()
for r in records:
    assert not set(needed) - set(r), set(needed) - set(r)
    assert 0 < r["ms_20"] <= r["ms_50"] <= r["ms_80"], r
    assert r["correct"] is True or r["mode"] == "full", r
    assert 0 < r["limit_gbps_20"] <= r["limit_gbps"] <= r["limit_gbps_80"], r
    assert r["fraction_of_limit"] > 0 and r["bytes"] > 0 and r["peak_bytes"] > 0, r
    assert abs(r["gbps"] / (r["bytes"] / r["ms_50"] / 1e6) - 1) < 1e-6, r
    seen.add((r["operator"], r["mode"], r["provider"], r["dtype"], r["cache"]))
assert len(seen) == len(records) == 3 * 3 * 2 + 2, len(records)
backends = {"tigon": "cpu/", "unfused": "unfused/", "ref": "ref/"}
assert all(r["implementation"].startswith(backends[r["provider"]]) for r in records)

for r in json.load(open(folder + "/dispatch.json")):
    assert 0 < r["check_ns"] and 0 < r["call_ns"], r

sweep = json.load(open(folder + "/sweep.json"))
keys = """kernel_name kernel_provider metric_name metric_unit gpu_name x_name x_label x_values y_values_50 y_values_20
    y_values_80 timestamp kernel_operation_mode extra_benchmark_config_str liger_version""".split()
assert len(sweep) == 4, [(c["kernel_provider"], c["metric_name"]) for c in sweep]
for c in sweep:
    assert list(c) == keys, list(c)
    assert c["x_values"] == [8, 16, 32] and len(c["y_values_50"]) == 3, c
    extra = json.loads(c["extra_benchmark_config_str"])
    assert extra["N"] == 100 and extra["casting_mode"] == 1 and "R" not in extra, extra

rows = list(csv.DictReader(open(folder + "/all.csv")))
assert list(rows[0]) == """kernel_name kernel_provider kernel_operation_mode metric_name metric_unit x_name x_label x_value
    y_value_50 y_value_20 y_value_80 extra_benchmark_config_str gpu_name timestamp liger_version""".split()
assert len(rows) == 16 and all(json.loads(r["extra_benchmark_config_str"])["N"] == 100 for r in rows)
END
python3 "$folder/verify.py" "$folder"

# What is compared with is right, too, where both distributions are 0 in f32.
"$tigon" bench fused_linear_jsd --shape "BT=8 H=1024 K=1024 V=1000" --dtype f32 --mode forward --json >"$folder/sharp.json"
python3 - "$folder/sharp.json" <<'END'
import json, sys
assert all(r["correct"] is True for r in json.load(open(sys.argv[1])))
END

# On the model of a card the times are the model's, of a context that runs nothing elsewhere.
"$tigon" info --json | grep -q '"npu-model"' || exit 0
"$tigon" bench swiglu_forward fused_neighborhood_attention --device npu-model --size small --dtype f32 --json >"$folder/model.json"
python3 - "$folder/model.json" <<'END'
import json, sys
records = json.load(open(sys.argv[1]))
assert [(r["operator"], r["provider"], r["mode"]) for r in records] == [
    ("fused_neighborhood_attention", "tigon", m) for m in ("forward", "backward", "full")] + [("swiglu", "tigon", "forward")], records
r = records[-1]
assert r["device"] == "910B4 (model)" and r["clock"] == "model" and r["limit_gbps"] == 800, r
assert 0.001 < r["ms_50"] < r["ms_first"] * 1.01 < 0.1 and r["correct"] is True, r # 64 x 1024 stay in L2; addresses differ
END
wrong --device npu-model --cache cold swiglu
