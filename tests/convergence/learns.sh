#!/bin/sh
# A small model learns the C sources of this repository: held-out loss in nats a byte, from ln 256 = 5.5, to about 2.5 with any seed: the
# learning rate is a low one, at which the course does not hang on what the files hold. Documents and tables take longer to learn.
. "$(dirname "$0")/../llama/common.sh"
sources=$(find "$source/include" "$source/src" -name '*.[ch]' | LC_ALL=C sort)
for type in f32 bf16; do
    "$llama" --preset tiny --layers 2 --steps 200 --warmup 20 --lr 1e-3 --eval-every 0 --type $type --quiet \
        --data $sources --log log || fail "$type"
    grep held_out log | sed 's/.*held_out":\([0-9.]*\).*/\1/' | awk -v type=$type '
        { printf "%s: held-out loss %.3f after 200 steps (limit 2.9)\n", type, $1; exit !($1 < 2.9) }' || fail "$type"
done
