#!/bin/sh
# Each question to a card once more on a chip that is otherwise: its kernel made so by other_readings.h, or other figures of the model. The
# answer must be another than A; what is A at no time asks nothing. STAND_IN_CC, STAND_IN_LINK and the rest as first_card.sh sets them.
#   other_readings.sh SOURCE_DIR BUILD_DIR FOLDER
set -eu
source=$1
build=$2
folder=$3
unset STAND_IN_FACTS
mkdir -p "$folder"
# Times: the fact of the model that is another, in place of another kernel.
facts_of() { # ID
    case $1 in
    s_call) echo call_cycles=20 ;;
    s_loads) echo ub_scalar_cycles=40 ;;
    s_lines) echo gm_scalar_cycles=40 ;;
    copy_interval) echo copy_interval=40 ;;
    l2_rate) echo read_l2_bytes_per_cycle=50 ;;
    burst_interval) echo burst_interval=16 ;;
    read_latency) echo read_l2_latency=500 ;;
    write_rate) echo write_bytes_per_cycle=14 ;;
    mmad_interval) echo cube_interval=60 ;;
    mmad_startup) echo cube_startup=120 ;;
    load_startup) echo mte1_startup=60 ;;
    load_a) echo l0a_bytes_per_cycle=128 ;;
    load_b) echo l0b_bytes_per_cycle=64 ;;
    mte1_beside | nd2nz_rate) echo nd2nz_bytes_per_cycle=40 ;;
    nd2nz_row) echo nd2nz_row_interval=7 ;;
    fix_rate) echo fix_bytes_per_cycle=30 ;;
    sync_latency) echo cross_latency=2000 ;;
    esac
}
wrong=0
sed -n 's/^QUESTION(\([a-z0-9_]*\), \([a-z0-9_]*\), "\([.a-z]*\)",.*/\1 \2\3/p' "$source/backends/ascend/questions/questions.inc" >"$folder/list"
while read -r id kernel; do
    facts=$(facts_of "$id")
    at=$build/questions
    if [ -z "$facts" ]; then
        at=$folder
        rm -f "$folder/$kernel".*
        if $STAND_IN_CC -I"$source/backends/ascend/kernels" -include "$source/tests/ascend/other_readings.h" -DOTHER_"$id" \
            -o "$folder/$kernel.obj" -c "$source/backends/ascend/questions/$kernel.asc.c" 2>"$folder/log"; then
            ${STAND_IN_CC%% *} "$folder/$kernel.obj" $STAND_IN_LINK -shared -o "$folder/$kernel.o"
        fi
    fi
    answer=$(STAND_IN_FACTS=$facts "$build/tigon_ascend_questions" "$at" "$id" | sed -n "s/^| $id | .* | \(A\|B\|none\) | .*/\1/p")
    expected="B or none"
    [ "$id" != sync_word ] || expected=A # of a model, which has no such word, the plain one is none
    case "$expected: $answer" in
    "B or none: B" | "B or none: none" | "A: A") ;;
    *) echo "$id: the answer is \"$answer\" on a chip that is otherwise, expected $expected" && wrong=1 ;;
    esac
done <"$folder/list"
echo "$(wc -l <"$folder/list") questions, each on a chip that is otherwise"
[ $wrong = 0 ]
