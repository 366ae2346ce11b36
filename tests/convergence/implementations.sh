#!/bin/sh
# The same course with the reference, the unfused and the default implementations and each ceiling of the CPU's levels: losses and
# gradient norms of every step agree. Random upstream gradients and long accumulations are the checker's part; here it
# is 32 whole steps.
. "$(dirname "$0")/../llama/common.sh"
run() { # NAME TYPE ARGUMENTS...
    name=$1
    type=$2
    shift 2
    "$llama" $toy --width 32 --ff 64 --seq 32 $data --type $type --steps 32 --lr 1e-3 --log $name-$type.log "$@" || fail "$name, $type"
    numbers $name-$type.log >$name-$type
}
agree() { # NAME TYPE LIMIT_OF_LOSS LIMIT_OF_NORM: largest difference of a loss, mean difference of a norm, relative
    # A single norm may differ more in bf16: there are batches on whose gradient a rounding tells.
    paste ref-$2 $1-$2 | awk -v what="$1, $2" -v a=$3 -v b=$4 '
        function gap(x, y) { x = (x - y) / (x > 1 ? x : 1); return x < 0 ? -x : x }
        { if (gap($2, $5) > loss) loss = gap($2, $5); norm += gap($3, $6) / 32 }
        END {
            printf "%s against ref: loss differs by at most %.1e (limit %.0e), gradient norm on average by %.1e (limit %.0e)\n",
                what, loss, a, norm, b
            exit !(NR == 32 && loss <= a && norm <= b)
        }' || fail "$1, $2 disagrees with the reference"
}
run ref f32 --impl ref
run ref bf16 --impl ref
for type in f32 bf16; do
    [ $type = f32 ] && limits="1e-5 1e-4" || limits="1e-3 5e-3"
    run default $type
    agree default $type $limits
    run unfused $type --impl unfused,cpu
    agree unfused $type $limits
    for level in v2 v3; do
        TIGON_CPU_MAX=$level run $level $type
        agree $level $type $limits
    done
done
