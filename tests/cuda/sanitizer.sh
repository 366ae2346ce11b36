#!/bin/sh
# NVIDIA's compute-sanitizer over the checker's quick cases, on a card: memory, races in shared
# memory, what is read before it is written, barriers. As many operators at once as there are
# processors: with 16 all take some five minutes. The beginnings of some names take less.
#   sanitizer.sh TIGON_COMMAND BUILD_DIR SOURCE_DIR [OPERATOR...]
# A finding that has been looked into and is none is a line of sanitizer_known.txt, with the reason.
# Any other fails.
set -eu
tigon=$1 build=$2 source=$3
shift 3
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer, a part of CUDA, is not here"; exit 77; }
[ -e "$build/libtigon_cuda.so" ] || { echo "libtigon_cuda.so is not built"; exit 77; }
"$tigon" info | grep -q '^ *cuda .*counts [1-9]' || { echo "no NVIDIA GPU is here"; exit 77; }
[ $# -gt 0 ] || set -- $(cd "$source/backends/cuda" && sed -nE 's/^ *(CUDA_OPERATOR|TG_IMPL)\(([a-z0-9_]+),.*/\2/p' */*.cu backend.c | sort -u)
if [ $# -gt 1 ]; then
    export OMP_NUM_THREADS=1
    printf '%s\n' "$@" | xargs -P "$(nproc)" -I'{}' sh "$0" "$tigon" "$build" "$source" '{}'
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -v "^#" "$source/tests/cuda/sanitizer_known.txt" >"$work/known"

# One line a report: what it says, and the kernel that it names.
reports() { # LOG
    awk '/^========= [A-Z]/ { if (report) print report; report = substr($0, 11); next }
         /^=========     at / { report = report substr($0, 14) }
         END { if (report) print report }' "$1" | grep -vE '^COMPUTE-SANITIZER|SUMMARY' | sort | uniq -c
}

failed=0
for tool in memcheck racecheck initcheck synccheck; do
    for operator; do
        compute-sanitizer --tool $tool "$tigon" check --device cuda --strict --quick "cuda/$operator" >"$work/log" 2>&1 || {
            echo "$tool: tigon check $operator fails:"
            grep -v '^=========' "$work/log" | tail -5
            failed=1
        }
        reports "$work/log" | sed "s/^/$tool: $operator: /" >"$work/found"
        grep -v -E -f "$work/known" "$work/found" && failed=1
        echo "$tool: $operator: $(wc -l <"$work/found") kinds of findings, $(grep -c -E -f "$work/known" "$work/found") of them known"
    done
done
exit $failed
