#!/usr/bin/env python3
"""Plants faults of one line in copies of the tree, one at a time in each, and demands that the tests that should see a fault do.

    mutants.py [--jobs N] SOURCE_DIR FOLDER [WORD...]    N: copies; FOLDER: of them and their builds; WORD: faults whose file
                                                         or words have it
    mutants.py SOURCE_DIR                                whether all can be planted, and nothing else

The faults are in faults.txt, which says how they are written. Status 1: one survived, or could not be planted.
"""
import argparse
import concurrent.futures
import filecmp
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import time

PATIENCE = 300  # seconds that a test may take without a fault; with one ten times what it took: if it hangs it has seen the fault
KEPT = ".kept"  # what is compiled of a file without its fault


class Fault:
    def __init__(self, kind, path, words):
        self.kind, self.path, self.words = kind, path, words
        self.old, self.new, self.after, self.units, self.tests = None, None, "", [], []

    def name(self):
        return f"{self.path}: {self.words}"

    def in_text(self, text):
        """The file with the fault; None: what it takes the place of is not there, or more than once."""
        start = text.find(self.after)
        at = text.find(self.old, start) if start >= 0 else -1
        if at < 0 or (not self.after and text.count(self.old) != 1):
            return None
        return text[:at] + self.new + text[at + len(self.old):]


def read_faults(path):
    faults, kind = [], None
    for line in open(path, encoding="utf-8"):
        mark, text = line[:2], line[2:].rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        if mark == "==":
            kind = text.strip()
        elif mark == "- ":
            faults[-1].old = text
        elif mark == "+ ":
            faults[-1].new = text
        elif mark == "@ ":
            faults[-1].after = text
        elif mark == "~ ":
            faults[-1].units = text.split()
        elif mark == "> ":
            faults[-1].tests.append(text)
        else:
            where, words = line.strip().split(": ", 1)
            faults.append(Fault(kind, where, words))
    for fault in faults:
        if fault.path.endswith(".h") and not fault.units or not fault.old or not fault.tests:
            sys.exit(f"{fault.name()}: a fault has its text and a test, in a header also units")
    return faults


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(command, cwd, log, patience):
    """Status of a command, whose output goes to the end of the log; a long one is ended, with what it started."""
    with open(log, "a", encoding="utf-8") as file:
        print(f"$ {' '.join(command)}", file=file, flush=True)
        child = subprocess.Popen(command, cwd=cwd, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return child.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            return 124


def copy_tree(source, target):
    """What a clone has, and nothing else. A file that is there already stays as it is, and what has been compiled of it holds."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name and os.path.isfile(f"{source}/{name}")}
    for folder, _, files in os.walk(target):
        for path in (os.path.join(folder, name) for name in files):
            if os.path.relpath(path, target) not in names:
                os.remove(path)
    for here, there in ((f"{source}/{name}", f"{target}/{name}") for name in names):
        if os.path.exists(there) and filecmp.cmp(here, there, shallow=False):
            continue
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copy(here, there)


class Copy:
    """The tree's copy, and its build. A fault goes into the one, and what has been compiled of it is kept beside for afterwards."""

    def __init__(self, folder, jobs):
        self.tree, self.build, self.log, self.jobs = f"{folder}/tree", f"{folder}/build", f"{folder}/log", jobs
        os.makedirs(folder, exist_ok=True)
        open(self.log, "w", encoding="utf-8").close()

    def targets_of(self, test):
        """What has to be built for a test; the model and its kernels are loaded, so that no program depends on them."""
        program = next(word for word in test.split() if "=" not in word)
        yield {"tigon": "tigon_command", "python": "tigon_python_package"}.get(program, os.path.basename(program))
        if "TIGON_DEVICE=npu-model" in test:
            yield "tigon_ascend_model"

    def make(self, tests):
        targets = sorted({target for test in tests for target in self.targets_of(test)})
        with open(self.log, "a", encoding="utf-8") as log:
            return subprocess.run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *targets],
                                  stdout=log, stderr=subprocess.STDOUT, check=False).returncode == 0

    def passes(self, test, patience):
        words = shlex.split(test)
        settings = [word for word in words if "=" in word and not word.startswith("-")]
        program, *arguments = words[len(settings):]
        if program == "python":
            settings += [f"PYTHONPATH={self.build}/python:{self.tree}/tests/python", "PYTHONDONTWRITEBYTECODE=1"]
            command = ["sh", f"{self.tree}/tests/python/pytest.sh", self.tree, f"{self.tree}/tests/python/{arguments[0]}", *arguments[1:]]
        else:
            command = [f"{self.build}/{program}", *arguments]
        return run(["env", "OMP_WAIT_POLICY=passive", *settings, *command], self.build, self.log, patience) == 0

    def objects(self):
        for folder, _, files in os.walk(self.build):
            yield from (os.path.join(folder, name) for name in files if name.endswith(".o"))

    def source_of(self, path):
        """Of an object, as the tree has it: build/sim/CMakeFiles/ascsim.dir/src/x.c.o is of sim/src/x.c."""
        return re.sub(r"CMakeFiles/[^/]*\.dir/", "", os.path.relpath(path, self.build)).removesuffix(".o")

    def write(self, fault, text):
        """Of a header no other unit is compiled again than those that the fault names: all are younger than it."""
        with open(f"{self.tree}/{fault.path}", "w", encoding="utf-8") as file:
            file.write(text)
        for path in self.objects() if fault.units else ():
            os.utime(path)

    def plant(self, fault):
        """The file as it was and the objects that are kept; None if the fault cannot be planted, or nothing is compiled of its file."""
        text = read(f"{self.tree}/{fault.path}")
        faulty = fault.in_text(text)
        kept = [path for path in self.objects()
                if any(f"/{unit}" in path for unit in fault.units) or self.source_of(path) == fault.path]
        if faulty is None or not kept and not fault.path.endswith(".py"):
            return None
        self.write(fault, faulty)
        for path in kept:
            os.rename(path, path + KEPT)
        return text, kept

    def take_out(self, fault, text, kept):
        self.write(fault, text)
        for path in kept:
            os.replace(path + KEPT, path)
            os.utime(path)  # younger than the text and than what was linked with the fault


def first_copy(source, folder, tests):
    copy = Copy(folder, os.cpu_count())
    copy_tree(source, copy.tree)
    subprocess.run(["cmake", "-S", copy.tree, "-B", copy.build, "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release"],
                   stdout=subprocess.DEVNULL, check=True)
    if not copy.make(tests):
        sys.exit(f"the tree does not build: see {copy.log}")
    return copy


def further_copy(first, folder):
    """All of the first folder with its own name for the first's in each file and link: both are as long, so programs stay whole,
    and as old, so nothing is compiled again."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(first, folder, symlinks=True)
    old, new = os.fsencode(first), os.fsencode(folder)
    for path in (os.path.join(where, name) for where, folders, files in os.walk(new) for name in folders + files):
        if os.path.islink(path):
            to = os.readlink(path)
            os.remove(path)
            os.symlink(to.replace(old, new), path)
        elif os.path.isfile(path):
            times = os.stat(path)
            with open(path, "r+b") as file:
                data = file.read()
                if old in data:
                    file.seek(0)
                    file.write(data.replace(old, new))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class Workers:
    """Copies of the tree, in each of which one thing is done at a time."""

    def __init__(self, source, folder, tests, jobs):
        folders = [f"{folder}/{i:03}" for i in range(jobs)]
        self.first = first_copy(source, folders[0], tests)
        self.first.jobs = max(1, os.cpu_count() // jobs)
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.free = queue.SimpleQueue()
        self.free.put(self.first)
        for copy in self.pool.map(lambda name: self.further(folders[0], name), folders[1:]):
            self.free.put(copy)

    def further(self, first, folder):
        further_copy(first, folder)
        return Copy(folder, self.first.jobs)

    def each(self, function, items):
        """function(copy, item) of all items, in their order, with the seconds that it took."""
        def one(item):
            copy = self.free.get()
            start = time.time()
            try:
                return function(copy, item), time.time() - start
            finally:
                self.free.put(copy)
        return zip(items, self.pool.map(one, items))


def try_fault(copy, fault, patience):
    """killed, SURVIVED or, where its text is not there any more or the compiler refuses it, NOT PLANTED."""
    planted = copy.plant(fault)
    if planted is None:
        return "NOT PLANTED"
    try:
        if not copy.make(fault.tests):
            return "NOT PLANTED"
        return "SURVIVED" if all(copy.passes(test, patience[test]) for test in fault.tests) else "killed"
    finally:
        copy.take_out(fault, *planted)


def find_python(source, faults):
    """PyTorch's Python for the tests of the package; without one their faults are left out."""
    if not any(test.startswith("python ") for fault in faults for test in fault.tests):
        return faults
    found = subprocess.run(["sh", f"{source}/scripts/torch_python.sh", "pytest"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        os.environ["TIGON_PEERS_PYTHON"] = found.stdout.strip()
        return faults
    print("there is no PyTorch here: without the faults of the Python package")
    return [fault for fault in faults if not any(test.startswith("python ") for test in fault.tests)]


def try_all(workers, faults, tests):
    """How many were not noticed."""
    patience = {}
    for test, (passes, seconds) in workers.each(lambda copy, test: copy.passes(test, PATIENCE), tests):
        if not passes:
            sys.exit(f"fails without a fault: {test}; see the logs beside {workers.first.log}")
        patience[test] = 30 + 10 * seconds
    left, kind = 0, None
    for fault, (result, seconds) in workers.each(lambda copy, fault: try_fault(copy, fault, patience), faults):
        if fault.kind != kind:
            kind = fault.kind
            print(kind)
        left += result != "killed"
        print(f"  {result:11}{seconds:4.0f} s  {fault.name()}", flush=True)
    print(f"{len(faults)} faults planted, {left} not noticed")
    return left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("source", type=os.path.realpath)
    parser.add_argument("folder", type=os.path.realpath, nargs="?")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    faults = [f for f in read_faults(f"{given.source}/tests/mutants/faults.txt")
              if not given.words or any(word in f.name() for word in given.words)]
    stale = [fault.name() for fault in faults if fault.in_text(read(f"{given.source}/{fault.path}")) is None]
    for name in stale:
        print(f"cannot be planted, its text is not there or there more than once: {name}")
    if not given.folder:
        print(f"{len(faults)} faults, {len(stale)} of which cannot be planted")
        sys.exit(bool(stale))
    for name in [name for name in os.environ if name.startswith("TIGON_") and name != "TIGON_PEERS_PYTHON"]:
        del os.environ[name]
    faults = find_python(given.source, faults)
    tests = sorted({test for fault in faults for test in fault.tests})
    workers = Workers(given.source, given.folder, tests, given.jobs)
    sys.exit(try_all(workers, faults, tests) != 0)


if __name__ == "__main__":
    main()
