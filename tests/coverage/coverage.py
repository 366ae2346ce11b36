#!/usr/bin/env python3
"""Lists the lines and branches of the kernels that no case has run: coverage.py SOURCE BUILD, after coverage.sh's run.

What is counted is the branches of the source, not of the machine's code: coverage.sh compiles without inlining, so that an
always_inline function is there once an object and its constant arguments (type, stream, kind of option) are variables. A
header's function is there in every object that includes it: a branch counts as taken if one of these copies takes it.
"""
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

KERNELS = re.compile(r"src/(ops/\w+/\w+(_cpu(_\w+)?\.c|_kernel(_\w+)?\.c|_parts(_\w+)?\.c|\.h)|rows/\w+\.[ch]|gemm/gemm_\w+\.[ch]|rotary/\w+\.h)$")
OTHERS = re.compile(r"_ref\.c$")
REASON = re.compile(r"no case: .+")
FAILURE = re.compile(r"TG_ENOMEM|TG_TRY\(|dnnl_success|status [!=]= TG_|tg_data\(|\? tg_workspace\(.* : NULL")


def counters(build):
    """gcov's records of every object of the build, one after the other."""
    notes = [os.path.join(root, name) for root, _, names in os.walk(build) for name in names if name.endswith(".gcda")]
    with tempfile.TemporaryDirectory() as folder:
        for note in notes:
            subprocess.run(["gcov", "--json-format", "--branch-probabilities", note], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for name in os.listdir(folder):
                with gzip.open(os.path.join(folder, name)) as f:
                    yield json.load(f)
                os.remove(os.path.join(folder, name))


def collect(source, build):
    """{file: {line: runs}}, {file: {line: {branches of a copy: [times taken]}}}"""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    branches = collections.defaultdict(lambda: collections.defaultdict(dict))
    for record in counters(build):
        for entry in record["files"]:
            path = os.path.relpath(os.path.join(record["current_working_directory"], entry["file"]), source)
            if not KERNELS.match(path) or OTHERS.search(path):
                continue
            for line in entry["lines"]:
                number = line["line_number"]
                lines[path][number] += line["count"]
                taken = [b["count"] for b in line["branches"] if not b["throw"]]
                if taken:
                    before = branches[path][number].get(len(taken), [0] * len(taken))
                    branches[path][number][len(taken)] = [a + b for a, b in zip(before, taken)]
    return lines, branches


def untaken(copies):
    """(branches never taken, branches) of a line; None if there are none."""
    if not copies:
        return None
    base = min(map(len, copies))
    folded = [0] * base
    for taken in copies:
        for i, count in enumerate(taken):
            folded[i % base] += count
    missing = sum(not count for count in folded)
    return (missing, base) if missing else None


def gaps(lines, branches, text):
    """(line, what) of one file."""
    for number, runs in sorted(lines.items()):
        if FAILURE.search(text[number - 1]) or re.match(r" +if \(", text[number - 1]) and "return TG_ENOMEM" in text[number]:
            continue  # the tests of allocation failure run these; tg_data() of a tensor that is required
        if not runs:
            yield number, "never run"
            continue
        missing = untaken(branches.get(number, {}).values())
        if missing:
            yield number, f"{missing[0]} of {missing[1]} branches never taken"


def reasons_of(text):
    """{line: reason}: at a line's end for that line, in a comment inside a function for the line below it, and in a comment
    outside for the function below it."""
    reasons, reason, comment = {}, None, None
    for number, line in enumerate(text, 1):
        found = REASON.search(line)
        if comment is None and line.strip().startswith("/*"):
            comment = "function" if line.startswith("/*") else "line"
            below = comment
        if comment:
            reason = found.group() if found else reason
            comment = None if "*/" in line else comment
            continue
        if reason or found:
            reasons[number] = found.group() if found else reason
        if reason and (below == "line" or line == "}"):
            reason = None
    return reasons


def main():
    source, build = map(os.path.abspath, sys.argv[1:3])
    lines, branches = collect(source, build)
    listed = excused = total = 0
    for path in sorted(lines):
        with open(os.path.join(source, path)) as f:
            text = f.read().split("\n")
        found = dict(gaps(lines[path], branches[path], text))
        total += len(lines[path])
        reasons = reasons_of(text)
        excused += len(set(found) & set(reasons))
        for number in sorted(set(found) - set(reasons)):
            print(f"{path}:{number}: {found[number]}: {text[number - 1].strip()}")
            listed += 1
        for number in sorted(reasons):
            if lines[path].get(number) and number not in found:
                print(f"{path}:{number}: is run, though it says: {reasons[number]}")
                listed += 1
    print(f"{total} lines of kernels in {len(lines)} files: {listed} with gaps, {excused} with a reason for theirs")
    return 1 if listed or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
