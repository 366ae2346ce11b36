#!/usr/bin/env python3
"""size_table.py [BUILD] - what the CPU library consists of: kilobytes of code and constants by family and level of processors, as one
table in Markdown for docs/results/size.md, from the object files of a build (build, if none is named)."""
import collections
import pathlib
import re
import subprocess
import sys

LEVELS = ("v2", "v3", "v4", "v4bf16", "amx", "neon", "base")


def place(path):
    """Which row and column an object file belongs to."""
    folder = path.parts[path.parts.index("CMakeFiles") + 1]
    source = "/".join(path.parts[path.parts.index("src") + 1:])
    family = re.sub(r"^ops/", "", source).split("/")[0]
    level = folder.removesuffix(".dir").rsplit("_", 1)[-1]
    return family, level if level in LEVELS else "any"


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    objects = [path for path in build.glob("CMakeFiles/tigon_*.dir/src/**/*.o")]
    if not objects:
        sys.exit(f"{build}: found no object files of the library, expected a build folder of it")
    sizes = collections.defaultdict(collections.Counter)
    lines = subprocess.run(["size", *map(str, objects)], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    for path, line in zip(objects, lines):
        text, data = map(int, line.split()[:2])
        family, level = place(path)
        sizes[family][level] += text + data
    columns = ["any"] + [level for level in LEVELS if any(level in row for row in sizes.values())]
    total = sum(sizes.values(), collections.Counter())
    print("KB of", "any level: references, checks, compositions;", "then the kernels of each level\n")
    print("| |", " | ".join(columns), "| all |")
    print("|---|" + "---:|" * (len(columns) + 1))
    for name, row in sorted(sizes.items(), key=lambda item: -sum(item[1].values())) + [("**all**", total)]:
        cells = [f"{row[column] / 1000:.0f}" if row[column] else "" for column in columns]
        print(f"| {name} | " + " | ".join(cells) + f" | {sum(row.values()) / 1000:.0f} |")


main()
