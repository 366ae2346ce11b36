# Sourced by fused.sh and accumulate.sh: courses of the trainer, and how far two of them lie apart.
. "$(dirname "$0")/../llama/common.sh"
command -v python3 >/dev/null || fail "python3 is missing: it reads the checkpoints (scripts/setup.sh test installs it)"
# The text, as it is when the test begins: an edit in the meantime would part the courses.
cat "$source"/include/tigon/* "$source"/docs/*.md >text.txt

# train NAME TYPE ARGUMENTS...: leaves step, loss and norm of each step in NAME-TYPE, the parameters in NAME-TYPE.out
train() {
    name=$1
    type=$2
    shift 2
    "$llama" $options --type $type --eval-every 0 --quiet --log $name-$type.log --out $name-$type.out "$@" ||
        fail "$name, $type"
    numbers $name-$type.log >$name-$type
}
# apart A B TYPE: "LOSS NORM PARAMETERS": the largest difference of a loss (over the loss, if that is above 1), the mean
# difference of a gradient norm, relative, and |a - b| / |b - start| over all parameters. A single norm may differ more:
# there are batches on whose gradient a rounding tells.
apart() {
    steps=$(wc -l <$2-$3)
    [ $steps -gt 0 ] && [ $steps -eq $(wc -l <$1-$3) ] ||
        { echo "$1 and $2, $3: the logs have different lengths"; exit 1; }
    paste $1-$3 $2-$3 | awk -v steps=$steps '
        function gap(x, y) { return x < y ? y - x : x - y }
        { d = gap($2, $5) / ($5 > 1 ? $5 : 1); if (d > loss) loss = d; norm += gap($3, $6) / $6 / steps }
        END { printf "%.1e %.1e ", loss, norm }'
    python3 "$source/tests/convergence/distance.py" $1-$3.out $2-$3.out start-$3.out 2>&1
}
# within A B TYPE "LOSS NORM PARAMETERS": none may be larger
within() {
    gaps=$(apart $1 $2 $3) || fail "$gaps"
    say "$1 against $2, $3" "$gaps" "at most" "$4"
    echo $gaps $4 | awk '{ exit !($1 <= $4 && $2 <= $5 && $3 <= $6) }' || fail "$1 and $2, $3: too far apart"
}
# beyond A B TYPE "LOSS NORM PARAMETERS": all must be larger, or the limits could not see a wrong course
beyond() {
    gaps=$(apart $1 $2 $3) || fail "$gaps"
    say "$1 against $2, $3" "$gaps" "more than" "$4"
    echo $gaps $4 | awk '{ exit !($1 > $4 && $2 > $5 && $3 > $6) }' || fail "$1 and $2, $3: not told apart"
}
say() {
    printf '%-34s loss %s, norm %s, parameters %s (%s %s, %s, %s)\n' "$1:" $2 "$3" $4
}
