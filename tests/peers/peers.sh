#!/bin/sh
# bench/peers at its quickest: one operator through everything, options that are wrong, results that are wrong.
#   peers.sh LIBTIGON FOLDER_OF_BENCH_PEERS
set -eu
build=$(dirname "$(realpath "$1")")
peers=$2
python=${TIGON_PEERS_PYTHON:-$build/peers/venv/bin/python}
[ -x "$python" ] || python=python3
skip() {
    echo "skipped: $1"
    exit 77
}
"$python" -c 'import torch' 2>/dev/null || skip "$python cannot import torch; TIGON_PEERS_PYTHON names one that can"
command -v "${CXX:-g++}" >/dev/null || skip "torch.compile needs a C++ compiler"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() {
    "$python" -B "$peers/peers.py" --build "$build" --quick "$@"
}
expect() { # FILE PATTERN
    grep -qE -e "$2" "$1" || {
        echo "$1: expected $2"
        cat "$1"
        exit 1
    }
}

run --ops softmax --sizes small,large --dtypes f32 --modes full --out "$work/out"
expect "$work/out/peers.md" '^\| softmax \| R=64 N=1024 \|.*[0-9] / [0-9.]+ \|.*[0-9] / [0-9.]+ \|$'
expect "$work/out/peers.md" 'Geometric means'
for provider in tigon eager compile; do
    for allocator in kept default; do
        expect "$work/out/peers.jsonl" "\"softmax\", .*\"$allocator\", \"provider\": \"$provider\", .*\"ratio\": [0-9.]+, .*\"correct\": true"
    done
done
expect "$work/out/peers.svg" '>softmax<'
python3 -B "$peers/report.py" "$work/out/peers.jsonl" | diff - "$work/out/peers.md"

# What is there already is kept, not measured again.
grep -v '"machine"' "$work/out/peers.jsonl" >"$work/measured"
run --ops softmax --sizes small,large --dtypes f32 --modes full --out "$work/out" --resume
grep -v '"machine"' "$work/out/peers.jsonl" | diff - "$work/measured"

! run --ops softmux 2>"$work/error"
expect "$work/error" "argument --ops: found 'softmux', expected one of "

# The comparison finds what is wrong, missing, or not a number; and so is every operator of Tigon in the table.
PYTHONPATH=$build/python "$python" -B - "$peers" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import operators, torch, rivals, rows
from unittest.mock import MagicMock
from measure import TOLERANCE, error, prepare
from problem import OPERATORS
from tigon import ops

right = torch.linspace(-1, 1, 1001)
limit = TOLERANCE[torch.float32]
assert error([right * (1 + limit / 2)], [right]) <= limit
assert error([right * (1 + limit * 2)], [right]) > limit
assert error([right, right], [right]) > limit and error([right[1:]], [right]) > limit
assert error([right.clone().index_fill_(0, torch.tensor([5]), float("nan"))], [right]) > limit

families = {op.removesuffix("_forward").removesuffix("_backward") for op in ops.__all__}
# Problems of an operator with options are called after it: flash_attention_window.
with_options = {name for name in set(OPERATORS) - families if name.startswith(tuple(f"{family}_" for family in families))}
assert families == set(OPERATORS) - with_options, families ^ set(OPERATORS)
for name, function in rivals.liger(MagicMock()).items():
    function(**OPERATORS[name].sizes["cuda"]["large"])
for bad in (dict(y=right.clone()), dict(x=right, y=right.clone(), z=right)):
    try:
        prepare("softmax_forward", bad)()
        raise SystemExit(f"accepted {list(bad)}")
    except (TypeError, ValueError) as message:
        assert "softmax_forward" in str(message)
END

# Losses in chunks: a time for each.
chunked=$("$python" -B "$peers/chunked.py" --build "$build" --sizes 4,8,16,50 --rounds 1 --losses dpo,orpo,cpo,simpo,grpo)
for loss in dpo orpo cpo simpo grpo; do
    case "
$chunked" in
    *"
$loss tigon: "[0-9]*" ms"*) ;;
    *)
        echo "chunked.py: no time of $loss: $chunked" >&2
        exit 1
        ;;
    esac
done

# Experts by themselves: a time of each direction.
mixture=$(PYTHONPATH=$build/python "$python" -B "$peers/mixture.py" --sizes 8,16,8,4,2 --rounds 1)
case $mixture in
"8,16,8,4,2 tigon: forward "[0-9]*" backward "[0-9]*" full "[0-9]*) ;;
*)
    echo "mixture.py: no times: $mixture" >&2
    exit 1
    ;;
esac
