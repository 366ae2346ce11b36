#!/bin/sh
# Conformance of plug-ins that take a part of what an operator is asked for: what is wrong in that part is found, and what
# was never compared is said.
#   partial.sh TIGON PLUGIN
set -u
tigon=$1
plugin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() {
    echo "$1"
    cat "$work/$name"
    failed=1
}
check() { # NAME STATUS OPTION...: tigon check of that plug-in exits so
    name=$1
    expected=$2
    shift 2
    PARTIAL=$name "$tigon" check --backend "$plugin" "$@" >"$work/$name" 2>&1
    status=$?
    [ $status -eq "$expected" ] || complain "$name $*: the exit status is $status, expected $expected"
}
says() { # PATTERN: a line of the last check
    grep -qE "$1" "$work/$name" || complain "$name: no line says \"$1\""
}
silent() { # PATTERN: no line of the last check
    grep -qE "$1" "$work/$name" && complain "$name: a line says \"$1\""
}

# The gradient is wrong in the one form that the implementation takes.
check wrong 1 --quick
says '^FAILED partial/cross_entropy_forward f32, .*: dlogits\[0,0\] is '
says '^  partial/cross_entropy_forward +forward +DISAGREES with the reference'

# The same form, right: it passes, and the summary says what it is worth; strict, it does not pass.
check bare 0 --quick
says '^  partial/cross_entropy_forward +forward +agrees with the reference'
says '^    f32   [0-9]+ of [0-9]+ cases ran, [0-9]+ of them reduced; compared: loss lse dlogits; never: z_loss accuracy predicted$'
says '^    cross_entropy_backward is the default.s: partial has no implementation of it$'
check bare 1 --quick --strict
says '^FAILED partial/cross_entropy_forward: never compared: z_loss accuracy predicted$'

# Its gradient was never seen.
check loss 0 --quick
check loss 1 --quick --strict
says '^FAILED partial/cross_entropy_forward: never compared: dlogits$'

# All of it, and the composite that stands on it.
check all 0 --quick --strict
says '^    bf16  ([0-9]+) of \1 cases ran; compared: loss z_loss lse accuracy predicted dlogits$'
says '^  fused_linear_cross_entropy_forward through partial/cross_entropy_forward: agrees with the reference \([0-9]+ passed, 0 failed\)$'
silent 'fused_linear_cross_entropy_backward'
PARTIAL=all "$tigon" check --backend "$plugin" --quick --json >"$work/all" || complain "all --json fails"
python3 - "$work/all" <<'END' || complain "the JSON is wrong"
import json, sys
report = json.load(open(sys.argv[1]))
found = {r["dtype"]: r for r in report["implementations"]}
assert set(found) == {"f32", "bf16", "f16"}, found
for r in found.values():
    assert r["implementation"] == "partial/cross_entropy_forward" and r["passed"] > 40 and r["reduced"] == 0, r
    assert r["compared"] == ["loss", "z_loss", "lse", "accuracy", "predicted", "dlogits"] and r["never_compared"] == [], r
(composite,) = report["composites"]
assert composite["operator"] == "fused_linear_cross_entropy_forward" and composite["passed"] > 50, composite
assert composite["through"] == ["partial/cross_entropy_forward"] and composite["failed"] == 0, composite
END

# What it leaves to a composite that is checked with it is no gap; alone it is one.
check composed 1 --quick --strict
says '^FAILED partial/fused_linear_cross_entropy_forward: never compared: dx'
PARTIAL=composed TIGON_BACKEND_PATH=$plugin "$tigon" check --quick --strict fused_linear_cross_entropy_forward >"$work/composed" 2>&1 ||
    complain "composed, with the composite: not 0"
says '^partial/fused_linear_cross_entropy_forward '

# A part that is wrong as composites call it.
check gemm 1 --quick
says '^FAILED fused_linear_cross_entropy_forward through partial/gemm bf16, case '
for op in fused_linear_cross_entropy_forward fused_linear_cross_entropy_backward fused_linear_jsd_forward fused_linear_jsd_backward; do
    says "^  $op through partial/gemm: DISAGREES"
done

# One type of three: the summary says so, strict demands the others unless they are left out.
check f32 0
says '^    bf16  0 of [0-9]+ cases ran$'
check f32 1 --strict
says '^FAILED partial/rms_norm_forward takes no case of bf16: [0-9]+ refused$'
says '^FAILED partial/rms_norm_forward takes no case of f16: [0-9]+ refused$'
check f32 0 --strict --types f32

# Nothing at all.
check nothing 1 --quick
says '^FAILED nothing was run$'
says '^  partial/rms_norm_forward +forward +was not run'
check nothing 1 --quick --strict
says '^FAILED partial/rms_norm_forward: never compared: y rstd$'
exit $failed
