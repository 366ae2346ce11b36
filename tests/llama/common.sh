# Sourced by the tests of the trainer. $1 is the program.
set -eu
llama=$(realpath "$1")
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# A corpus that does not change with the tree.
head -c 9000 "$source"/LICENSE >corpus.txt
tail -c +9001 "$source"/LICENSE >held.txt
data="--data corpus.txt --val held.txt --eval-windows 8 --quiet"
toy="--layers 2 --width 64 --heads 4 --kv-heads 2 --ff 96 --seq 48 --batch 2 --warmup 5"

fail() {
    echo "FAILED: $1"
    exit 1
}
# For mpirun: in a container a test may be root, and there may be fewer processors than ranks.
mpi_anywhere() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none TMPDIR=/tmp
}
# The steps of a log without its times.
course() {
    sed 's/,"seconds".*//' "$1"
}
# Step, loss and gradient norm of each step.
numbers() {
    sed -n 's/{"step":\([^,]*\),"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1"
}
same() { # A B WHAT
    cmp -s "$1" "$2" || {
        diff "$1" "$2" | head -4
        fail "$3"
    }
}
# after_steps LOG TENTHS: waits for some steps, so many tenths of a second at most
after_steps() {
    for i in $(seq "$2"); do
        [ "$(grep -c loss "$1" 2>/dev/null || true)" -gt 3 ] 2>/dev/null && break
        sleep 0.1
    done
}
# start NAME ARGUMENTS...: two ranks of $mpirun in the background, $launcher, which have done some steps
start() {
    name=$1
    shift
    "$mpirun" -n 2 "$llama" --threads 1 $wide $data --steps 1000000 --out "$name" --log "$name.log" "$@" 2>err &
    launcher=$!
    after_steps "$name.log" 200
}
# kill_a_rank NAME ARGUMENTS...: of two that have started, one is killed: the launcher ends within 10 s, not with 0, and there is a message.
kill_a_rank() {
    start "$@" --save-every 1
    victim=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v launcher=$launcher '$2 == "(llama)" && $4 == launcher { p = $1 } END { print p }')
    before=$(date +%s)
    kill -KILL "$victim"
    status=0
    wait $launcher || status=$?
    seconds=$(($(date +%s) - before))
    [ $status -ne 0 ] && [ $seconds -le 10 ] || fail "a rank is killed: status $status after $seconds s"
    grep -qi 'killed\|signal 9\|may be gone' err || fail "a rank is killed: no message but '$(cat err)'"
}
# interrupt PROCESS LOG: Ctrl-C after a few steps, which must end the process with status 130
interrupt() {
    after_steps "$2" 100
    kill -INT "$1"
    status=0
    wait "$1" || status=$?
    [ $status -eq 130 ] || fail "Ctrl-C: status $status, expected 130"
}
# refuses WORDS ARGUMENTS...: must leave with status 1 and a message that holds the words
refuses() {
    words=$1
    shift
    status=0
    "$llama" "$@" >out 2>err || status=$?
    [ $status -eq 1 ] || fail "llama $*: status $status, expected 1"
    grep -qF -- "$words" err || fail "llama $*: says '$(cat err)', expected '$words'"
}
