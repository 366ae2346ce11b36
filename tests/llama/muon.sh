#!/bin/sh
# --optimizer muon: another course than AdamW's, whose loss falls likewise; the same bits for any number of threads, and when it is stopped and
# resumed; a checkpoint keeps the choice.
. "$(dirname "$0")/common.sh"
last() { # LOG: the loss of the last step
    numbers "$1" | tail -n 1 | cut -d' ' -f2
}
for type in f32 bf16; do
    "$llama" $toy $data --steps 30 --type $type --optimizer muon --out $type --log $type.log --threads 1 || fail "$type: whole"
    "$llama" $toy $data --steps 30 --type $type --optimizer muon --out $type-parts --log $type-parts.log --stop-after 11 --threads 2 || fail "$type: first part"
    "$llama" $data --out $type-parts --log $type-parts.log --resume --threads 2 || fail "$type: second part"
    course $type.log | grep loss >whole
    course $type-parts.log | grep loss >parts
    same whole parts "$type: losses differ"
    for file in model optimizer-000030; do
        same $type/$file.safetensors $type-parts/$file.safetensors "$type: $file.safetensors differs"
    done
done
"$llama" $toy $data --steps 30 --log adamw.log || fail "adamw"
awk "BEGIN { exit !($(last f32.log) < $(last adamw.log) + 0.2) }" || fail "the loss is $(last f32.log), with adamw $(last adamw.log)"
refuses "--optimizer: 'sgd' is neither adamw nor muon" $toy $data --steps 1 --optimizer sgd
echo "muon's courses: the same bits in parts, and a loss of $(last f32.log) beside adamw's $(last adamw.log)"
