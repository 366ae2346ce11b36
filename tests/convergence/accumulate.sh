#!/bin/sh
# The trainer with 64 micro-batches of one window (--batch 1 --accumulate 64) against the same 64 windows in one batch
# (--batch 64), 20 steps of two layers of `tiny`: losses and gradient norms of every step and the final parameters.
# Gradients accumulate in f32, so only the order of sums differs. In f32 that is 6e-8 of a loss, 1e-8 of a norm and 6e-7
# of the parameters' way; in bf16 it turns the rounding of some parameters, and the courses part by 6e-6, 3e-5
# and 3e-3. The limits leave room for other texts, see fused.sh; a learning rate that is off by 1 % in f32, by 10 % in bf16,
# the control, must break all of them. How far an accumulator in bf16 drifts is the part of accumulation.c.
. "$(dirname "$0")/courses.sh"
options="--preset tiny --lr 1e-3 --data text.txt --layers 2 --seq 64 --steps 20 --warmup 5"
both() { # TYPE LIMITS RATE
    train start $1 --batch 64 --steps 0
    train piece $1 --batch 64
    train micro $1 --batch 1 --accumulate 64
    train control $1 --batch 64 --lr $3
    within micro piece $1 "$2"
    beyond control piece $1 "$2"
}
both f32 "5e-5 5e-5 5e-4" 1.01e-3
both bf16 "5e-4 2e-3 2e-2" 1.1e-3
