#!/bin/sh
# The trainer with 64 micro-batches of one window (--batch 1 --accumulate 64) against the same 64 windows in one batch
# (--batch 64), 20 steps of two layers of `tiny`: losses and gradient norms of every step and the final parameters.
# Gradients accumulate in f32, so only the order of sums differs. In f32 that is 5e-8 of a loss, 2e-7 of a norm and 1e-6
# of the parameters' way; the limits are ten times that and more. In bf16 it turns the rounding of some parameters,
# and the courses part by 2e-4, 7e-4 and 6e-3; the limits are four times that. The control is a learning rate that is off by
# 0.1 % in f32, by 10 % in bf16. How far an accumulator in bf16 drifts is the part of accumulation.c.
. "$(dirname "$0")/courses.sh"
options="--preset tiny --data text.txt --layers 2 --seq 64 --steps 20 --warmup 5"
both() { # TYPE LIMITS RATE
    train start $1 --batch 64 --steps 0
    train piece $1 --batch 64
    train micro $1 --batch 1 --accumulate 64
    train control $1 --batch 64 --lr $3
    within micro piece $1 "$2"
    beyond control piece $1 "$2"
}
both f32 "1e-6 2e-6 2e-5" 3.003e-3
both bf16 "8e-4 3e-3 3e-2" 3.3e-3
