#!/bin/sh
# --experts: a mixture in place of the feed-forward part. The same bits on any number of threads, with whatever is computed again, and whether the course was stopped or not;
# a folder that has been saved is loaded as it was; with MPI the same bits on two ranks, and with --expert-parallel; the losses of one rank on a ring. hf.py compares it with transformers.
#   experts.sh LLAMA [MPIRUN]
. "$(dirname "$0")/common.sh"
mixture="--qk-norm --head-dim 24 --experts 6 --experts-used 2 --expert-ff 40"
refuses "--experts goes with --qk-norm" $toy $data --experts 4 --experts-used 2 --expert-ff 8 --steps 1
refuses "--expert-parallel goes with --experts" $toy $data --expert-parallel --steps 1
refuses "--expert-parallel does not go with --ring" $toy $data $mixture --expert-parallel --optimizer muon --steps 1
refuses "--experts 4 needs --experts-used, 1 to as many" $toy $data --qk-norm --experts 4 --experts-used 5 --expert-ff 8 --steps 1
for type in f32 bf16; do
    of="$toy $data $mixture --type $type --steps 10 --eval-every 5 --accumulate 2"
    rm -rf whole parts ./*.log
    "$llama" $of --threads 2 --out whole --log whole.log
    "$llama" $of --threads 1 --out parts --log parts.log --stop-after 4
    "$llama" --resume --quiet --threads 2 --out parts --log parts.log
    course whole.log | grep '"loss"' >whole.steps
    course parts.log | grep '"loss"' >parts.steps
    same whole.steps parts.steps "$type: threads, stopped and resumed"
    for file in model optimizer-000010; do
        same whole/$file.safetensors parts/$file.safetensors "$type: $file.safetensors differs"
    done
    for recompute in 0 1 3; do
        rm -f again.log
        "$llama" $of --recompute $recompute --log again.log
        course again.log | grep '"loss"' >again.steps
        same whole.steps again.steps "$type: --recompute $recompute"
    done
    rm -f loaded.log
    "$llama" $data --load whole --seq 48 --batch 2 --type $type --steps 0 --log loaded.log
    [ "$(grep held_out loaded.log | sed 's/.*held_out":\([^}]*\).*/\1/')" = "$(grep held_out whole.log | tail -n 1 | sed 's/.*held_out":\([^}]*\).*/\1/')" ] ||
        fail "$type: loaded: $(cat loaded.log)"
    for option in "--balance 5" "--raw-weights"; do # both matter
        rm -f other.log
        "$llama" $of $option --log other.log
        course other.log | grep '"loss"' >other.steps
        cmp -s whole.steps other.steps && fail "$type: $option changes nothing"
    done
    [ -n "${2:-}" ] || continue
    mpi_anywhere
    "$2" -n 2 "$llama" $of --threads 1 --log ranks.log
    course ranks.log | grep '"loss"' >ranks.steps
    same whole.steps ranks.steps "$type: two ranks"
    # Experts shared out, unevenly, and with a rank that has no micro-batch: the bits of one rank, whoever goes on from whose checkpoint.
    rm -rf shared
    "$2" -n 4 "$llama" $of --threads 1 --expert-parallel --out shared --log shared.log --stop-after 3
    "$2" -n 3 "$llama" --resume --quiet --threads 1 --expert-parallel --out shared --log shared.log --stop-after 3 --recompute 3
    "$llama" --resume --quiet --threads 1 --expert-parallel --out shared --log shared.log --stop-after 2
    "$2" -n 2 "$llama" --resume --quiet --threads 1 --expert-parallel --out shared --log shared.log --sample 30 >shared.text
    "$llama" --resume --quiet --eval-only --out shared --sample 30 >whole.text
    course shared.log | grep '"loss"' >shared.steps
    same whole.steps shared.steps "$type: --expert-parallel"
    same whole.text shared.text "$type: --expert-parallel: the sample"
    for file in model optimizer-000010; do
        same whole/$file.safetensors shared/$file.safetensors "$type: --expert-parallel: $file.safetensors differs"
    done
    rm -f shared.log
    "$2" -n 2 "$llama" $data --load whole --seq 48 --batch 2 --type $type --steps 0 --threads 1 --expert-parallel --log shared.log
    grep held_out loaded.log >loaded.loss
    grep held_out shared.log >shared.loss
    same loaded.loss shared.loss "$type: --expert-parallel: loaded"
    "$2" -n 2 "$llama" $of --threads 1 --ring 2 --balance 0 --log ring.log
    rm -f one.log
    "$llama" $of --balance 0 --log one.log
    numbers ring.log >ring.steps
    numbers one.log >one.steps
    paste one.steps ring.steps | awk -v limit=$([ $type = f32 ] && echo 1e-5 || echo 1e-2) '
        { d = ($2 - $5) / $2; if (d * d > limit * limit) { print; bad = 1 } } END { exit bad || NR != 10 }' || fail "$type: a ring of two"
done
first=$(numbers whole.log | head -n 1 | cut -d' ' -f2)
last=$(numbers whole.log | tail -n 1 | cut -d' ' -f2)
awk "BEGIN { exit !($last < $first - 0.5) }" || fail "it does not learn: from $first to $last"
echo "a mixture of experts: losses from $first to $last"
