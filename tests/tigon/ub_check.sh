#!/bin/sh
# tigon ub-check: the overflows that it predicts, what it answers for a kernel that fits, what it refuses.
#   ub_check.sh TIGON
set -eu
tigon=$1
unset ASCEND_UB_CAPACITY_BITS TIGON_SOC TIGON_ASCEND_RESERVED_UBUF
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
fail() {
    echo "$1"
    exit 1
}
expect() { # STATUS TEXT ARGUMENTS...
    wanted=$1
    text=$2
    shift 2
    status=0
    output=$("$tigon" ub-check "$@" 2>&1) || status=$?
    [ "$status" -eq "$wanted" ] || fail "tigon ub-check $*: exit status $status, expected $wanted: $output"
    case $output in *"$text"*) ;; *) fail "tigon ub-check $*: no \"$text\" in: $output" ;; esac
}

# Reported to triton-ascend (its issue 302): 48000 f32, double-buffered: "requires 3072000 bits while 1572864 bits available".
expect 1 "wants 3072000 bits, 1572864 available: ub overflow" --buffer x:4x2 --tile 1x48000 --soc 910B4
expect 1 "a tile of 1 x 24064 fits" --buffer x:4x2 --tile 1x48000 --soc 910B4
expect 0 "wants 1536000 bits, 1572864 available: fits" --buffer x:4 --tile 1x48000 --soc 910B4
expect 1 "910B1       48    1572864  1 x 48000               1    3072000  ub overflow" --buffer x:4x2 --tile 1x48000
expect 1 "no tile fits" --buffer x:4 --buffer table:200000/fixed --shape 8x100 --soc 910B4
# Liger's kernels: the manager's block fits once, not twice.
expect 1 "here     1 x 4096            2    2097152    1572864  ub overflow" --liger rms_norm_backward --shape 2048x8192 --soc 910B4
expect 0 "here     1 x 4096            1    1048576    1572864  fits" --liger rms_norm_backward --shape 2048x8192 --copies 1
expect 0 "1 x 8192            1     786432    1572864  fits" --liger swiglu_forward --shape 10000000 --copies 1
expect 0 "32 x 128            1     786432" --liger kl_div_forward --shape 4096x128256 --copies 1
expect 0 "Liger's kl_div_forward_log_target, 64 x 4096" --liger kl --shape 64x4096
expect 0 "Liger's kl_div_forward, 64 x 4096" --liger kl_div_forward --shape 64x4096 --copies 1
case $output in *log_target*) fail "tigon ub-check --liger kl_div_forward tells of another kernel: $output" ;; esac
# What the floor of 2048 elements does in half the room.
expect 1 "1 x 2048            1     786432     524288  ub overflow" --liger fused_add_rms_norm_backward --shape 64x8192 --copies 1 --capacity-bits 524288

# A kernel in its steps: what is dead gives its memory.
own="--buffer x:4x2@0-1 --buffer squares:4@1 --buffer y:4@2-3 --buffer rstd:4/row@1-2 --buffer w:4/column --shape 2048x4096"
# shellcheck disable=SC2086
{
    expect 0 "tile 3 x 4096" $own --soc 910B4
    expect 0 "buffers that are never alive at one step lie in the same memory" $own
    expect 0 "  <- limiting" $own
    expect 0 "(given)" $own --capacity-bits 786432
    expect 0 "tile 1 x 4096" $own --capacity-bits 786432
    expect 0 "on an NPU: 7 vector cores" $own --cores 7
    ASCEND_UB_CAPACITY_BITS=786432 && export ASCEND_UB_CAPACITY_BITS
    expect 0 "tile 1 x 4096" $own
    expect 0 "786432 bits of UB (ASCEND_UB_CAPACITY_BITS)" $own
    expect 0 "tile 3 x 4096" $own --soc 910B4
    unset ASCEND_UB_CAPACITY_BITS
}

# What CANN keeps for itself our kernels leave alone; how much hangs on how they were compiled.
expect 0 "1570816 available" swiglu_forward --shape 64x8192 --soc 910B4
TIGON_ASCEND_RESERVED_UBUF=1 && export TIGON_ASCEND_RESERVED_UBUF
expect 0 "1505280 available" swiglu_forward --shape 64x8192 --soc 910B4
expect 0 "1572864 available" --buffer x:4 --tile 1x48000 --soc 910B4
unset TIGON_ASCEND_RESERVED_UBUF

expect 0 "rms_norm_backward"
# The beginning of names stands for a kernel of each operator, with a point for variants; what one of them lacks is an error.
for kernel in rope_forward.halves rope_backward.halves; do
    expect 0 "$kernel, 64 x 192 bf16" rope --shape 64x192 --dtype bf16 --soc 910B4
done
case $output in *.copy,*) fail "tigon ub-check rope tells of variants: $output" ;; esac
expect 0 "rope_backward.copy, 64 x 192" rope_backward. --shape 64x192
expect 1 "no tile fits" rms --shape 8x8192 --capacity-bits 8192
expect 2 'found "softcap", expected an option of softmax_forward.rows' soft --with softcap --shape 4x4
expect 0 "910B4   40  1572864"
expect 2 'no kernel of "no_such" declares its buffers' no_such --shape 4x4
expect 2 "which is of architecture 3510, whose vector cores compute in registers, expected one of 910B1, 910B2, 910B3, 910B4, 910C" \
    --buffer x:4 --shape 4x4 --soc 950
expect 2 'found "x:", expected NAME:BYTES' --buffer x: --shape 4x4
expect 2 'found "x:4/rows", expected NAME:BYTES' --buffer x:4/rows --shape 4x4
expect 2 "x: to is 1, expected 2 ... 31" --buffer x:4@2-1 --shape 4x4
expect 2 'found "4x", expected ROWSxCOLUMNS' --buffer x:4 --shape 4x
expect 2 'found "0x4", expected ROWSxCOLUMNS' --buffer x:4 --tile 0x4
expect 2 'found "f64", expected f32, bf16 or f16' --buffer x:4 --shape 4x4 --dtype f64
expect 2 "expected --shape ROWSxCOLUMNS" --buffer x:4
expect 2 "expected one of them" --buffer x:4 --liger jsd --shape 4x4
expect 2 'found "jsdd", expected a kernel that tigon ub-check lists' --liger jsdd --shape 4x4
expect 2 "not with --liger" --liger jsd --shape 4x4 --tile 4x4
expect 2 'found "weight", expected an option' --buffer x:4 --shape 4x4 --with weight

command -v python3 >/dev/null || exit 0
"$tigon" ub-check --buffer x:4x2 --tile 1x48000 --soc 910B4 --json >"$answer" && fail "an overflow is a success with --json"
python3 - "$answer" <<'END'
import json, sys
a = json.load(open(sys.argv[1]))
assert a["wanted_bits"] == 3072000 and a["available_bits"] == 1572864 and a["fits"] is False, a
assert a["limiting"] == "x" and a["live_bytes"] == [384000], a
assert [c["chip"] for c in a["chips"]] == ["910B1", "910B2", "910B3", "910B4", "910C"], a
assert not any(c["fits"] for c in a["chips"]), a
END
# shellcheck disable=SC2086
"$tigon" ub-check $own --json | python3 -c '
import json, sys
a = json.load(sys.stdin)
assert a["fits"] and a["reasons"] and a["blocks"] == 40 and a["tasks"] == 683, a
assert max(a["live_bytes"]) <= a["wanted_bits"] / 8 <= a["available_bits"] / 8, a
assert {b["name"] for b in a["buffers"]} == {"x", "squares", "y", "rstd", "w"}, a
'
"$tigon" ub-check rope --shape 64x192 --json | python3 -c '
import json, sys
assert [k["kernel"] for k in json.load(sys.stdin)["kernels"]] == ["rope_forward.halves", "rope_backward.halves"]
'
"$tigon" ub-check --liger dyt --shape 64x64 --copies 1 --json | python3 -c '
import json, sys
assert [k["liger"] for k in json.load(sys.stdin)["kernels"]] == ["dyt_forward", "dyt_backward"]
'
"$tigon" ub-check --json | python3 -c '
import json, sys
a = json.load(sys.stdin)
assert "rms_norm_backward" in a["liger"] and len(a["chips"]) == 5 and "kernels" in a, a
'
"$tigon" ub-check --liger jsd --shape 64x128256 --copies 2 --json >/dev/null && fail "jsd, double-buffered, fits"
exit 0
