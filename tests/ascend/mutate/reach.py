"""What gcov counted, over all kernels and types: a header's line counts where any kernel has run it.

A macro's branches are counted over all its uses: like a function it is there once, and a use need not take all of them.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

MACRO = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\(")

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


def source(at):
    return text[at[0]][at[1] - 1].strip()


def unreached(at):
    """The line, or the comment that ends above it, says why."""
    number, above = at[1] - 1, []
    while number and (not above or above[0].startswith("*")) and re.match(r"\s*(/\*|\*)", text[at[0]][number - 1]):
        number -= 1
        above.insert(0, text[at[0]][number].strip())
    return "unreached: " in "".join(above) + source(at)


def tell(at, what):
    print(f"{at[0]}:{at[1]}: {what}{source(at)}")


def root_of(macro):
    """The macro that it is another name of, as CE_WITH_TILE is of CE_ROWS."""
    while macro in same_as:
        macro = same_as[macro]
    return macro


def excused(at):
    """By itself or, if a macro, there."""
    found = MACRO.match(source(at))
    return unreached(at) or found and root_of(found[1]) in unreached_macros


whole = "\n".join("\n".join(t) for t in text.values()).replace("\\\n", " ")
same_as = dict(re.findall(r"^#define (\w+)\([^)]*\)\s+([A-Z]\w+)\(", whole, re.M))
defines = re.compile(r"#define (\w+)\(")
unreached_macros = {found[1] for file in text for number, line in enumerate(text[file], 1) for found in [defines.match(line)]
                    if found and unreached((file, number))}
uses = {}
for at in sorted(branches):
    found = MACRO.match(source(at))
    for counts in branches[at].values():
        if found:
            same = uses.setdefault((root_of(found[1]), len(counts)), [0] * len(counts))
            same[:] = [a + b for a, b in zip(same, counts)]

never = [at for at in sorted(lines) if not lines[at] and not unreached(at)]
for at in never:
    tell(at, "")
part = 0
for at in sorted(branches):
    found = MACRO.match(source(at))
    best = min((uses[root_of(found[1]), len(c)] if found else c for c in branches[at].values()), key=lambda counts: counts.count(0))
    if lines[at] and 0 in best and not excused(at):
        part += 1
        tell(at, f"taken {best} ")
print(f"{len(never)} of {len(lines)} lines never run, {part} with a branch never taken")
sys.exit(bool(never or part))
