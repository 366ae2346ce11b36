#!/bin/sh
# tigon plot: the kinds of files (bench.sh has the CSV), on the terminal, as JSON, and as SVG.
#   plot.sh TIGON LLAMA
set -eu
tigon=$1
llama=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() {
    echo "$1"
    exit 1
}
expect() { # STATUS ARGUMENTS...
    wanted=$1
    shift
    status=0
    "$tigon" plot "$@" >out 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] || fail "tigon plot $*: exit status $status, expected $wanted: $(cat out)"
}
contains() {
    grep -qF -- "$1" out || fail "\"$1\" is missing: $(cat out)"
}
cat >bench.json <<'END'
[
  {"operator": "rope", "mode": "full", "provider": "tigon", "dtype": "f32", "size": "large", "cache": "cold", "threads": 2,
   "ms_20": 1, "ms_50": 2, "ms_80": 3.5, "fraction_of_limit": 0.5, "fraction_of_gemm": null, "peak_bytes": 1048576},
  {"operator": "rope", "mode": "full", "provider": "unfused", "dtype": "f32", "size": "large", "cache": "cold", "threads": 2,
   "ms_20": 7, "ms_50": 8, "ms_80": 9, "fraction_of_limit": 0.125, "fraction_of_gemm": null, "peak_bytes": 4194304}
]
END
cat >sweep.json <<'END'
[{"kernel_name": "rope", "kernel_provider": "it's \"tigon\"", "metric_name": "speed", "metric_unit": "ms", "x_name": "S",
  "x_label": "S", "x_values": [8, 16], "y_values_50": [1.5, NaN], "y_values_20": [1, NaN], "y_values_80": [2, NaN],
  "kernel_operation_mode": "forward", "extra_benchmark_config_str": "{\"D\": 64}"}]
END
cat >peers.jsonl <<'END'
{"family": "rope", "memory_bound": true, "note": ""}
{"operator": "rope", "size": "large", "dtype": "f32", "mode": "full", "cache": "cold", "allocator": "kept", "provider": "tigon", "ratio": 1.0}
{"operator": "rope", "size": "large", "dtype": "f32", "mode": "full", "cache": "cold", "allocator": "kept", "provider": "eager", "ratio": 4.0}
{"operator": "rope", "size": "large", "dtype": "bf16", "mode": "full", "cache": "cold", "allocator": "kept", "provider": "eager", "ratio": 16.0}
{"operator": "rope", "size": "large", "dtype": "f32", "mode": "full", "cache": "cold", "allocator": "kept", "provider": "compile", "ratio": 0.5}
{"operator": "gemm", "size": "small", "dtype": "f32", "mode": "full", "cache": "warm", "allocator": "kept", "provider": "eager", "ratio": 2.0}
{"operator": "gemm", "size": "large", "dtype": "f32", "mode": "full", "cache": "cold", "allocator": "default", "provider": "eager", "ratio": 3.0}
END
seq 20000 >numbers.txt
"$llama" --data numbers.txt --width 16 --heads 1 --kv-heads 1 --layers 1 --ff 16 --seq 32 --batch 1 --steps 4 --quiet --log run.jsonl
# The trainer's own charts have a legend, and no curve hides another.
"$llama" --data numbers.txt --width 16 --heads 1 --kv-heads 1 --layers 1 --ff 16 --seq 32 --batch 1 --steps 4 --quiet --compare \
    --plot both.svg >out 2>&1 || true # so short, the two may differ
contains "⠒ fused, training   o unfused, held out   x fused, held out"
[ "$(grep -o "stroke-width='[0-9]*'" both.svg | sort -u | wc -l)" -eq 4 ] || fail "curves of one width: $(cat both.svg)"
held_out=$(sed -n 's/.*"held_out":\([0-9]\.[0-9][0-9]\).*/\1/p' run.jsonl | tail -1)
printf '{"step": 9, "lo' >>run.jsonl # a run that still writes
printf 'not JSON' >bad.json
printf '{"other": 1}' >other.json

expect 0 --text bench.json
contains "rope full f32"
contains "0.125"
expect 0 --text bench.json --metric speed --operator rope --mode full
if grep -q MiB out; then fail "--metric speed shows memory: $(cat out)"; fi
expect 1 --text bench.json --operator softmax
expect 0 --text sweep.json
contains "rope forward: speed, D: 64"
expect 0 --text run.jsonl
contains "held-out"
contains "$held_out"
expect 0 --json run.jsonl bench.json
expect 0 --text --metric ratio peers.jsonl
[ "$(grep -c "^Time over Tigon's, full" out)" -eq 3 ] || fail "expected three charts of ratios: $(cat out)"
expect 0 --text --metric ratio --where size=large --where allocator=kept peers.jsonl
contains "Time over Tigon's, full (large, cold cache, allocator: kept)"
contains "eager f32           4"
if grep -qE 'gemm|tigon' out; then fail "--where size=large --where allocator=kept shows more: $(cat out)"; fi
expect 1 --metric ratio --where size=medium peers.jsonl
contains "nothing is left to draw"
expect 2 --metric ratio --where large peers.jsonl
contains "expected FIELD=VALUE"
printf 'kernel_name,\n' >data.csv
expect 1 --where size=large data.csv
contains "--where is for records of JSON"
expect 1 bad.json
contains "bad.json:1:"
printf '{"step": 1, "loss": 2}\n{"step": 2, "loss": 1,}\n{"step": 3, "loss": 1}\n' >bad.jsonl
expect 1 bad.jsonl
contains "bad.jsonl:2:"
printf '{"step": 1, "loss": 2, "by": "NaN \\" Infinity"}\n{"step": 2, "loss": -Infinity}\n' >nan.jsonl
expect 0 --json nan.jsonl
contains '"y": [2]'
expect 1 other.json
expect 1 missing.json
expect 2
expect 2 run.jsonl --metric taste

expect 0 bench.json
contains "bench.svg"
for file in bench.json sweep.json run.jsonl peers.jsonl; do
    expect 0 "$file" $([ $file = peers.jsonl ] && echo --metric ratio --where size=large --where allocator=kept) --output "drawn $file.svg"
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "drawn $file.svg" || fail "$file: no XML"
done
drawn() { # FILE WORDS...: each stands in the drawing
    for words in "$2" "$3" "$4"; do
        grep -qF -- "$words" "drawn $1.svg" || fail "$1: no $words in the drawing"
    done
}
# Bars as long as what they show: 2 and 8 ms from 1 ms on, on a logarithmic scale; a bar and a mark of colour for each.
drawn bench.json ">rope full f32<" ">Time (large, cold cache, 2 threads)<" ">0.125<"
python3 - "drawn bench.json.svg" <<'PYTHON' || fail "bench.json: wrong bars"
import sys, xml.dom.minidom
bars = [float(r.getAttribute("width")) for r in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("rect")
        if r.getAttribute("height") == "13.00"]
assert len(bars) == 6, bars
assert abs(bars[1] / bars[0] - 3) < 0.01, bars   # log 8 / log 2
assert abs(bars[3] / bars[2] - 4) < 0.01, bars   # 1 and 4 MiB, linear
assert abs(bars[4] / bars[5] - 4) < 0.01, bars   # 0.5 and 0.125 of the limit
PYTHON
# Marks where their ratios are on a logarithmic scale, beside a line at 1; one colour a provider, rings for the second type.
python3 - "drawn peers.jsonl.svg" <<'PYTHON' || fail "peers.jsonl: wrong marks"
import sys, xml.dom.minidom
page = xml.dom.minidom.parse(sys.argv[1])
marks = [{k: c.getAttribute(k) for k in ("cx", "cy", "fill", "stroke")} for c in page.getElementsByTagName("circle")]
legend, (f32, bf16, compiled) = marks[:3], marks[3:]
one = [float(l.getAttribute("x1")) for l in page.getElementsByTagName("line")
       if l.getAttribute("x1") == l.getAttribute("x2") and l.getAttribute("stroke") == "#444444"]
assert len(one) == 1 and f32["cy"] == bf16["cy"] == compiled["cy"], (one, marks)
right = [float(m["cx"]) - one[0] for m in (f32, bf16, compiled)]
assert abs(right[1] / right[0] - 2) < 0.01 and abs(right[2] / right[0] + 0.5) < 0.01, right   # 4, 16, 1/2
assert f32["stroke"] == bf16["stroke"] != compiled["stroke"], marks
assert f32["fill"] == f32["stroke"] and bf16["fill"] == "none", marks
assert [m["fill"] for m in legend] == [m["fill"] for m in (f32, bf16, compiled)], marks
PYTHON
drawn sweep.json ">it's \"tigon\"<" ">rope forward: speed, D: 64<" "<circle"
drawn run.jsonl ">held-out<" ">nats<" "<polyline"
status=0
"$tigon" plot bench.json --output no/such/folder.svg >out 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "a folder that is not there: status $status"
contains "tigon plot: no/such/folder.svg: No such file"
