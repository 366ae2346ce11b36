#!/bin/sh
# --recompute: the same losses, norms and samples to the last bit, f32 and bf16, and less memory.
. "$(dirname "$0")/common.sh"
for type in f32 bf16; do
    for option in "" --recompute; do
        "$llama" $toy $data --type $type --steps 4 --accumulate 2 --sample 20 $option --log log$option >sample$option 2>err || fail "$(cat err)"
        numbers log$option >numbers$option
    done
    [ "$(wc -l <numbers)" -eq 4 ] || fail "no losses"
    same numbers numbers--recompute "$type: other losses or norms"
    same sample sample--recompute "$type: another sample"
done
peak() { # OPTION...: MiB
    "$llama" $data --layers 12 --batch 16 --steps 1 --eval-windows 1 --quiet --log log "$@" >out 2>err || fail "$(cat err)"
    tail -n 1 log | sed -n 's/.*"peak_bytes":\([0-9]*\)[0-9]\{6\}[,}].*/\1/p'
}
all=$(peak)
one=$(peak --recompute)
# A layer keeps 128 + 256 of 128 + 256 + 128 + 128 + 768 floats for each of 4096 tokens, and 3 numbers: 184 MB less in all.
[ $((all - one)) -gt 150 ] || fail "peak memory is $one MB, without --recompute $all MB"
echo "--recompute: the same bits; peak memory of 12 layers: $one MB instead of $all MB"
