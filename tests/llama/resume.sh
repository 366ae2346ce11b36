#!/bin/sh
# A run that is stopped and resumed gives the same bits as one that is not, however it was stopped.
. "$(dirname "$0")/common.sh"
compare() { # NAME ARGUMENTS...
    name=$1
    shift
    "$llama" $toy $data --steps 20 "$@" --out $name-whole --log whole.log || fail "$name: whole"
    "$llama" $toy $data --steps 20 "$@" --out $name --log parts.log --stop-after 7 || fail "$name: first part"
    "$llama" $data --out $name --log parts.log --resume --stop-after 6 || fail "$name: second part"
    "$llama" $data --out $name --log parts.log --resume || fail "$name: last part"
    course whole.log | grep loss >whole
    course parts.log | grep loss >parts
    same whole parts "$name: losses differ"
    for file in model optimizer-000020; do
        same $name-whole/$file.safetensors $name/$file.safetensors "$name: $file.safetensors differs"
    done
    [ "$(ls $name | wc -l)" -eq 3 ] || fail "$name: holds $(ls $name | tr '\n' ' ')"
}
compare f32
compare bf16 --type bf16 --accumulate 2 --untied

# Micro-batches: the same windows, so nearly the same course.
"$llama" $toy $data --steps 10 --batch 4 --log whole.log
"$llama" $toy $data --steps 10 --batch 2 --accumulate 2 --log parts.log
numbers whole.log >whole
numbers parts.log >parts
paste whole parts | awk '
    { d = $2 - $5; n = $3 - $6; if (d * d > 1e-8 || n * n > 1e-6) { print; bad = 1 } } END { exit bad || NR != 10 }' ||
    fail "two micro-batches are not one batch"

# Ctrl-C: saves, leaves with 130, and the course goes on.
"$llama" $toy $data --steps 100000 --out signal --log signal.log &
interrupt $! signal.log
before=$(grep -c loss signal.log)
"$llama" $data --out signal --log signal.log --resume --stop-after 3 || fail "resume after Ctrl-C"
[ "$(grep '"loss"' signal.log | tail -n 1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -eq $((before + 3)) ] ||
    fail "resume after Ctrl-C: $(tail -n 1 signal.log)"

# The terminal goes: the same, unless it was told not to care.
"$llama" $toy $data --steps 100000 --out hung --log hung.log &
after_steps hung.log 100
kill -HUP $!
status=0
wait $! || status=$?
[ $status -eq 130 ] && [ -f hung/model.safetensors ] || fail "SIGHUP: status $status, $(ls hung)"

# Whoever reads the log or the progress leaves: the course goes on to its end, and is saved.
mkfifo reader
(head -n 1 >/dev/null) <reader &
status=0
"$llama" $toy $data --steps 60 --out deaf --log reader 2>err || status=$?
[ $status -eq 1 ] && grep -q "the run goes on without it" err || fail "no reader of the log: status $status, '$(cat err)'"
grep -q '"step":"60"' deaf/model.safetensors || fail "no reader of the log: nothing is saved"
(
    status=0
    "$llama" $toy --data corpus.txt --steps 60 --out mute --log mute.log 2>&1 || status=$?
    echo $status >status
) | true
[ "$(cat status)" -eq 0 ] && grep -q '"step":"60"' mute/model.safetensors || fail "no reader of stderr: status $(cat status)"
# Nor does it take its checkpoint for a standard file that is closed.
"$llama" $toy --data corpus.txt --steps 2 --out closed >&- 2>&- <&- || fail "closed standard files: status $?"
"$llama" --out closed --resume --eval-only 2>err || fail "closed standard files: $(cat err)"

# Killed in the middle of saving, again and again: there is always a checkpoint to go on from.
"$llama" $toy $data --steps 100000 --out killed --stop-after 1
for pause in 0.11 0.17 0.23 0.31; do
    "$llama" $data --out killed --resume --save-every 1 &
    process=$!
    sleep $pause
    kill -KILL $process
    wait $process 2>/dev/null || true
    "$llama" $data --out killed --resume --stop-after 1 || fail "resume after a kill: $(ls killed)"
done

# Without --data, on this source: the checkpoint names no files.
"$llama" $toy --steps 4 --quiet --out default --stop-after 2
"$llama" --out default --resume --quiet || fail "resume without --data"

# What does not fit is refused.
refuses "holds a checkpoint; go on from it with --resume" $toy $data --steps 1 --out f32
refuses "was trained on other data" --data held.txt --out f32 --resume
refuses "--width 128: the checkpoint's model is another one, of 64" $data --out f32 --resume --width 128
refuses "--type bf16: the checkpoint's model is another one, of f32" $data --out f32 --resume --type bf16
refuses "--layers 1: the checkpoint's model is another one, of 2" $data --out f32 --resume --layers 1
refuses "--heads 8: the checkpoint's model is another one, of 4" $data --out f32 --resume --heads 8 --kv-heads 4
refuses "--untied: the checkpoint's model is another one" $data --out f32 --resume --untied
refuses "f32 has done 20 steps already, --steps asks for 3" $data --out f32 --resume --steps 3
cp -r f32 broken
head -c 100 f32/model.safetensors >broken/model.safetensors
refuses "is no safetensors file" $data --out broken --resume
head -c 30000 f32/model.safetensors >broken/model.safetensors
refuses "model.safetensors: is damaged" $data --out broken --resume
cp f32/model.safetensors broken
rm broken/optimizer-000020.safetensors
refuses "optimizer-000020.safetensors: No such file" $data --out broken --resume
echo "stopped and resumed runs give the same bits; broken checkpoints are refused"
