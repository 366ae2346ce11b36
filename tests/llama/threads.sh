#!/bin/sh
# 50 steps of training: the same bits for 1, 2 and 7 threads.
. "$(dirname "$0")/common.sh"
for type in f32 bf16; do
    for threads in 1 2 7; do
        "$llama" --preset tiny --layers 2 --batch 4 $data --type $type --steps 50 --warmup 5 --threads $threads \
            --out $type-$threads --log $type-$threads.log || fail "$type with $threads threads"
        course $type-$threads.log | grep -v median >$type-$threads.course
    done
    for threads in 2 7; do
        same $type-1.course $type-$threads.course "$type: losses and norms with 1 and $threads threads differ"
        for file in model optimizer-000050; do
            same $type-1/$file.safetensors $type-$threads/$file.safetensors \
                "$type: $file.safetensors with 1 and $threads threads differ"
        done
    done
done
echo "the same bits for 1, 2 and 7 threads over 50 steps, f32 and bf16"
