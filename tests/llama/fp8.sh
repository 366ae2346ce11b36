#!/bin/sh
# --products fp8: a course beside that without, its loss within 2 percent of that; the same bits for any number of threads, and when it is
# stopped and resumed; a checkpoint keeps the choice. Norms and gates that write numbers of 8 bits give the bits of those that are written and
# then quantised, whatever is kept for the backward pass.
. "$(dirname "$0")/common.sh"
last() { # LOG: the loss of the last step
    numbers "$1" | tail -n 1 | cut -d' ' -f2
}
for type in f32 bf16; do
    "$llama" $toy $data --steps 30 --type $type --log plain-$type.log || fail "$type: without"
    "$llama" $toy $data --steps 30 --type $type --products fp8 --out $type --log $type.log --threads 1 || fail "$type: whole"
    "$llama" $toy $data --steps 30 --type $type --products fp8 --out $type-parts --log $type-parts.log --stop-after 11 --threads 2 || fail "$type: first part"
    "$llama" $data --out $type-parts --log $type-parts.log --resume --threads 2 || fail "$type: second part"
    course $type.log | grep loss >whole
    course $type-parts.log | grep loss >parts
    same whole parts "$type: losses differ"
    same $type/model.safetensors $type-parts/model.safetensors "$type: model.safetensors differs"
    awk "BEGIN { d = $(last $type.log) / $(last plain-$type.log) - 1; exit !(d < 0.02 && d > -0.02 && d != 0) }" ||
        fail "$type: the loss is $(last $type.log), without fp8 $(last plain-$type.log)"
done
apart="TIGON_IMPL_QUANTIZE_RMS_NORM=unfused TIGON_IMPL_QUANTIZE_SWIGLU=unfused TIGON_IMPL_QUANTIZE_SWIGLU_GRADIENT=unfused"
for ff in 96 256; do # blocks of 128 that hold gradients of both gate and up, and blocks of either
    for how in "env" "env $apart"; do
        for recompute in 0 3; do
            rm -f log
            $how "$llama" $toy $data --ff $ff --steps 5 --type bf16 --products fp8 --recompute $recompute --log log || fail "ff $ff: $how"
            course log | grep loss >found
            [ -e losses-$ff ] || cp found losses-$ff
            same losses-$ff found "ff $ff: $how, --recompute $recompute: losses differ"
        done
    done
done
refuses "--products: 'fp4' is neither same nor fp8" $toy $data --steps 1 --products fp4
echo "products of 8 bits: the same bits in parts, and a loss of $(last f32.log) beside $(last plain-f32.log)"
