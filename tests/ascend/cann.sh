# cann.sh - stand-ins for what of CANN a build and a first look at a card call: `make_cann FOLDER` writes them. Each refuses what would not
# give code that the run time of a card loads, or what the program it stands for would refuse, and writes down in $TOLD what it was told.
#   bin/bisheng, bin/ld.lld       device code, and what is linked of it. Where STAND_IN_CC has a compiler with its options for kernels and
#                                 STAND_IN_LINK what links them, kernels of questions/ become libraries that the model runs.
#   bin/npu-smi, bin/msprof       a card; STAND_IN_PROFILE, which the stand-in for the run time writes, becomes msprof's table
make_cann() { # FOLDER
    cann=$1/compiler/ccec_compiler/bin # bisheng is a link to what lies there, as an installed CANN has it
    mkdir -p "$cann" "$1/bin"
    # What both compilers do: -o's file to $output, what is no option to $inputs.
    cat >"$cann/stand-in" <<'STANDIN'
set -eu
refuse() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}
words=" $* " output='' inputs=''
echo "$(basename "$0")$words" >>"${TOLD:-/dev/null}"
while [ $# -gt 0 ]; do
    case $1 in
    -o) output=$2 && shift ;;
    -x | -I | -m) shift ;;
    -*) ;;
    *) inputs="$inputs $1" ;;
    esac
    shift
done
demand() {
    for word in "$@"; do
        case $words in *" $word "*) ;; *) refuse "$word is missing in$words" ;; esac
    done
}
STANDIN
    cat >"$cann/bisheng" <<'STANDIN'
#!/bin/sh
. "$(dirname "$(readlink -f "$0")")/stand-in"
demand "-x asc" --aicore-only --npu-arch=dav-2201 -std=c++17 -c
case $words in *" -r "* | *" -shared "* | *" -fPIC "*) refuse "that is no device code:$words" ;; esac
for input in $inputs; do
    case $input in
    *.asc.c) ;;
    *) refuse "$input is no kernel" ;;
    esac
    case ${STAND_IN_CC:+$input} in
    */questions/*) exec $STAND_IN_CC -I"$(dirname "$input")/../kernels" -o "$output" -c "$input" ;;
    esac
    echo "device code of $input" >"$output"
done
STANDIN
    cat >"$cann/ld.lld" <<'STANDIN'
#!/bin/sh
. "$(dirname "$(readlink -f "$0")")/stand-in"
demand "-m aicorelinux" -Ttext=0 -static
case ${STAND_IN_CC:+$output} in
*/questions/*) exec ${STAND_IN_CC%% *} $inputs $STAND_IN_LINK -shared -o "$output" ;;
esac
for input in $inputs; do
    grep -q '^device code of ' "$input" || refuse "$input is no device code"
done
echo "linked" >"$output"
cat $inputs >>"$output"
STANDIN
    cat >"$1/bin/npu-smi" <<'STANDIN'
#!/bin/sh
[ "$*" = info ] || exit 1
echo "| npu-smi 24.1.0                   Version: 24.1.0                                                |"
echo "| 0     910B4               | OK            | 90.0        44                0    / 0              |"
STANDIN
    cat >"$1/bin/msprof" <<'STANDIN'
#!/bin/sh
set -eu
case $1 in --output=*) folder=${1#--output=} ;; *) exit 1 ;; esac
shift
table=$folder/PROF_000001_1/mindstudio_profiler_output
mkdir -p "$table"
STAND_IN_PROFILE=$table/op_summary_20260101000000.csv "$@"
STANDIN
    chmod +x "$cann/bisheng" "$cann/ld.lld" "$1/bin/npu-smi" "$1/bin/msprof"
    ln -sf ../compiler/ccec_compiler/bin/bisheng "$1/bin/bisheng"
}
