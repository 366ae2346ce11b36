#!/usr/bin/env python3
"""What pages, the manual and the headers say of the tree is so: files and folders, settings, options of commands, areas of tests, counts of
operators, which operators a device has; and words that went stale once do not come back (stale.txt).
   claims.py SOURCE_DIR [TIGON]     TIGON: the command, for the options of its sub-commands
"""
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
TIGON = sys.argv[2] if len(sys.argv) > 2 else None
KINDS = r"(?:c|h|cu|cuh|inc|def|py|sh|cmake)"
# Files that readers make themselves, and what others have.
OTHERS = re.compile(r"(?:^|/)(?:silu|program|mine|KERNEL|set_env|benchmarks_visualizer|dlpack|asc_simd)|^build/")
complaints = []


def complain(page, text):
    complaints.append(f"{page.relative_to(SOURCE)}: {text}")


def tracked():
    """Files of the tree, by git, or all of a copy that has no history."""
    git = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if git.returncode == 0 and git.stdout:
        return [f for f in git.stdout.splitlines() if (SOURCE / f).exists()]
    found = (p.relative_to(SOURCE) for p in SOURCE.rglob("*") if p.is_file())
    return [str(p) for p in found if not re.match(r"build|\.git/|shared/", str(p))]


FILES = tracked()
PAGES = [SOURCE / f for f in FILES if f.endswith(".md") and not f.startswith("docs/results/")]
CODE = "\n".join((SOURCE / f).read_text(errors="replace") for f in FILES
                 if not f.startswith(("tests/rules/", "include/")) and re.search(r"\.(c|h|cu|cuh|inc|py|sh|cmake|in|toml|json)$|CMakeLists\.txt$|Makefile$", f))
CMAKE = "\n".join((SOURCE / f).read_text() for f in FILES if f.endswith("CMakeLists.txt"))
OPERATORS = re.findall(r"^TG_OP\((\w+),", (SOURCE / "include/tigon/ops.def").read_text(), re.M)
FAMILIES = sorted({re.sub("_(forward|backward)$", "", op) for op in OPERATORS})


def code_of(page):
    """Text between backticks."""
    return re.findall(r"`([^`\n]+)`", page.read_text())


def check_files(page):
    for text in code_of(page):
        for name in re.findall(rf"(?<![\w<>*.$/-])[A-Za-z][\w./-]*\.{KINDS}(?![\w<>*])", text):
            there = any(f == name or f.endswith("/" + name) for f in FILES) or (page.parent / name).exists()
            if not there and not OTHERS.search(name):
                complain(page, f"`{name}`: the tree has no such file")


def check_settings(page):
    for name in sorted(set(re.findall(r"\b(?:TIGON|ASCSIM|LLAMA)_[A-Z][A-Z0-9_]+\b", page.read_text()))):
        if name not in CODE and not name.startswith("TIGON_IMPL_") and not name.endswith("_H"):
            complain(page, f"{name}: no such setting or option of CMake")


def check_areas(page):
    """`make test-long AREA=area`: an area that tests have."""
    for area in re.findall(r"\bAREA=([a-z]+)", page.read_text()):
        if not re.search(rf"\bLONG {area}\b", CMAKE):
            complain(page, f"AREA={area}: no test is of that area")


def check_manual(known):
    """Each sub-command's part of tigon.1 names the options that its --help does."""
    page = SOURCE / "docs/man/tigon.1"
    for command in known:
        part = re.search(rf"^\.It Nm Cm {command}\n(.*?)(?=^\.It Nm Cm |^\.Sh )", page.read_text(), re.S | re.M)
        named = {"-" + option for option in re.findall(r"Fl (-[a-z-]+)", part.group(1))} if part else set()
        for option in sorted((known[command] - {"--json", "--help"}) ^ (named - {"--json", "--help"})):
            complain(page, f"tigon {command} {option}: in the manual or in --help alone")


def check_options(page, known):
    for command, rest in re.findall(rf"\btigon ({'|'.join(known)})\b([^`\n#;|&]*)", page.read_text()):
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest):
            if option not in known[command] and option != "--help":
                complain(page, f"tigon {command} {option}: no such option")


def check_counts(page):
    for n, what in re.findall(r"\b(?:all |the |has )?(\d+) (operators|families)\b", page.read_text()):
        expected = {"operators": len(OPERATORS), "families": len(FAMILIES)}[what]
        if int(n) != expected and "liger" not in page.name:
            complain(page, f"{n} {what}: there are {expected}")


def check_lists_of_operators(page):
    """A line that lists a device's operators lists all of them."""
    for line in page.read_text().splitlines():
        named = {name for name in re.findall(r"`(\w+)`", line) if name in FAMILIES}
        if len(named) < 8 or not re.search(r"NVIDIA|cuda|all:|NPU", line):
            continue
        composed = {f for f in FAMILIES if f.startswith("fused_linear")}
        missing = set(FAMILIES) - named - composed
        if missing:
            complain(page, f"a list of operators lacks {', '.join(sorted(missing))}")


def check_tree():
    """docs/architecture.md names every folder of the tree, every part of core, and no other."""
    page = SOURCE / "docs/architecture.md"
    text = page.read_text()
    tree = text[text.index("## The tree"):text.index("File names repeat")]
    for name in re.findall(r"(?:^ {4,6}|(?<=tests/ )|(?<=docs/ )|(?<=cmake/ ))((?:[a-z]+/)+)(?=[ \n])", tree, re.M):
        if not (SOURCE / name).is_dir():
            complain(page, f"{name}: no such folder")
    folders = {f.split("/")[0] for f in FILES if "/" in f and not f.startswith(".")}
    for above in ("src", "backends", "bindings"):
        folders |= {"/".join(f.split("/")[:2]) for f in FILES if f.startswith(above + "/") and f.count("/") > 1 and "/ops/" not in f}
    for folder in sorted(folders - {"src", "backends", "bindings"}):
        if not re.search(rf"(?<![\w/]){re.escape(folder)}/", tree):
            complain(page, f"the tree lacks {folder}/")


def check_backend(name):
    """A backend's README names every host file that is no family's own."""
    page = SOURCE / f"backends/{name}/README.md"
    text = page.read_text()
    for f in FILES:
        file = f.rpartition("/")[2]
        stem = file.split(".")[0]
        own = f.startswith(f"backends/{name}/") and "/kernels/" not in f and "/questions/" not in f
        if not own or not re.search(r"\.(c|h|cu|cuh|inc)$", file):
            continue
        if not any(stem.startswith(family) for family in FAMILIES) and file not in text:
            complain(page, f"does not name {file}")


def check_stale():
    """A line of stale.txt: files (a pattern), then a regular expression that none of their lines may match."""
    for line in (SOURCE / "tests/rules/stale.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        where, words = line.split(maxsplit=1)
        pages = [SOURCE / f for f in FILES if pathlib.PurePath(f).match(where)]
        if not pages:
            complaints.append(f"tests/rules/stale.txt: {where}: no such file")
        for page in pages:
            text = re.sub(r"\s+", " ", page.read_text())
            if found := re.search(words, text):
                complain(page, f'"{found.group(0)}" went stale once')


def options_of(command):
    text = subprocess.run([TIGON, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *(--[a-z][a-z-]*)", text, re.M))


commands = re.findall(r'^    \{"([a-z-]+)", command_', (SOURCE / "tools/tigon/main.c").read_text(), re.M)
options = {c: options_of(c) for c in commands} if TIGON else None
for page in PAGES:
    check_files(page)
    check_settings(page)
    check_areas(page)
    check_counts(page)
    check_lists_of_operators(page)
    if options:
        check_options(page, options)
for page in [SOURCE / "docs/man/tigon.1", *sorted((SOURCE / "include/tigon").glob("*.*"))]:
    check_settings(page)
if options:
    check_manual(options)
check_tree()
check_backend("ascend")
check_backend("cuda")
check_stale()
print("\n".join(complaints) or f"{len(PAGES)} pages")
sys.exit(bool(complaints))
