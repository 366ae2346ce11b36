"""A header defines no function that is not inline: a body with one includer is a .c file.
    headers.py SOURCE_DIR [FOLDER...]      all folders without one
A function begins in the first column, and so does its brace: clang-format sees to that. A macro that has `inline` in its text
counts as the word; `noinline` says that several files shall share the body; ASC_KERNEL, ASC_CUBE_KERNEL and ASC_MIX_KERNEL that it is a kernel of an NPU, whose text is
included for each element type.
"""
import os
import re
import sys

FOLDERS = "include src formats tools examples backends sim tests bench".split()
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
FUNCTION = re.compile(r"^([A-Za-z_][^;{}=]*?\b([A-Za-z_]\w*)\s*\([^;{}]*\)[^;{}()=]*)\n\{", re.M)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def headers(source_dir, folders):
    for folder in folders:
        for where, _, names in os.walk(os.path.join(source_dir, folder)):
            for name in sorted(names):
                if name.endswith(".h"):
                    yield os.path.join(where, name)


def main():
    source_dir, folders = sys.argv[1], sys.argv[2:] or FOLDERS
    texts = {path: COMMENT.sub(blank, open(path, encoding="utf-8").read()) for path in headers(source_dir, folders)}
    words = {"inline", "noinline", "ASC_KERNEL", "ASC_CUBE_KERNEL", "ASC_MIX_KERNEL"}
    for text in texts.values():
        words.update(name for name, body in re.findall(r"^#[ \t]*define (\w+)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", text, re.M) if re.search(r"\binline\b", body))
    count = 0
    for path, text in texts.items():
        text = DIRECTIVE.sub(blank, text)
        for match in FUNCTION.finditer(text):
            if words.isdisjoint(re.findall(r"\w+", match[1])):
                line = text.count("\n", 0, match.start(2)) + 1
                print(f"{os.path.relpath(path, source_dir)}:{line}: {match[2]}() is defined in a header and not inline")
                count += 1
    print(f"{len(texts)} headers, {count} violations")
    sys.exit(1 if count else 0)


main()
