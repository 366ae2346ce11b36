#!/bin/sh
# The trainer's preset `tiny` on this repository's text for 200 steps, in f32 and bf16: the default rows against the rows
# `unfused`, elementary steps as an eager framework runs them. Losses and gradient norms of every step and the final
# parameters must agree within the limits; a course with another learning rate, the control, must break all of them.
. "$(dirname "$0")/courses.sh"
options="--preset tiny --data text.txt --steps 200"
both() { # TYPE LIMITS CONTROL...
    type=$1
    limits=$2
    shift 2
    train start $type --steps 0
    train default $type
    train unfused $type --impl unfused
    train control $type "$@"
    within unfused default $type "$limits"
    beyond control default $type "$limits"
}
both f32 "1e-3 1e-3 1e-3" --lr 3.003e-3
both bf16 "1e-3 1e-3 1e-3" --lr 4e-3
