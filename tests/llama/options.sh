#!/bin/sh
# Wrong options and files: a clear message, status 1, never a crash.
. "$(dirname "$0")/common.sh"
refuses "unknown option '--foo'" --foo
refuses "unknown option 'foo'" foo
refuses "--steps: its value is missing" --steps
refuses "--steps: 'x' is not a whole number" --steps x
refuses "--steps: '1.5' is not a whole number" --steps 1.5
refuses "--steps: -1 is not in [0, 1e+07]" --steps -1
refuses "--lr: nan is not in" --lr nan
refuses "--preset: 'big' is none of tiny, small, 124m, 1b" --preset big
refuses "--type: 'f16' is neither f32 nor bf16" --type f16
refuses "--width 100 must be --heads 3 times an even number" --width 100 --heads 3
refuses "--kv-heads 3 does not divide --heads 4" --kv-heads 3
refuses "--vocab 100 is too small for bytes" --vocab 100
refuses "--data: no file is named" --data --steps 1
refuses "nowhere: No such file or directory" --data nowhere
refuses ".: is a folder" --data .
refuses "--min-lr 0.001, with which the course ends, is above --lr 0.0001" $data --lr 1e-4 --min-lr 1e-3
"$llama" $toy $data --lr 1e-5 --steps 1 || fail "--lr alone: the rate at the end is a tenth of it"
refuses "these sizes take more than" $data --seq 1048576 --batch 1048576 --width 1048576
refuses "--data and --tokens exclude each other" --data held.txt --tokens held.txt
refuses "--resume needs --out" --resume
refuses "there is no checkpoint to resume from" --resume --out nowhere
refuses "--compare starts anew" --compare --resume --out nowhere
refuses "--log nowhere/log" --log nowhere/log --steps 1
refuses "Not a directory" --out held.txt/x --steps 0
refuses "there is no backend foo" --impl foo --steps 1
printf 'few' >few.txt
refuses "are too few for a window" --data few.txt

# Token files in llm.c's format: int32 magic, version, count; 1024 bytes; uint16 tokens.
refuses "are too few for a token file's header" --tokens few.txt
head -c 2000 /dev/zero >zero.bin
refuses "magic 0, version 0; a token file has 20240520, 1 or 20240801, 7" --tokens zero.bin
tokens() { # COUNT: a file of 4096 tokens 7, 8, 7, 8, ... whose header tells of COUNT
    printf '\210\330\064\001\001\000\000\000'
    printf "\\$(printf %o $(($1 % 256)))\\$(printf %o $(($1 / 256)))\\000\\000"
    head -c 1012 /dev/zero
    yes 'ab' | head -n 2048 | tr -d '\n' | sed 's/a/\x07\x00/g; s/b/\x08\x00/g'
}
tokens 4096 >good.bin
tokens 5000 >short.bin
# The file has the bytes that its header tells, neither fewer nor more, nor of tokens of another width.
refuses "its header tells of 5000 tokens of 16 bits, which with it are 11024 bytes; the file has 9216" --tokens short.bin
tokens 2048 >long.bin
refuses "its header tells of 2048 tokens of 16 bits, which with it are 5120 bytes; the file has 9216" --tokens long.bin
{
    cat good.bin
    printf x
} >odd.bin
refuses "the file has 9217" --tokens odd.bin
refuses "long.bin: its header tells of 2048 tokens" --tokens good.bin --val-tokens long.bin
refuses "/dev/zero: is a device, expected a file" --tokens /dev/zero
mkfifo pipe
refuses "pipe: is a device, expected a file" --tokens pipe
# Every token is looked at before the first step, those of the held-out part as well.
refuses "good.bin: token 7 at 0 is not below the vocabulary's 5" --tokens good.bin --vocab 5 --steps 1
{
    head -c 9214 good.bin
    printf '\377\377'
} >last.bin
refuses "last.bin: token 65535 at 4095 is not below the vocabulary's 256" --tokens last.bin --steps 1
refuses "last.bin: token 65535 at 4095" --tokens good.bin --val-tokens last.bin --steps 1
refuses "--prompt: byte 10 is not below the vocabulary's 9" --tokens good.bin --vocab 9 --sample 1
"$llama" $toy --tokens good.bin --vocab 16 --steps 30 --lr 1e-2 --log log --quiet >out 2>err ||
    fail "a token file: $(cat err)"
grep '"loss"' log | tail -n 1 | awk -F'[:}]' '{ exit !($3 < 1.0) }' || fail "two tokens in turn are not learnt: $(tail -n 2 log)"

{ # the same tokens in 32 bits
    printf '\241\331\064\001\007\000\000\000\000\020\000\000'
    head -c 1012 /dev/zero
    yes 'ab' | head -n 2048 | tr -d '\n' | sed 's/a/\x07\x00\x00\x00/g; s/b/\x08\x00\x00\x00/g'
} >wide.bin
for file in good.bin wide.bin; do
    "$llama" $toy --tokens $file --vocab 16 --steps 2 --log log.$file --quiet >out 2>err || fail "$file: $(cat err)"
    sed 's/"seconds".*//; s/,"median.*//' log.$file >loss.$file
done
{
    head -c 12 wide.bin
    tail -c +13 good.bin
} >halved.bin
refuses "its header tells of 4096 tokens of 32 bits, which with it are 17408 bytes; the file has 9216" --tokens halved.bin
{
    head -c 12 good.bin
    tail -c +13 wide.bin
} >doubled.bin
refuses "its header tells of 4096 tokens of 16 bits, which with it are 9216 bytes; the file has 17408" --tokens doubled.bin
cmp loss.good.bin loss.wide.bin || fail "tokens of 16 and of 32 bits give different losses"
: >shaky.log
"$llama" $toy --tokens good.bin --steps 100000 --eval-every 0 --log shaky.log --out shaky --quiet 2>err &
after_steps shaky.log 100
truncate -s 2000 good.bin
status=0
wait $! || status=$?
[ $status -eq 1 ] && grep -q "good.bin: ends too early: the course ends after" err || fail "a token file that is cut: status $status, '$(cat err)'"
grep -q '"step":"'$(grep -c '"loss"' shaky.log)'"' shaky/model.safetensors || fail "a token file that is cut: nothing is saved"
refuses "--device nowhere: " $toy $data --device nowhere

# Where it was built it finds its own text, also when all is moved; elsewhere it asks for some, and names no folder of another machine.
mkdir -p moved/bin
cp "$llama" moved/bin
status=0
moved/bin/llama --steps 1 >out 2>err || status=$?
[ $status -eq 1 ] && grep -q "no data: name files with --data" err || fail "without its sources: status $status, '$(cat err)'"
grep -qF "$source" err && fail "it names the folder in which it was built: $(cat err)"

# A loss that is not finite ends the course, and says so.
refuses "stopped before the parameters change" $toy $data --steps 50 --lr 1e20 --warmup 0 --clip 0
echo "wrong options and files are refused"
