#!/bin/sh
# The pages of docs/results have today's form: operators, problems, implementations, columns. Digits of what depends on the
# processor are not compared; what is made from committed measurements is the same to the byte.
#   tables.sh TIGON SOURCE_DIR
set -eu
tigon=$1
cd "$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same() { # WHAT COMMAND: $work/found is of the page, $work/expected of the program
    diff "$work/found" "$work/expected" >"$work/diff" && return
    echo "$1 is not what the program has (<: page); $2"
    cat "$work/diff"
    exit 1
}

# A fresh copy differs from the page in digits alone: not in lines, not in what stands outside the markers.
form() {
    sed -e 's/^\(| `[a-z0-9_]*` | [^|]* |\).*/\1/' -e 's/^| [0-9].*/| digits/' -e 's/^\(Measured on .* level\).*/\1/' "$1"
}
page=docs/results/numerics.md
cp $page "$work/numerics.md"
"$tigon" numerics --update "$work/numerics.md"
form $page >"$work/found"
form "$work/numerics.md" >"$work/expected"
same $page "build/tigon numerics --update $page writes it"
"$tigon" list | grep '^[a-z]' | grep -v '^moe_route$' >"$work/expected" # whose results are integers, and exact
sed -n 's/^| `\([a-z0-9_]*\)` |.*/\1/p' $page | uniq >"$work/found"
same "$page: operators" "an operator needs a hard problem (TG_HARD)"

page=docs/results/matrix.md
again="build/tigon list --matrix --update $page writes it"
sed -n 's/^| `\([a-z0-9_]*\)` | \([^|]*\) |.*/\1 \2/p' $page |
    while read -r operator directions; do
        for direction in $(echo "$directions" | tr -d ,); do
            [ "$direction" = - ] && echo "$operator" || echo "${operator}_$direction"
        done
    done >"$work/found"
"$tigon" list | grep '^[a-z]' >"$work/expected"
same "$page: operators" "$again"
# Its columns: the backends of the CPU, and the devices; its cells name implementations that there are, and none is left out that
# belongs to a list of a backend. (Which levels of the CPU were run depends on the processor, where there is a card on the machine.)
if command -v python3 >/dev/null; then
    "$tigon" list --json >"$work/list.json"
    python3 - $page "$work/list.json" "$again" <<'END' || exit 1
import glob, json, re, sys
page, listed, again = open(sys.argv[1]).read(), json.load(open(sys.argv[2])), sys.argv[3]
known = {o["name"]: {(r["device"] if r["device"] != "cpu" else r["backend"], r["name"]) for r in o["implementations"]} for o in listed["operators"]}
for path in glob.glob("backends/cuda/*/*.cu"):
    for op in re.findall(r"^CUDA_OPERATOR\((\w+),", open(path).read(), re.M):
        known[op].add(("cuda", f"cuda/{op}"))
for op, variant in re.findall(r'TG_IMPL\((\w+), "(\w+)"', open("backends/cuda/backend.c").read()):
    known[op].add(("cuda", f"cuda/{op}.{variant}"))
known = {op: {impl for impl in impls if not impl[1].endswith("_any")} for op, impls in known.items()}  # they run under TIGON_BATCH_INVARIANT alone
rows = [[f.strip() for f in line.strip("|").split("|")] for line in page.splitlines() if re.match(r"\| (operator|`)", line)]
heads = [re.fullmatch(r"([a-z-]+): (not run|.*20\d\d-\d\d-\d\d)", h) for h in rows[0][2:]]
assert all(heads), f"{sys.argv[1]}: columns {rows[0][2:]}, expected where and when each was run; {again}"
columns = [h[1] for h in heads]
missing = {c for impls in known.values() for c, name in impls} - set(columns)
assert not missing, f"{sys.argv[1]}: no column for {missing}; {again}"
x86 = any(name.endswith(".v2") for impls in known.values() for c, name in impls)
for row in rows[1:]:
    for direction in row[1].split(", "):
        op = row[0].strip("`") + ("" if direction == "-" else "_" + direction)
        for column, cell in zip(columns, row[2:]):
            names = {name for c, name in known[op] if c == column}
            labels = {label for part in cell.split("; ") if ": " in part for label in part.split(": ")[0].split()}
            expected = {name.partition(".")[2] or name.split("/")[0] for name in names}
            strange = labels - expected - {"composed"}
            assert not strange or column == "cpu" and not x86, f"{sys.argv[1]}: {op}, {column}: there is no {strange}; {again}"
            gone = {e for e in expected if column in ("cuda", "npu", "npu-model", "ref", "unfused")} - labels
            assert not gone, f"{sys.argv[1]}: {op}, {column}: {gone} is left out; {again}"
            assert labels or not names, f"{sys.argv[1]}: {op}, {column} is empty; {again}"
END
fi

# The pages and the chart beside PyTorch, from their measurements; the chart's command stands in README.md.
page=docs/results/peers
command -v python3 >/dev/null || exit 0
for measured in docs/results/peers*.jsonl; do
    cp "${measured%.jsonl}.md" "$work/found"
    python3 -B bench/peers/report.py "$measured" >"$work/expected"
    same "${measured%.jsonl}.md" "python3 bench/peers/report.py $measured prints it"
done
# README.md has the means of both pages.
said() { # PAGE ROW FORMAT COLUMNS: a line of README's table, from the row of the page
    line=$(awk -F'|' -v row="$2" -v format="$3" -v columns="$4" '$2 == " " row " " { split(columns, c, " "); printf format, $c[1], $c[2], $c[3] }' "$1.md")
    grep -qxF "$line" README.md || { echo "README.md: the means of $1.md are others: \"$line\""; exit 1; }
}
said $page "large, memory kept" "| two cores of a CPU, f32 | %.1f | %.1f | |" "3 4"
said $page "large, memory kept" "| two cores of a CPU, bf16 | %.1f | %.1f | |" "5 6"
said $page-cuda large "| an H200, bf16 | %.1f | %.1f | %.1f |" "3 4 5"
"$tigon" plot --json $page.jsonl >/dev/null 2>"$work/error" || {
    grep -q 'without cJSON' "$work/error" && exit 0
    cat "$work/error"
    exit 1
}
cp $page.svg "$work/found"
chart=$(sed -n "s|^build/tigon plot \(.*\) --output $page.svg.*|\1|p" README.md)
# shellcheck disable=SC2086
"$tigon" plot $chart --output "$work/expected" >/dev/null
same $page.svg "build/tigon plot $chart --output $page.svg draws it"
