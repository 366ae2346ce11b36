"""Who may know whom: the arrows of arrows.txt, held against what the compiler includes and what objects call.
    arrows.py SOURCE_DIR BUILD_DIR      a build with compile_commands.json
Includes are those of `cc -MM` for every source that the build compiles, so what a header includes counts as well; those of nvcc's
files are read as text. Calls are the undefined symbols of its objects. Beside the arrows: what objects of kernels and of the library may not call.
"""
import collections
import concurrent.futures
import ctypes
import fnmatch
import glob
import json
import os
import re
import shlex
import subprocess
import sys

# Objects whose path fits, and what they must not call.
FORBIDDEN = [
    ("a kernel neither allocates, prints, reads the environment nor starts threads",
     r"^src/(rows/|(ops|gemm|rotary)/.*_(cpu|kernel)[a-z0-9_]*\.c$)",
     "malloc calloc realloc aligned_alloc posix_memalign free strdup printf fprintf puts putchar fwrite getenv secure_getenv "
     "pthread_create"),
    ("the library never aborts, exits or prints", r"^(src/|backends/(ascend/(?!questions/)|unfused/))",
     "abort exit _Exit __assert_fail printf vprintf puts putchar perror"),
]
found = []


def complain(what):
    found.append(what)
    print(what)


class Arrows:
    def __init__(self, path):
        self.lines = {}
        for line in open(path, encoding="utf-8"):
            line = line.split("#")[0].strip()
            if line:
                who, _, whom = line.partition("->")
                self.lines[who.strip()] = whom.split()

    def line_of(self, file):
        """The line that counts for a file: the longest that fits its path or one of its folders."""
        best = ""
        for who in self.lines:
            n = who.count("/") + 1
            part = "/".join(file.split("/")[:n])
            if fnmatch.fnmatchcase(part, who) and (n, who) > (best.count("/") + (best != ""), best):
                best = who
        return best

    def room_of(self, file):
        """The folder that a file belongs to: that of its line; for a line of files the folder they lie in."""
        line = self.line_of(file)
        n = line.count("/") + 1 if line else 1
        parts = file.split("/")
        return "/".join(parts[:min(n, len(parts) - 1)])

    def allows(self, file, other, call):
        if self.room_of(file) == self.room_of(other):
            return True
        for whom in self.lines[self.line_of(file)]:
            if whom.startswith("calls:"):
                whom = whom[6:] if call else ""
            elif whom.endswith(".h") and call:
                whom = os.path.dirname(whom)
            n = whom.count("/") + 1
            if fnmatch.fnmatchcase("/".join(other.split("/")[:n]), whom):
                return True
        return False

    def circle(self):
        """A way from a line back to itself, or None."""
        def beyond(who):
            for whom in self.lines[who]:
                if whom.startswith("calls:"):
                    continue
                whom = os.path.dirname(whom) if whom.endswith(".h") else whom
                for other in self.lines:
                    if other != who and (fnmatch.fnmatchcase(other, whom) or other.startswith(whom + "/") and "/" not in other[len(whom) + 1:]):
                        yield other

        def walk(who, way):
            for other in beyond(who):
                if other in way:
                    return way[way.index(other):] + [other]
                if other not in done:
                    back = walk(other, way + [other])
                    if back:
                        return back
            done.add(who)
            return None

        done = set()
        for who in self.lines:
            back = who not in done and walk(who, [who])
            if back:
                return back
        return None


class Unit:
    """A source as the build compiles it."""
    def __init__(self, entry, source_dir):
        self.folder = entry["directory"]
        self.command = shlex.split(entry["command"]) if "command" in entry else entry["arguments"]
        self.path = os.path.realpath(os.path.join(self.folder, entry["file"]))
        self.file = os.path.relpath(self.path, source_dir)
        self.object = os.path.join(self.folder, self.command[self.command.index("-o") + 1])
        self.folders = [os.path.realpath(os.path.join(self.folder, option[2:])) for option in self.command if option.startswith("-I")]

    def reads(self):
        """All files that the compiler reads but for those of the system."""
        command, skip = [], False
        if self.command[0].endswith("ccache"):
            del self.command[0]
        for option in self.command:
            if skip or option in ("-c", "-MD", "-MMD"):
                skip = False
            elif option in ("-o", "-MF", "-MT", "-MQ"):
                skip = True
            else:
                command.append(option)
        done = subprocess.run(command + ["-MM"], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.file}: {done.stderr}")
        names = done.stdout.split(":", 1)[1].replace("\\\n", " ").split()
        return {os.path.realpath(os.path.join(self.folder, name)) for name in names}


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def includes_of(path, unit, reads):
    """(line, file) of each #include in a file that leads to a file which the unit reads."""
    text = open(path, encoding="utf-8").read()
    for match in INCLUDE.finditer(text):
        own = [os.path.dirname(path)] if match[1] == '"' else []
        for folder in own + unit.folders:
            target = os.path.realpath(os.path.join(folder, match[2]))
            if target in reads:
                yield text.count("\n", 0, match.start()) + 1, target
                break


def check_includes(units, arrows, source_dir, build_dir):
    seen = set()

    def ours(path): # and not generated
        return path.startswith(source_dir + "/") and not path.startswith(build_dir + "/")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        all_reads = list(pool.map(Unit.reads, units))
    for unit, reads in zip(units, all_reads):
        for path in sorted(reads):
            if not ours(path):
                continue
            file = os.path.relpath(path, source_dir)
            for line, target in includes_of(path, unit, reads):
                other = os.path.relpath(target, source_dir)
                if ours(target) and (file, line, other) not in seen and not arrows.allows(file, other, False):
                    complain(f"{file}:{line}: includes {other}: no arrow leads there")
                seen.add((file, line, other))


def check_text(arrows, source_dir, folder):
    """Of files that no compiler of this build sees: what their includes in quotes name, beside them or under their backend."""
    above = os.path.join(source_dir, folder)
    for path in sorted(glob.glob(above + "/**/*.*", recursive=True)):
        file = os.path.relpath(path, source_dir)
        if not file.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
            continue
        text = open(path, encoding="utf-8").read()
        for match in INCLUDE.finditer(text):
            for target in (os.path.join(os.path.dirname(path), match[2]), os.path.join(above, match[2])):
                other = os.path.relpath(target, source_dir)
                if os.path.exists(target):
                    if not arrows.allows(file, other, False):
                        line = text.count("\n", 0, match.start()) + 1
                        complain(f"{file}:{line}: includes {other}: no arrow leads there")
                    break


def symbols(objects):
    """Of each object the symbols that it defines for others of its library, and those that it takes. What a library exports is
    reached through its public headers, which are includes: left out, as what the C library has."""
    out = subprocess.run(["readelf", "-sW"] + objects, capture_output=True, text=True, check=True).stdout
    defined, taken = collections.defaultdict(set), collections.defaultdict(set)
    name = objects[0]
    for line in out.splitlines():
        part = line.split()
        if line.startswith("File: "):
            name = line[6:]
        elif len(part) == 8 and part[4] in ("GLOBAL", "WEAK"):
            if part[6] == "UND":
                taken[name].add(part[7])
            elif part[5] == "HIDDEN":
                defined[name].add(part[7])
    return defined, taken


def check_calls(units, arrows):
    file_of = {unit.object: unit.file for unit in units}
    defined, taken = symbols(list(file_of))
    where = collections.defaultdict(set)
    for name, symbols_ in defined.items():
        for symbol in symbols_:
            where[symbol].add(file_of[name])
    system = ctypes.CDLL(None)
    seen = set()
    for name, symbols_ in sorted(taken.items()):
        file = file_of[name]
        for symbol in sorted(symbols_):
            for what, files, names in FORBIDDEN:
                if symbol in names.split() and re.search(files, file) and (file, symbol) not in seen:
                    complain(f"{file}: calls {symbol}(): {what}")
            others = where.get(symbol, ())
            others = [other for other in others if other.split("/")[0] == file.split("/")[0]] or others
            if others and (file, symbol) not in seen and not hasattr(system, symbol):
                if not any(arrows.allows(file, other, True) for other in others):
                    complain(f"{file}: calls {symbol}() of {sorted(others)[0]}: no arrow leads there")
            seen.add((file, symbol))


def main():
    source_dir, build_dir = (os.path.realpath(argument) for argument in sys.argv[1:3])
    arrows = Arrows(os.path.join(os.path.dirname(os.path.realpath(__file__)), "arrows.txt"))
    circle = arrows.circle()
    if circle:
        complain("arrows.txt has a circle: " + " -> ".join(circle))
    units = [Unit(entry, source_dir) for entry in json.load(open(os.path.join(build_dir, "compile_commands.json")))]
    generated = os.path.relpath(build_dir, source_dir) + "/"
    units = [unit for unit in units if not unit.file.startswith(("..", generated))]
    for file in sorted({unit.file for unit in units}):
        if not arrows.line_of(file):
            complain(f"{file}: no line of arrows.txt says whom it may know")
    once = list({unit.file: unit for unit in units}.values())
    check_includes(once, arrows, source_dir, build_dir)
    check_text(arrows, source_dir, "backends/cuda")
    check_calls([unit for unit in units if os.path.exists(unit.object)], arrows)
    print(f"{len(once)} sources, {len(found)} violations")
    sys.exit(1 if found else 0)


main()
