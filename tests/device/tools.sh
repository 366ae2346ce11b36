#!/bin/sh
# The checker and the benchmark on a device with memory of its own.
#   tools.sh TIGON_COMMAND libtoy.so
set -eu
tigon=$1
toy=$2
unset TIGON_DEVICE TIGON_BACKEND_PATH TIGON_IMPL TIGON_STRICT 2>/dev/null || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*"
    [ ! -s "$work/out" ] || tail -20 "$work/out"
    exit 1
}

# Its implementations agree with the reference; the plug-in says which device that is. In one type: its tensors have 16 bits, what is saved
# and summed has 32; other types are below.
"$tigon" check --quick --types bf16 --backend "$toy" >"$work/out" 2>&1 || fail "the toy device fails"
tail -1 "$work/out"
grep -q 'FAILED\|lie on cpu' "$work/out" && fail "an implementation failed"

# Calls after each other, from several threads, with large tensors, at the borders of memory: what --strict adds.
"$tigon" check --strict --quick --backend "$toy" softmax_forward embedding >"$work/out" 2>&1 || fail "the toy device fails with --strict"
tail -4 "$work/out"

# Composites call its operators: in f16, whatever the size of an upstream gradient that the host does not see.
TIGON_BACKEND_PATH=$toy TIGON_DEVICE=toy "$tigon" check --strict --quick --types f16 fused_linear_cross_entropy fused_linear_jsd >"$work/out" 2>&1 ||
    fail "composites on the toy device fail"

# A wrong gradient is found.
if TOY_WRONG=rms_norm_backward "$tigon" check --quick --backend "$toy" rms_norm softmax_forward softmax_backward >"$work/out" 2>&1; then
    fail "a wrong gradient passes"
fi
grep -q 'FAILED toy/rms_norm_backward.*dx\[' "$work/out" || fail "the wrong gradient is not named"
grep -q 'FAILED toy/rms_norm_forward\|FAILED toy/softmax' "$work/out" && fail "what is right fails, too"

# The same by the environment, from the current folder.
(cd "$(dirname "$toy")" && TIGON_BACKEND_PATH=${toy##*/} TIGON_DEVICE=toy "$tigon" check --quick softmax_forward embedding) >"$work/out" 2>&1 ||
    fail "TIGON_DEVICE=toy"
grep -q "^tigon: loading \./${toy##*/}\$" "$work/out" || fail "the log does not say which file is loaded"
if TIGON_DEVICE=toy "$tigon" check softmax >"$work/out" 2>&1; then
    fail "a device without a backend is accepted"
fi

# A call takes no less than the device's thread does: its end is waited for.
TIGON_BACKEND_PATH=$toy TIGON_DEVICE=toy "$tigon" bench softmax rms_norm --size small --dtype f32 --provider tigon --rounds 3 \
    --no-limit --cache warm --json >"$work/out" 2>"$work/log" || fail "tigon bench: $(cat "$work/log")"
grep -q '"toy/rms_norm_backward"' "$work/out" || fail "the benchmark ran another implementation"
python3 - "$work/out" <<'END' || fail "a time is too short to be true"
import json, sys
rows = json.load(open(sys.argv[1]))
print(*(f"{r['implementation']} {1e3 * r['ms_50']:.0f} us" for r in rows), sep="; ")
assert len(rows) >= 6
for r in rows:
    assert 1e3 * r["ms_50"] > 20, r
    assert r["correct"] or (r["correct"] is None and r["mode"] == "full"), r
END

# Rows that do not know their batch: what is promised there runs there, and of what is not that is said.
TIGON_BACKEND_PATH=$toy TIGON_DEVICE=toy "$tigon" check --batch-invariant --strict --quick softmax_forward >"$work/out" 2>&1 || fail "softmax knows its batch"
grep -q 'toy/softmax_forward' "$work/out" || fail "another implementation was checked"
TIGON_BACKEND_PATH=$toy TIGON_DEVICE=toy "$tigon" bench softmax_forward rms_norm_forward --size small --dtype f32 --provider tigon,invariant --rounds 3 \
    --no-check --no-limit --cache warm >"$work/out" 2>"$work/log" || fail "tigon bench --provider invariant: $(cat "$work/log")"
grep -q '^ *invariant .* toy/softmax_forward$' "$work/out" || fail "the promise did not run on the device"
grep -q 'invariant/rms_norm_forward runs on the processor, not on toy, whose' "$work/out" || fail "no reason where nothing is promised"

# Errors on hard inputs.
TIGON_BACKEND_PATH=$toy TIGON_DEVICE=toy "$tigon" numerics softmax >"$work/out" 2>&1 || fail "tigon numerics"
grep -q 'toy/softmax_forward' "$work/out" || fail "tigon numerics ran another implementation"
