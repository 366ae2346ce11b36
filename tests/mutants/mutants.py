#!/usr/bin/env python3
"""Plants faults of one line, one after another, in a copy of the tree and demands that the tests that should see each do.

    mutants.py SOURCE_DIR FOLDER [WORD...]     FOLDER: of the copy and its build; WORD: faults whose file or words have it
    mutants.py SOURCE_DIR                      whether all can be planted, and nothing else

The faults are in faults.txt, which says how they are written. Status 1: one survived, or could not be planted.
"""
import filecmp
import os
import shlex
import shutil
import subprocess
import sys
import time

PATIENCE = 300  # seconds that a test may take; one that hangs has seen the fault


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


def run(command, cwd, log):
    """Status of a command, whose output goes to the end of the log; a long one is ended, with what it started."""
    with open(log, "a", encoding="utf-8") as file:
        print(f"$ {' '.join(command)}", file=file, flush=True)
        child = subprocess.Popen(command, cwd=cwd, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            return 124


def copy_tree(source, target):
    """What a clone has. A file that is there already stays as it is, and what has been compiled of it holds."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        here, there = f"{source}/{name}", f"{target}/{name}"
        if not os.path.isfile(here) or (os.path.exists(there) and filecmp.cmp(here, there, shallow=False)):
            continue
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copy(here, there)


class Copy:
    """The tree's copy, and its build."""

    def __init__(self, source, folder):
        self.tree, self.build, self.log = f"{folder}/tree", f"{folder}/build", f"{folder}/log"
        os.makedirs(folder, exist_ok=True)
        open(self.log, "w").close()
        copy_tree(source, self.tree)
        subprocess.run(["cmake", "-S", self.tree, "-B", self.build, "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release"],
                       stdout=subprocess.DEVNULL, check=True)

    def target_of(self, test):
        """What has to be built for a test."""
        program = next(word for word in test.split() if "=" not in word)
        return {"tigon": "tigon_command", "python": "tigon_python_package"}.get(program, os.path.basename(program))

    def make(self, tests):
        targets = sorted({self.target_of(test) for test in tests})
        return subprocess.run(["cmake", "--build", self.build, "-j", str(os.cpu_count()), "--target", *targets],
                              stdout=open(self.log, "a"), stderr=subprocess.STDOUT, check=False).returncode == 0

    def passes(self, test):
        words = shlex.split(test)
        settings = [word for word in words if "=" in word and not word.startswith("-")]
        program, *arguments = words[len(settings):]
        if program == "python":
            settings += [f"PYTHONPATH={self.build}/python:{self.tree}/tests/python", "PYTHONDONTWRITEBYTECODE=1"]
            command = ["sh", f"{self.tree}/tests/python/pytest.sh", self.tree, f"{self.tree}/tests/python/{arguments[0]}", *arguments[1:]]
        else:
            command = [f"{self.build}/{program}", *arguments]
        return run(["env", "OMP_WAIT_POLICY=passive", *settings, *command], self.build, self.log) == 0

    def objects(self):
        for folder, _, files in os.walk(self.build):
            yield from (os.path.join(folder, name) for name in files if name.endswith(".o"))

    def write(self, fault, text):
        """A header goes into the units alone that the fault names: all others stay as they are, however old."""
        with open(f"{self.tree}/{fault.path}", "w", encoding="utf-8") as file:
            file.write(text)
        for path in self.objects():
            if any(f"/{unit}" in path for unit in fault.units) or path.endswith(f"/{fault.path}.o"):
                os.remove(path)
            elif fault.units:
                os.utime(path)

    def plant(self, fault):
        """The file as it was, None if the fault cannot be planted."""
        text = read(f"{self.tree}/{fault.path}")
        faulty = fault.in_text(text)
        if faulty is not None:
            self.write(fault, faulty)
        return text if faulty is not None else None


def try_fault(copy, fault):
    """killed, SURVIVED or, where its text is not there any more or the compiler refuses it, NOT PLANTED."""
    text = copy.plant(fault)
    if text is None:
        return "NOT PLANTED"
    try:
        if not copy.make(fault.tests):
            return "NOT PLANTED"
        return "SURVIVED" if all(copy.passes(test) for test in fault.tests) else "killed"
    finally:
        copy.write(fault, text)


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


def try_all(source, folder, faults):
    """How many were not noticed."""
    copy = Copy(source, folder)
    tests = sorted({test for fault in faults for test in fault.tests})
    if not copy.make(tests):
        sys.exit(f"the tree does not build: see {copy.log}")
    for test in tests:
        if not copy.passes(test):
            sys.exit(f"fails without a fault: {test}; see {copy.log}")
    left, kind = 0, None
    for fault in faults:
        if fault.kind != kind:
            kind = fault.kind
            print(kind)
        start = time.time()
        result = try_fault(copy, fault)
        left += result != "killed"
        print(f"  {result:11}{time.time() - start:4.0f} s  {fault.name()}", flush=True)
    print(f"{len(faults)} faults planted, {left} not noticed")
    return left


def main():
    source, words = os.path.realpath(sys.argv[1]), sys.argv[3:]
    faults = [f for f in read_faults(f"{source}/tests/mutants/faults.txt") if not words or any(w in f.name() for w in words)]
    stale = [fault.name() for fault in faults if fault.in_text(read(f"{source}/{fault.path}")) is None]
    for name in stale:
        print(f"cannot be planted, its text is not there or there more than once: {name}")
    if len(sys.argv) == 2:
        print(f"{len(faults)} faults, {len(stale)} of which cannot be planted")
        sys.exit(bool(stale))
    for name in [name for name in os.environ if name.startswith("TIGON_") and name != "TIGON_PEERS_PYTHON"]:
        del os.environ[name]
    sys.exit(try_all(source, os.path.realpath(sys.argv[2]), find_python(source, faults)) != 0)


if __name__ == "__main__":
    main()
