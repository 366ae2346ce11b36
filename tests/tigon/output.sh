#!/bin/sh
# What cannot be written is not lost in silence: every command says so and fails, on a full standard output and where the files
# that it writes do not fit.
#   output.sh TIGON LLAMA [ASCSIM]
set -eu
tigon=$1
llama=$2
ascsim=${3:-}
unset TIGON_SOC TIGON_DEVICE TIGON_IMPL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$*"; exit 1; }
full() { # COMMAND...: standard output is full
    status=0
    message=$("$@" 2>&1 >/dev/full) || status=$?
    [ "$status" -ne 0 ] || fail "$* >/dev/full: exit status 0"
    case $message in *"standard output cannot be written"*) ;; *) fail "$* >/dev/full: $message" ;; esac
}
small() { # TEXT COMMAND...: no file may hold a byte
    text=$1
    shift
    status=0
    message=$( (trap '' XFSZ; ulimit -f 0; "$@") 2>&1 >/dev/null) || status=$?
    [ "$status" -ne 0 ] || fail "$*: no file can be written, and the exit status is 0: $message"
    case $message in *"$text"*) ;; *) fail "$*: no \"$text\" in: $message" ;; esac
}

bench="--shape N=8 --rounds 3 --no-limit --no-check --dtype f32 --cache warm"
seq 20000 >numbers.txt
tiny="--data numbers.txt --width 16 --heads 1 --kv-heads 1 --layers 1 --ff 16 --seq 32 --batch 1 --steps 2 --quiet"
printf '{"step": 1, "loss": 5.5}\n{"step": 2, "loss": 4.5}\n' >run.jsonl
full "$tigon" --version
full "$tigon" --help
for command in $("$tigon" --help | awk '/^  [a-z]/ { print $1 }'); do
    full "$tigon" "$command" --help
done
full "$tigon" info
full "$tigon" info --json
full "$tigon" list
full "$tigon" list --json
full "$tigon" list --matrix dyt_backward
full "$tigon" doctor
full "$tigon" tune --mib 1 --rounds 1
full "$tigon" tune --mib 1 --rounds 1 --json
full "$tigon" check --list
full "$tigon" check --quick --json dyt_backward
full "$tigon" numerics tvd_forward
full "$tigon" bench rms_norm_forward $bench
full "$tigon" bench rms_norm_forward $bench --json
full "$tigon" plot --text run.jsonl
full "$tigon" plot --json run.jsonl
full "$tigon" ub-check rms_norm_forward --shape 8x64 --soc 910B4
full "$llama" --help
full "$llama" $tiny --sample 3

small sweep.csv "$tigon" bench rms_norm_forward $bench --sweep R=2:4 --csv sweep.csv
small "tigon plot" "$tigon" plot run.jsonl --output drawn.svg
small run.log "$llama" $tiny --log run.log
small loss.svg "$llama" $tiny --plot loss.svg
[ -n "$ascsim" ] || exit 0
full "$tigon" profile swiglu_forward --shape "R=2 F=64"
full "$tigon" report swiglu_forward
small "tigon profile" "$tigon" profile swiglu_forward --shape "R=2 F=64" --out profile
small "tigon report" "$tigon" report swiglu_forward --output report.md
full "$ascsim" --help
full "$ascsim" chips
full "$ascsim" chips 910B4
full "$ascsim" run --help
full "$ascsim" flags compile
