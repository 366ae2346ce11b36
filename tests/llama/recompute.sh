#!/bin/sh
# --recompute: the same losses, norms and samples to the last bit, f32 and bf16, with gradients that lie where activations were (one
# micro-batch) and with others; and the more is computed again the less memory is taken. --gates-kept: of so many layers less is.
. "$(dirname "$0")/common.sh"
for type in f32 bf16; do
    for course in "--accumulate 2" "--batch 8"; do
        for level in 0 1 2 3; do
            "$llama" $toy $data --type $type --steps 4 $course --sample 20 --recompute $level --log log$level >sample$level 2>err ||
                fail "$(cat err)"
            numbers log$level >numbers$level
        done
        for kept in 1 2 4 9; do
            "$llama" $toy $data --type $type --steps 4 $course --recompute 3 --gates-kept $kept --log log >out 2>err || fail "$(cat err)"
            numbers log >numbers
            same numbers0 numbers "$type $course: other losses or norms with --gates-kept $kept"
        done
        [ "$(wc -l <numbers0)" -eq 4 ] || fail "no losses"
        for level in 1 2 3; do
            same numbers0 numbers$level "$type $course: other losses or norms with --recompute $level"
            same sample0 sample$level "$type $course: another sample with --recompute $level"
        done
    done
done
peak() { # OPTION...: MB
    "$llama" $data --layers 12 --batch 16 --steps 1 --eval-windows 1 --quiet --log log "$@" >out 2>err || fail "$(cat err)"
    tail -n 1 log | sed -n 's/.*"peak_bytes":\([0-9]*\)[0-9]\{6\}[,}].*/\1/p'
}
all=$(peak --recompute 0)
default=$(peak)
least=$(peak --recompute 3)
some=$(peak --recompute 3 --gates-kept 6)
# A layer keeps two normed streams of 128 floats and swiglu's output of 384 for each of 4096 tokens, or shares them: 115 MB in all; gate and up
# are 768 more: 138 MB.
[ $((all - default)) -gt 90 ] && [ $((default - least)) -gt 110 ] ||
    fail "peak memory is $all MB with --recompute 0, $default MB with 2, $least MB with 3"
between=$(((default + least) / 2))
[ $((some - between)) -lt 30 ] && [ $((between - some)) -lt 30 ] || fail "peak memory is $some MB with --gates-kept 6, and not about $between MB"
refuses "--gates-kept goes with --recompute 3" $toy $data --gates-kept 1 --steps 1
echo "--recompute: the same bits; peak memory of 12 layers: $all MB with 0, $default MB with 2, $least MB with 3"
