#!/bin/sh
# The trainer's preset `tiny` on this repository's text, in f32 and bf16: the default implementations against `unfused`,
# elementary steps as an eager framework runs them. Losses and gradient norms of every step and the final parameters must
# agree within the limits, and the control, a rate that is a little too high, must break all of them.
#
# Rounding alone parts courses. In f32 default implementations of the level v2, which only sum in another order, differ from those of v4
# by 5e-7 of a loss, 7e-7 of a norm and 2e-6 of the parameters' way after 200 steps. At the preset's learning rate, 3e-3, it
# grows along the course, by how much depends on the text: up to 1e-3, 1e-3 and 5e-3. So the rate here is 1e-3, and the
# limits are fifty times the scatter and more.
#
# In bf16 there are batches that multiply a difference a hundredfold, at one step or another, or not at all: that depends on
# text and seed. What lies before is a matter of the arithmetic, what follows one of luck. Measured as below, over three
# seeds, between courses that are equally right: default implementations of v2, v3, v4 and v4bf16 (native products) and `unfused`, all of
# them as far from the f32 course as one another.
#
#     steps    the scatter, at most       the control, at least
#        40    7.7e-3 1.0e-2 1.4e-2       1.8e-2 4.5e-2 1.5e-1    rate 10 % off
#       200    2.7e-2 6.5e-2 1.8e-1       5.3e-2 1.5e-1 5.7e-1    rate 30 % off
#
# Two levels of emulated products lie as far apart as native products lie from either: 1.8e-2, 4.8e-2 and 1.1e-1 for v3
# against v4. The limits are the geometric means of the two columns.
. "$(dirname "$0")/courses.sh"
both() { # TYPE STEPS LIMITS RATE
    options="--preset tiny --lr 1e-3 --data $work/text.txt --steps $2"
    mkdir $1-$2
    cd $1-$2
    echo "$2 steps"
    train start $1 --steps 0
    train default $1
    train unfused $1 --impl unfused
    train control $1 --lr $4
    within unfused default $1 "$3"
    beyond control default $1 "$3"
    cd ..
}
both f32 200 "5e-5 5e-5 5e-4" 1.01e-3
both bf16 40 "1.2e-2 2.1e-2 4.6e-2" 1.1e-3
both bf16 200 "3.8e-2 1e-1 3.2e-1" 1.3e-3
