#!/bin/sh
# scripts/first-card.sh from end to end, with stand-ins for CANN (cann.sh, stand_in.c) and the model as the card: one whose memory is slower
# and whose launches take longer than the model's table says. The page must tell so; where something is missing or ctrl-C comes, it
# must tell that.
#   first_card.sh SOURCE_DIR BUILD_DIR FOLDER_OF_THE_STAND_IN COMPILER
set -eu
source=$1
stand_in=$3
export CC="$4"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/first
fail() {
    echo "FAILED: $1"
    [ ! -e "$out/README.md" ] || cat "$out/README.md"
    exit 1
}
. "$source/tests/ascend/cann.sh"
make_cann "$work/cann"
export ASCEND_HOME_PATH="$work/cann" LD_LIBRARY_PATH="$stand_in" PATH="$work/cann/bin:$PATH"
export STAND_IN_MODEL="$out/build" STAND_IN_RECORD="$work/record" STAND_IN_FACTS=hbm_bytes_per_second=6.4e11,launch_us=3
export STAND_IN_CC="$CC $("$2/ascsim" flags compile)" STAND_IN_LINK="$("$2/ascsim" flags link)"
tells() { # TEXT
    grep -q -e "$1" "$out/README.md" || fail "the page has no \"$1\""
}

# ---- all is there ----
sh "$source/scripts/first-card.sh" "$out" swiglu_forward rms_norm_forward gemm || fail "it ends with an error"
[ "$(grep -c '^| .* | done | ' "$out/README.md")" = 10 ] || fail "not all steps are done"
tells "910B4"
tells ', 0 failed\|The others: 0$'
grep -q "VIOLATION" "$work/record" && { grep VIOLATION "$work/record"; fail "a rule of the run time is broken"; }
# Questions do on purpose what kernels must not; nothing else does.
grep '^FAULT \|^STOPPED ' "$work/record" | grep -v '^STOPPED question: \|/\(fb_pipe\|mte1_beside\|direction\|sync_word\|stale_line\)[.]' && fail "a kernel has a fault"
"$2/ascsim" lint -I"$source/backends/ascend/kernels" "$source"/backends/ascend/questions/*.asc.c || fail "ascsim lint finds something in the questions"
# The model's own answers: it can't be asked for what only a card has.
grep -v -e '^| \(direction_m\|sync_word\) ' "$out/questions.txt" | grep '^| [a-z0-9_]* | .* | \(B\|none\) | ' && fail "the model answers otherwise than documented"
# What the card is like is found.
tells '^FACT(launch_us, "us", [0-9., ]*, \(2[.]9\|3\)[0-9.]*, "'
tells '^FACT(hbm_bytes_per_second, "B/s", [0-9.e+, ]*, 6[.][345][0-9]*e+11, "'
[ -s "$out/compare.svg" ] || fail "nothing is drawn"
tar tzf "$out.tar.gz" >"$work/files"
for file in README.md machine.txt check.txt questions.txt op_summary.csv compare.txt compare.svg kernels.txt; do
    grep -q "^first/$file$" "$work/files" || fail "$file is not in the archive"
done
grep -q "/build/\|/msprof/" "$work/files" && fail "the archive has what nobody reads"

# ---- each kernel's other reading is told ----
sh "$source/tests/ascend/other_readings.sh" "$source" "$out/build" "$work/others" || fail "a question cannot tell"

# ---- a step that fails takes no other with it ----
out=$work/bare
rm "$work/cann/bin/msprof" "$work/cann/bin/npu-smi"
cat >"$work/cann/bin/cmake" <<'STANDIN'
#!/bin/sh
echo "there is no compiler"
exit 1
STANDIN
chmod +x "$work/cann/bin/cmake"
sh "$source/scripts/first-card.sh" "$out" || fail "a machine without anything stops it"
[ "$(grep -c '^| .* | failed | ' "$out/README.md")" -ge 8 ] || fail "the page does not tell what failed"
[ -s "$out.tar.gz" ] || fail "there is no archive"

# ---- ctrl-C keeps what is known ----
out=$work/ended
printf '#!/bin/sh\nkill -INT 0\nsleep 20\n' >"$work/cann/bin/cmake"
status=0
setsid -w sh "$source/scripts/first-card.sh" "$out" || status=$?
[ $status = 130 ] || fail "exit status $status after ctrl-C, expected 130"
tells 'ended by ctrl-C'
tells 'not begun: ended by ctrl-C'
[ -s "$out.tar.gz" ] || fail "there is no archive after ctrl-C"
echo "a page, $(grep -c '^| .* | A | ' "$work/first/questions.txt") answers as documented"
