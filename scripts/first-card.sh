#!/bin/sh
# A first look at Tigon on an Ascend card: what is installed, a build, what CANN's pages leave open,
# whether results are right, how fast kernels are beside the model. It sends nothing: all that it
# finds lies in FOLDER, and packed beside it as FOLDER.tar.gz.
#   sh scripts/first-card.sh [FOLDER [OPERATOR...]]
# FOLDER: first-card if none is said. OPERATOR: the check is of these alone. Some minutes to half an
# hour; it may be ended by ctrl-C, and what is known by then is kept.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-first-card}
[ $# -eq 0 ] || shift
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
build=$out/build
jobs=$(nproc 2>/dev/null || echo 4)
ended=
trap 'ended=1' INT TERM
rm -f "$out"/*.txt "$out"/*.csv "$out"/*.svg "$out"/steps "$out"/README.md
for name in $(env | sed -n 's/^\(TIGON_[A-Z0-9_]*\)=.*/\1/p') ASCEND_UB_CAPACITY_BITS; do
    unset "$name"
done

# step NAME WHAT COMMAND...: its output is NAME.txt; what came of it is a line of steps. The next
# step is taken whatever came of this one.
step() {
    name=$1
    what=$2
    shift 2
    if [ "$ended" ]; then
        echo "| $what | not begun: ended by ctrl-C | |" >>"$out/steps"
        return
    fi
    printf '%s ... ' "$what"
    began=$(date +%s)
    "$@" >"$out/$name.txt" 2>&1
    status=$?
    result="failed"
    [ $status -ne 0 ] || result="done"
    [ $status -ne 124 ] || result="not finished in time"
    [ -z "$ended" ] || result="ended by ctrl-C"
    echo "$result"
    echo "| $what | $result | $(($(date +%s) - began)) s, \`$name.txt\` |" >>"$out/steps"
}

# within SECONDS COMMAND...
within() {
    [ -z "$ended" ] || return
    seconds=$1
    shift
    if command -v timeout >/dev/null; then timeout -k 10 "$seconds" "$@"; else "$@"; fi
}

# ---- what is installed ----

# CANN's own script sets where its parts are; a shell that has run it is left as it is.
use_cann() {
    [ -z "${ASCEND_HOME_PATH:-}${ASCEND_TOOLKIT_HOME:-}" ] || return
    for folder in /usr/local/Ascend/ascend-toolkit /usr/local/Ascend/cann /usr/local/Ascend \
        "$HOME/Ascend/ascend-toolkit" "$HOME/Ascend/cann"; do
        if [ -r "$folder/set_env.sh" ]; then
            set +u
            . "$folder/set_env.sh"
            set -u
            return
        fi
    done
}

show() { # FILE...: those that are there
    for file; do
        [ -r "$file" ] && echo "--- $file" && head -20 "$file"
    done
    return 0
}

machine() {
    cann=${ASCEND_HOME_PATH:-${ASCEND_TOOLKIT_HOME:-}}
    uname -srm
    sed -n 's/^PRETTY_NAME=//p' /etc/os-release
    echo "$jobs processors"
    for tool in cc cmake make tar timeout bisheng msprof npu-smi; do
        printf '%s: ' "$tool"
        command -v "$tool" || echo "not found"
    done
    cc --version | head -1
    cmake --version | head -1
    show /usr/local/Ascend/driver/version.info /usr/local/Ascend/firmware/version.info
    echo "--- CANN: ${cann:-no set_env.sh of it was found}"
    show "$cann"/version.cfg "$cann"/version.info "$cann"/compiler/version.info "$cann"/*/ascend_toolkit_install.info
    [ -z "$cann" ] || bisheng --version | head -2
    echo "--- npu-smi info"
    npu-smi info
}

# The chip by npu-smi, of which the model has the table; both dies of an A3 are like a 910B1.
chip() {
    name=$(grep -o '910B[1-4]' "$out/machine.txt" | head -1)
    echo "${name:-910B1}"
}

# ---- the build ----

# Of the processor nothing is asked but the reference: one of its levels is enough.
levels=
[ "$(uname -m)" != x86_64 ] || levels=-DTIGON_ONLY_LEVELS=v2
configure() { # CMAKE_OPTIONS...
    [ -z "$ended" ] || return
    cmake -S "$source" -B "$build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DTIGON_ONEDNN=OFF $levels \
        -DTIGON_TESTS=OFF -DTIGON_INSTALL=OFF "$@"
}
targets() { # TARGET...: each as far as it goes
    [ -z "$ended" ] || return
    cmake --build "$build" -j "$jobs" --target "$@" -- -k
}

build_host() {
    configure -DTIGON_ASCEND_CANN=ON || configure -DTIGON_ASCEND_CANN=ON -DTIGON_ASCEND_MODEL=OFF ||
        configure -DTIGON_ASCEND_CANN=OFF || return
    targets tigon_command tigon_unfused tigon_ascend_questions
}
build_model() { targets ascsim tigon_ascend_model; }
# An older bisheng does not know the option that gives kernels all of UB.
build_kernels() {
    targets tigon_ascend_kernels && return
    echo "--- once more without --cce-disable-asc-reserved-ubuf"
    configure -DTIGON_ASCEND_CANN=ON -DTIGON_ASCEND_RESERVED_UBUF=ON && targets tigon_command tigon_ascend_kernels
}
build_questions() { targets tigon_ascend_question_kernels; }

# ---- what the card says ----

device() { within 120 "$build/tigon" doctor; }
questions() { within 3000 "$build/tigon_ascend_questions" "$build/questions"; }
# A case that no kernel takes is an error to a caller, and no wrong result.
check() {
    within 1800 "$build/tigon" check --device npu --strict --quick "$@"
    status=$?
    gaps=$(grep -c '^FAILED .*: no implementation for npu accepts it$' "$out/check.txt")
    [ "$gaps" -gt 0 ] || return $status
    echo "$gaps of the failed cases are of types or options that no kernel of the card takes: a call of them is refused. The others: $(($(grep -c '^FAILED ' "$out/check.txt") - gaps))"
    [ $status -eq 1 ] && [ "$gaps" = "$(grep -c '^FAILED ' "$out/check.txt")" ]
}
profile() {
    command -v msprof >/dev/null || { echo "msprof is not there: it comes with CANN"; return 1; }
    within 900 msprof --output="$out/msprof" "$build/tigon" profile --ten --device npu || return
    find "$out/msprof" -name 'op_summary*.csv' -exec cp {} "$out/op_summary.csv" \;
    [ -s "$out/op_summary.csv" ] || { echo "msprof wrote no op_summary*.csv"; return 1; }
}
compare() {
    [ -s "$out/op_summary.csv" ] || { echo "there are no measured times"; return 1; }
    within 900 "$build/tigon" profile --compare "$out/op_summary.csv" --soc "$(chip)" --out "$out"
}

# ---- the page ----

text_of() { # FILE WITHOUT_IT
    if [ -s "$out/$1" ]; then cat "$out/$1"; else echo "$2"; fi
}
last_lines() { # FILE COUNT
    echo '```'
    text_of "$1" "nothing: this step was not reached" | tail -"$2"
    echo '```'
}
answers() { # LETTER: how many
    grep -c "^| [a-z0-9_]* | .* | $1 | " "$out/questions.txt" 2>/dev/null || true
}

page() {
    cat <<PAGE
# Tigon on this card

Tigon is a C library of operators for training language models (norms, losses, attention and the like). Its
kernels for Ascend NPUs have been written and checked on a *model* of the chip, a program. This page, written by \`scripts/first-card.sh\`,
says what came of them on this machine's card. Nothing has been sent to anyone.

## What was done

| step | | time, file |
|---|---|---|
$(cat "$out/steps" 2>/dev/null)

## The machine

The chip is compared with the model of a $(chip). More is in \`machine.txt\`.

\`\`\`
$(head -3 "$out/machine.txt" 2>/dev/null)
$(sed -n '/^--- npu-smi/,$p' "$out/machine.txt" 2>/dev/null | head -30)
\`\`\`

## Are results right?

Every operator was called with small problems on the card and compared with a plain implementation on the CPU. A line \`FAILED\` in
\`check.txt\` names an operator, what was found and what was expected, or says that no kernel takes the case. The end of it:

$(last_lines check.txt 4)

## What the documents leave open

Small kernels asked the card what CANN's pages leave open or what the model estimates: $(answers A) answers are as documented (A), $(answers B) are
otherwise (B), $(answers none) gave none. The last column is what was measured.

$(text_of questions.txt "This step was not reached, or the program was not built.")

## How fast, beside the model

Ten calls, measured by msprof, and the same on the model; \`compare.svg\` draws them. Where
\`model / measured\` is above 1 the model is too slow.

$(text_of compare.txt "This step was not reached, or gave nothing.")

## What you can do with this

- If a step failed, the end of its file says why; what a later step needed of it is missing there.
- If results are wrong, build with what the list under "What the documents leave open" names, and run this again.
- \`$(basename "$out").tar.gz\` has this page and the files that it names. You may attach it to an issue. \`machine.txt\` has what
  \`npu-smi info\` prints, names of processes on the card among it: look at it first.
PAGE
}

pack() {
    trap '' INT TERM
    page >"$out/README.md"
    cd "$(dirname "$out")" || return
    folder=$(basename "$out")
    tar czf "$folder.tar.gz" --exclude "$folder/build" --exclude "$folder/msprof" --exclude "$folder/steps" "$folder"
    echo
    echo "The page is $out/README.md, everything together $out.tar.gz. Nothing has been sent."
}

use_cann
step machine "what is installed" machine
step host "building the library and its command" build_host
step model "building the model of the chip" build_model
step kernels "building the kernels with CANN's compiler" build_kernels
step question_kernels "building the questions to the card" build_questions
step device "finding the card" device
step check "comparing every operator with the reference" check "$@"
step profile "ten kernels by msprof" profile
step compare "the same on the model" compare
step questions "asking the card" questions
pack
[ -z "$ended" ] || exit 130
