"""What gcov counted, over all kernels and types: a header's line counts where any kernel has run it."""
import collections, glob, json, os, subprocess, sys

folder = sys.argv[1]
lines, branches, text = collections.Counter(), {}, {}
for notes in sorted(glob.glob(folder + "/*.gcno")):
    told = subprocess.run(["gcov", "-b", "-c", "-j", "-t", notes], cwd=folder, capture_output=True, text=True, check=True).stdout
    for answer in filter(None, told.splitlines()):
        for file in json.loads(answer)["files"]:
            if "/c_api/" in file["file"]:
                continue
            text.setdefault(os.path.basename(file["file"]), open(file["file"]).read().splitlines())
            for line in file["lines"]:
                at = os.path.basename(file["file"]), line["line_number"]
                lines[at] += line["count"]
                counts = [b["count"] for b in line["branches"]]
                # The copies of a line have the same branches, unless a type lets the compiler leave some out.
                same = branches.setdefault(at, {}).setdefault(len(counts), [0] * len(counts))
                same[:] = [a + b for a, b in zip(same, counts)]

def tell(at, what):
    print(f"{at[0]}:{at[1]}: {what}{text[at[0]][at[1] - 1].strip()}")

never = [at for at in sorted(lines) if not lines[at]]
for at in never:
    tell(at, "")
part = 0
for at in sorted(branches):
    best = min(branches[at].values(), key=lambda counts: counts.count(0))
    if lines[at] and 0 in best:
        part += 1
        tell(at, f"taken {best} ")
print(f"{len(never)} of {len(lines)} lines never run, {part} with a branch never taken")
