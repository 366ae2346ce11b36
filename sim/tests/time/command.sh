#!/bin/sh
# The command ascsim: exit statuses, reports, the same times for any number of threads, a kernel of
# one's own.
#   command.sh ASCSIM FOLDER_OF_EXAMPLES COMPILER
set -eu
ascsim=$1
build=$2
compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}
status() { # EXPECTED COMMAND...
    expected=$1
    shift
    found=0
    "$@" >"$work/out" 2>&1 || found=$?
    [ "$found" = "$expected" ] || { cat "$work/out"; fail "$*: status $found, expected $expected"; }
}
says() {
    grep -q -- "$1" "$work/out" || { cat "$work/out"; fail "does not say: $1"; }
}
scale() { # ELEMENTS OF y, OPTIONS...
    room=$1
    shift
    "$ascsim" run --soc 910B4 --kernel scale --arg 'f32[50000]=ramp' --arg "f32[$room]=none,print=4" --arg u32:50000 \
        "$@" "$build/libascsim_examples.so"
}

# A clean run: result, times, every report.
status 0 scale 50000 --profile "$work/one" --trace --threads 1
says ': 0 2 4 6 \.\.\.'
says 'model'
status 0 scale 50000 --profile "$work/many" --trace --threads 7
for file in "$work"/one/*; do
    cmp "$file" "$work/many/$(basename "$file")" || fail "$(basename "$file") depends on the number of threads"
done
column() { # FILE NAME...
    table=$work/one/$1
    shift
    for name in "$@"; do
        head -1 "$table" | tr ',' '\n' | grep -qxF "$name" || fail "$table has no column $name"
    done
    [ "$(wc -l <"$table")" -gt 1 ] || fail "$table is empty"
    fields=$(awk -F, '{ print NF }' "$table" | sort -u | wc -l)
    [ "$fields" = 1 ] || fail "$table: rows differ in their number of fields"
}
column OpBasicInfo.csv "Op Name" "Task Duration(us)" "Block Dim" "Current Freq"
column PipeUtilization.csv block_id "aiv_time(us)" "aiv_vec_time(us)" aiv_mte2_ratio "aiv_mte3_active_bw(GB/s)"
column ArithmeticUtilization.csv aiv_vec_fp32_ratio aiv_vec_fops
column Memory.csv "aiv_gm_to_ub_bw(GB/s)" aiv_mte2_instructions "GM_to_UB_bw_usage_rate(%)"
column MemoryUB.csv "aiv_ub_read_bw_vector(GB/s)"
column L2Cache.csv aiv_write_cache_hit aiv_r0_read_cache_miss_allocate
column ResourceConflictRatio.csv aiv_vec_bankgroup_cflt_ratio aiv_mte2_wait_ratio
column lines.csv file line calls busy_cycles wait_cycles
grep -q '^"[^"]*scale.c",[0-9]*,asc_mul_scalar,vector,7,' "$work/one/lines.csv" || fail "lines.csv: seven tiles of asc_mul_scalar"
python3 - "$work/one" <<'PYTHON' || fail "trace.json or pipeline.svg"
import json, sys, xml.dom.minidom
trace = json.load(open(sys.argv[1] + "/trace.json"))
events = trace["traceEvents"]
bars = [e for e in events if e["ph"] == "X"]
assert sum(e["name"] == "asc_mul_scalar" for e in bars) == 7, "a bar an instruction"
assert all(e["dur"] >= 0 for e in bars)
starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
assert starts and starts.keys() == ends.keys(), "arrows have two ends"
assert all(starts[i] <= ends[i] for i in starts), "arrows point forward"
assert any(e["name"] == "MTE2ToVECTOR" for e in events)
svg = xml.dom.minidom.parse(sys.argv[1] + "/pipeline.svg")
assert len(svg.getElementsByTagName("rect")) > 8
PYTHON

# A cube core, and one with its vector cores: their pipes in every report.
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("14I", 150, 300, 256, 2, 80, 160, 64, 128, 4, 2, 2, 1, 1, 0))' >"$work/how"
product() { # KERNEL ARGUMENTS...
    kernel=$1
    shift
    status 0 "$ascsim" run --soc 910B1 --kernel "$kernel" --blocks 4 --arg "u32[14]=@$work/how" --arg 'f16[38400]=1' --arg 'f16[76800]=1' \
        --arg 'f16[45000]=none,print=2' "$@" --profile "$work/one" --trace "$build/libascsim_examples.so"
}
product matmul
says ': 256 256 \.\.\.'
says '4 of 24 cube cores, 1850 MHz'
"$ascsim" run --soc 910B4 --kernel matmul --arg "u32[14]=@$work/how" --arg 'f16[38400]=1' --arg 'f16[76800]=1' --arg 'f16[45000]=none' \
    "$build/libascsim_examples.so" >"$work/out"
says '20 blocks on 20 of 20 cube cores'
says '  fixpipe '
column PipeUtilization.csv "aic_time(us)" "aic_cube_time(us)" "aic_mte1_time(us)" "aic_mte2_time(us)" "aic_fixpipe_time(us)" aic_cube_ratio
grep -q '^"matmul",3,cube0,NA,' "$work/one/PipeUtilization.csv" || fail "PipeUtilization.csv: no row of a cube core"
grep -q '^"matmul",cube (model)' "$work/one/OpBasicInfo.csv" || fail "OpBasicInfo.csv: not of cube cores"
product matmul_gelu --arg 'f16[45000]=none,print=2' --arg u64:4096
says '4 of 24 cube cores and two vector cores each'
[ "$(grep -c '^"matmul_gelu",[0-3],vector[01],' "$work/one/PipeUtilization.csv")" = 8 ] || fail "PipeUtilization.csv: eight vector cores"
grep -q '^"matmul_gelu",mix (model),[0-9.]*,4,8,' "$work/one/OpBasicInfo.csv" || fail "OpBasicInfo.csv: 4 and 8 cores"
python3 - "$work/one" <<'PYTHON' || fail "trace.json or pipeline.svg of a mix kernel"
import json, sys, xml.dom.minidom
events = json.load(open(sys.argv[1] + "/trace.json"))["traceEvents"]
names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
assert {"core0.cubecore0 (model)", "core3.veccore1 (model)"} <= names and len(names) == 12, names
assert any(e["ph"] == "X" and e["name"] == "asc_mmad" for e in events)
texts = [t.firstChild.data for t in xml.dom.minidom.parse(sys.argv[1] + "/pipeline.svg").getElementsByTagName("text")]
assert "MTE1 to L0" in texts and "FIX out" in texts and "MTE3 out" in texts and "cube 0" in texts
PYTHON

# Faults, bad requests.
status 1 scale 40000
says 'scale.c:'
status 0 scale 50000 --check-only
grep -q 'us (model' "$work/out" && fail "--check-only has times"
status 2 scale 50000 --soc 910C9
status 2 scale 50000 --blocks 0
status 2 scale 50000 --arg f32x3 # before what is said of their number
says 'f32x3'
# Arguments that the kernel does not take.
run_scale() { # ARGUMENTS...
    status 2 "$ascsim" run --soc 910B4 --kernel scale "$@" "$build/libascsim_examples.so"
}
run_scale --arg 'f32[100]=ramp'
says 'scale takes 3 arguments (x, y, n): found 1 --arg, expected 3'
run_scale --arg 'f32[100]=ramp' --arg 'f32[100]=none' --arg u32:100 --arg u32:1
says 'found 4 --arg, expected 3'
run_scale --arg 'f32[100]=ramp' --arg 'f16[100]=none' --arg u32:100
says 'argument 2, y: found --arg f16\[100\]=none, expected a buffer with elements of 4 bytes'
run_scale --arg 'f32[100]=ramp' --arg 'f32[100]=none' --arg f32:100
says 'argument 3, n: found --arg f32:100, expected an integer of 4 bytes'
run_scale --arg 'f32[100]=ramp' --arg 'f32[100]=none' --arg u64:100
says 'expected an integer of 4 bytes'
run_scale --arg 'f32[100]=ramp' --arg u32:1 --arg u32:100
says 'expected a buffer'
status 2 "$ascsim" run --kernel nothing "$build/libascsim_examples.so"
status 2 "$ascsim" run --kernel scale "$work/none.so"
status 2 "$ascsim" chips 310P
status 2 "$ascsim" frobnicate
status 0 "$ascsim" chips 910B1
says 'vector_cores .* 48 .*H'

# Values reach the kernel, leave it, and come back from a file.
head -c 16 /dev/zero >"$work/in"
status 0 "$ascsim" run --kernel scale --blocks 1 --arg "f32[4]=@$work/in" --arg "f32[4]=3,save=$work/saved" --arg u32:4 \
    "$build/libascsim_examples.so"
cmp "$work/in" "$work/saved" || fail "0 times 2 is not what was saved"

# The published bank scenarios to the cycle.
status 0 "$ascsim" validate bank_conflict_ub
[ "$(grep -cE '[-+]0\.0 % \|$' "$work/out")" = 8 ] || { cat "$work/out"; fail "bank_conflict_ub"; }

# A kernel of one's own, with the flags that the command prints.
cat >"$work/own.c" <<'C'
#include "c_api/asc_simd.h"
__attribute__((visibility("default"))) void own(__gm__ float *y, float value)
{
    asc_init();
    float *ub = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    asc_duplicate(ub, value, 64);
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_copy_ub2gm(y, ub, 256);
}
C
cat >>"$work/own.c" <<'C'
/* Adds that hang on nothing: how close behind each other they run is not settled. */
__attribute__((visibility("default"))) void apart(void)
{
    asc_init();
    asc_duplicate((float *)asc_get_phy_buf_addr(0), 1.0f, 4096);
    asc_sync_pipe(PIPE_V);
    for (int i = 0; i < 30; i++) {
        asc_add((float *)asc_get_phy_buf_addr(0x10000) + 64 * i, (float *)asc_get_phy_buf_addr(0),
                (float *)asc_get_phy_buf_addr(256), 64);
    }
}
C
"$compiler" $("$ascsim" flags compile) -c "$work/own.c" -o "$work/own.o"
"$compiler" "$work/own.o" $("$ascsim" flags link) -o "$work/own.so"
status 0 "$ascsim" run --kernel own --blocks 1 --arg 'f32[64]=none,print=2' --arg f32:1.5 "$work/own.so"
says ': 1.5 1.5 \.\.\.'
status 0 "$ascsim" run --kernel apart --blocks 1 "$work/own.so"
sed -n 's/.*(model; \([0-9.]*\) to \([0-9.]*\)).*/\1 \2/p' "$work/out" | awk '{ exit !($2 - $1 > 0.3 && $2 - $1 < 0.5) }' ||
    { cat "$work/out"; fail "30 adds of one repeat: the bounds differ by 30 startups less what S takes, 0.36 us"; }
cp "$work/own.so" "$work/stripped.so" && strip -g "$work/stripped.so"
status 0 "$ascsim" run --kernel own --blocks 1 --arg 'f32[64]=none' --arg f32:1.5 "$work/stripped.so"
says 'the arguments are not checked'

# Calls with a wrong number or kind of arguments do not compile with these flags, nor does an
# address that is not constant.
compiles() { # BODY
    printf '#include "c_api/asc_simd.h"\nvoid k(__gm__ float *x, uint32_t n)\n{\n    (void)x, (void)n;\n    %s\n}\n' "$1" >"$work/call.c"
    "$compiler" $("$ascsim" flags compile) -c "$work/call.c" -o "$work/call.o" >"$work/out" 2>&1
}
ub='__ubuf__ float *a = (__ubuf__ float *)asc_get_phy_buf_addr(0);'
for body in 'asc_add(a, a, a, n);' 'asc_copy_gm2ub(a, x, n);' 'asc_sync();' 'a = (__ubuf__ float *)(asc_get_phy_buf_addr(256) + n);'; do
    compiles "$ub $body" || { cat "$work/out"; fail "does not compile: $body"; }
done
for body in 'asc_add(a, a, a);' 'asc_add(a, a, a, n, 1);' 'asc_add();' 'asc_exp(a, a, n, 1);' 'asc_add_sync(a, a, n);' 'asc_copy_gm2ub(a, x);' \
    'asc_copy_gm2ub_align(a, x, 1, n);' 'asc_sync_pipe();' 'asc_set_vector_mask(1);' 'asc_duplicate(a, 1.0f, n, 1);' \
    'asc_no_such_call(a, n);' 'asc_add(a, a, a, x);' 'asc_add(a, a, n, a);' 'a = (__ubuf__ float *)asc_get_phy_buf_addr(n);'; do
    if compiles "$ub $body"; then fail "compiles: $body"; fi
done
says 'asc_the_offset_must_be_a_constant'
echo "ascsim: as expected"
