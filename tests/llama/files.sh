#!/bin/sh
# What the trainer keeps in files: a checkpoint knows its data, is refused when it is damaged, and nothing that the user
# has is replaced or left half-written.
. "$(dirname "$0")/common.sh"
mkdir 'da ta'
cp corpus.txt 'da ta/a "b" \c.txt'
cp held.txt 'da ta/held.txt'

# A run that is resumed from anywhere, without its data's names.
"$llama" $toy --data 'da ta/a "b" \c.txt' corpus.txt --val 'da ta/held.txt' --eval-windows 8 --quiet --steps 8 --out whole --log whole.log
"$llama" $toy --data 'da ta/a "b" \c.txt' corpus.txt --val 'da ta/held.txt' --eval-windows 8 --quiet --steps 8 --out parts --log parts.log --stop-after 3
(cd / && "$llama" --out "$work/parts" --log "$work/parts.log" --resume --quiet)
for log in whole parts; do
    course $log.log | grep '"loss"' >$log.course
done
same whole.course parts.course "resumed without --data: another course"
same whole/model.safetensors parts/model.safetensors "resumed without --data: other parameters"
(cd / && "$llama" --out "$work/parts" --resume --eval-only --sample 3 --prompt "Call me" 2>err >out) || fail "--eval-only without --data: $(cat err)"
cp held.txt other.txt
refuses "was trained on other data" --data other.txt --quiet --out parts --resume

# The whole of the data counts, not its beginning alone.
yes 'All work and no play makes Jack a dull boy.' | head -c 70000000 >large.txt
"$llama" $toy --data large.txt --val held.txt --eval-windows 1 --quiet --steps 1 --out large
printf 'X' | dd of=large.txt bs=1 seek=69999000 conv=notrunc 2>/dev/null
refuses "was trained on other data" --quiet --out large --resume --steps 2
rm large.txt

# A damaged checkpoint: one bit of a weight, of a moment or of an option; bytes behind the end; config.json.
damaged() { # FILE OFFSET WORDS: the bit of value 2 in the byte at OFFSET is turned
    rm -rf broken
    cp -r whole broken
    python3 -c '
import sys
path, at = sys.argv[1], int(sys.argv[2])
data = bytearray(open(path, "rb").read())
data[at] ^= 2
open(path, "wb").write(data)' broken/$1 $2
    refuses "$3" --quiet --out broken --resume --steps 9
}
damaged model.safetensors -7 "model.safetensors: is damaged"
damaged optimizer-000008.safetensors -70000 "optimizer-000008.safetensors: is damaged"
damaged model.safetensors "$(grep -abo '"lr":"0.00' whole/model.safetensors | head -n 1 | awk -F: '{ print $1 + 10 }')" "is damaged"
cp whole/* broken
printf 'more' >>broken/model.safetensors
refuses "model.safetensors: is damaged" --quiet --out broken --resume --steps 9
cp whole/* broken
rm broken/config.json
refuses "config.json: No such file" --quiet --out broken --resume --steps 9
sed 's/"hidden_size": 64/"hidden_size": 65/' whole/config.json >broken/config.json
refuses "config.json: hidden_size is 65, expected 64 as in model.safetensors" --quiet --out broken --resume --steps 9

# --plot draws into a pipe, through a link, and never over a folder.
mkfifo pipe
cat pipe >drawn &
"$llama" $toy $data --steps 2 --plot pipe >out || fail "--plot into a pipe"
wait
[ -p pipe ] || fail "--plot has replaced a pipe"
grep -q '</svg>' drawn || fail "--plot into a pipe: nothing is drawn"
echo old >target.svg
ln -s target.svg link.svg
"$llama" $toy $data --steps 2 --plot link.svg >out
[ -h link.svg ] || fail "--plot has replaced a link"
grep -q '</svg>' target.svg || fail "--plot through a link: nothing is drawn"
# What cannot be drawn into is told before the course, not after it.
refuses "is a folder, expected a file" $toy $data --steps 100000 --plot 'da ta'
refuses "nowhere/loss.svg.tmp: No such file" $toy $data --steps 100000 --plot nowhere/loss.svg

# A file has one use, by whatever names.
one_file() { # WORDS ARGUMENTS...
    words=$1
    shift
    refuses "$words" $toy $data --steps 100000 "$@"
}
echo old >same
ln same other
one_file "--log and --plot are one file" --log same --plot ./same
one_file "--log and --plot are one file" --log new --plot 'da ta/../new'
one_file "--log and --plot are one file" --log same --plot other
one_file "--log and --plot are one file" --log loss.svg.tmp --plot loss.svg
for name in config.json model.safetensors model.safetensors.tmp optimizer-000001.safetensors; do
    one_file "--out writes its checkpoint there" --out fresh --log ./fresh/$name
    one_file "--out writes its checkpoint there" --out 'da ta' --plot "da ta/../da ta/$name"
done
one_file "--log would write corpus.txt, which --data reads" --log corpus.txt
one_file "--plot would write held.txt, which --val reads" --plot held.txt
one_file "--log: is the folder of --out" --log fresh --out fresh/
[ "$(cat same)" = old ] && [ -s corpus.txt ] && [ ! -e fresh ] || fail "a refused run has written something: $(ls)"
"$llama" $toy $data --steps 1 --out fresh --log fresh/log --plot fresh/loss.svg >out 2>err || fail "outputs in one folder: $(cat err)"
"$llama" $toy $data --steps 1 --log /dev/null --plot /dev/null >out 2>err || fail "one device for two outputs: $(cat err)"

# A file that may not grow: an error, and nothing half-written.
status=0
(ulimit -f 40 && exec "$llama" $toy $data --steps 1 --out limited) >out 2>err || status=$?
[ $status -eq 1 ] || fail "ulimit -f: status $status, expected 1"
grep -q "File too large" err || fail "ulimit -f: says '$(cat err)'"
[ -z "$(find limited -name '*.tmp')" ] || fail "ulimit -f: leaves $(ls limited | tr '\n' ' ')"
refuses "--log /dev/full: No space left on device; the run goes on without it" $toy $data --steps 1 --log /dev/full --out spared
[ -f spared/model.safetensors ] || fail "a log on a full disk: nothing is saved"

# What a killed run has left of writing is removed.
cp -r whole again
echo part >again/optimizer-000004.safetensors.tmp
"$llama" --quiet --out again --resume --steps 9 || fail "resume beside a temporary file"
[ "$(ls again | wc -l)" -eq 3 ] || fail "left: $(ls again | tr '\n' ' ')"

# Held-out data without a window are an error; a signal without --out is answered.
: >empty.txt
refuses "--val: 0 tokens are too few for a window of 48" $toy --data corpus.txt --val empty.txt --steps 1
"$llama" $toy --data corpus.txt --val held.txt --steps 100000 --log signal.log 2>err &
interrupt $! signal.log
grep -q "nothing is saved without --out" err || fail "a signal without --out: says '$(tail -n 1 err)'"

# --help tells the defaults of the preset that is named with it, in any order.
"$llama" --help --preset small | grep -q -- '--layers N *blocks \[8\]' || fail "--help: no default of layers"
"$llama" --help | grep -q -- '--batch N .*\[4\]' || fail "--help: no default of batch"
echo "checkpoints know their data, damage is found, files are kept"
