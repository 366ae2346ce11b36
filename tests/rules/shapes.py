"""The shapes that ops.h gives its arguments, as "x, y [..,N]", are those of the column `shape` of ops.def.
    shapes.py SOURCE_DIR
"""
import os
import re
import sys

source = sys.argv[1]
sys.path.insert(0, os.path.join(source, "bindings", "python"))
from generate import comments, operators  # noqa: E402


def lists(shape):
    """What the manual may write for a shape of ops.def: each list of it, *R as .. or R.., L+E as L or L+1."""
    for text in re.split(r"[?:|]", shape.partition("?")[2] or shape):
        text = re.sub(r"~\[([^]]*)\]", r"\1", text.strip())
        for stars in "..", r"\1..":
            written = re.sub(r"(?<!\w)\*(\w*)", stars, text).replace("B,..,", "..,")
            yield from {re.sub(r"(\w)\+[A-Z]", r"\1", written), re.sub(r"(\w)\+[A-Z]", r"\1+1", written)}


def main():
    with open(os.path.join(source, "include/tigon/ops.def"), encoding="utf-8") as file:
        entries = dict(operators(file.read()))
    with open(os.path.join(source, "include/tigon/ops.h"), encoding="utf-8") as file:
        manual = comments(file.read())
    compared, wrong = 0, []
    for op, fields in entries.items():
        columns = {name: re.search(r'"([^"]*)"', rest)[1] for kind, name, rest in fields if kind not in ("F64", "I64", "CHOICE")}
        for names, first, more in re.findall(r"((?:\w+, )*\w+) (?:f32 |i64 )?\[([^]]*)\]((?:,? (?:or )?\[[^]]*\])*)", manual[op]):
            for name in names.split(", "):
                for shape in [first, *re.findall(r"\[([^]]*)\]", more)] * (name in columns):
                    compared += 1
                    if shape not in lists(columns[name]):
                        wrong.append(f"ops.h: {op}: {name} is [{shape}], in ops.def {columns[name]}")
    if compared < 100:
        wrong.append(f"only {compared} shapes are written as this test reads them")
    print("\n".join(wrong) or f"{compared} shapes")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
