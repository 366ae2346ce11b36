#!/usr/bin/env python3
"""Plants faults of one line, one after another, in a copy of the tree and demands that the tests that should see each do.

    mutants.py SOURCE_DIR FOLDER [WORD...]     FOLDER: of the copy and its build; WORD: faults whose file or words have it

The faults are in faults.txt, which says how they are written. Status 1: one survived, or could not be planted.
"""
import filecmp
import os
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


def read_faults(path):
    faults, kind = [], ""
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
    return faults


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
        words = test.split()
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
        if fault.units:
            for path in self.objects():
                if any(f"/{unit}" in path for unit in fault.units):
                    os.remove(path)
                else:
                    os.utime(path)

    def plant(self, fault):
        """The file as it was; None: the text is not there, or more than once."""
        text = open(f"{self.tree}/{fault.path}", encoding="utf-8").read()
        start = text.find(fault.after)
        at = text.find(fault.old, start) if start >= 0 else -1
        if at < 0 or (not fault.after and text.count(fault.old) != 1):
            return None
        self.write(fault, text[:at] + fault.new + text[at + len(fault.old):])
        return text


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


def main():
    source, folder, words = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]), sys.argv[3:]
    faults = [f for f in read_faults(f"{source}/tests/mutants/faults.txt") if not words or any(w in f.name() for w in words)]
    for name in [name for name in os.environ if name.startswith("TIGON_") and name != "TIGON_PEERS_PYTHON"]:
        del os.environ[name]
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
    sys.exit(left != 0)


if __name__ == "__main__":
    main()
