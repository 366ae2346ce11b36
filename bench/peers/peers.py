"""Compares Tigon with PyTorch: starts the measuring processes and writes their table. See docs/benchmark.md."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import losses  # noqa: F401
import positions  # noqa: F401
import products  # noqa: F401
import rows  # noqa: F401
from chart import write_svg
from measure import MODES
from problem import OPERATORS
from report import ALLOCATORS, Results, markdown, write_csv, wrong

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = str(1 << 40)
# PyTorch's best: glibc takes everything from its heap and gives nothing back, so that pages are faulted in once.
ENVIRONMENTS = {"best": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": KEPT, "MALLOC_TOP_PAD_": str(1 << 28)}, "default": {}}
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


def chosen(known: list[str]):
    """An option's type: names of the list, separated by commas."""
    def parse(words: str) -> list[str]:
        for word in words.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"found '{word}', expected one of {', '.join(known)}")
        return [name for name in known if name in words.split(",")]
    return parse


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/peers/run.sh", description="Tigon beside PyTorch, eager and compiled.")
    for name, known in (("ops", list(OPERATORS)), ("sizes", ["small", "medium", "large"]), ("dtypes", ["f32", "bf16"]),
                        ("modes", list(MODES))):
        parser.add_argument(f"--{name}", type=chosen(known), default=known, metavar="A,B", help=f"default: {','.join(known)}")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that all works, not how fast it is")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of libtigon.so; default: build")
    parser.add_argument("--out", type=Path, help="folder for peers.md, peers.csv, peers.svg; default: BUILD/peers")
    parser.add_argument("--update", type=Path, metavar="FILE", help=f"put the table into FILE, between {BEGIN} and {END}")
    chosen_options = parser.parse_args()
    if not (chosen_options.build / "libtigon.so").exists():
        parser.error(f"--build: found no libtigon.so in {chosen_options.build}")
    if chosen_options.update and not all(mark in chosen_options.update.read_text() for mark in (BEGIN, END)):
        parser.error(f"--update: found no {BEGIN} and {END} in {chosen_options.update}")
    return chosen_options


def cache(build: Path) -> Path:
    return (build / "peers" / "inductor").resolve()


def environment(allocator: str, build: Path) -> dict[str, str]:
    """Of the process that measures; nothing of the caller's that would favour or hinder one side."""
    inherited = {k: v for k, v in os.environ.items() if not re.match(r"(MALLOC_|TIGON_|GLIBC_TUNABLES|LD_PRELOAD)", k)}
    return inherited | ENVIRONMENTS[allocator] | {
        "OMP_NUM_THREADS": "2", "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache(build))}


def show(cell: dict[str, dict]) -> None:
    mine = cell.get("tigon")
    if mine:
        others = ", ".join(f"{name} {r['ms_50'] / mine['ms_50']:.2f}" for name, r in cell.items() if name != "tigon")
        print(f"{mine['allocator']:8}{mine['operator']:30}{mine['size']:7}{mine['dtype']:5}{mine['mode']:9}"
              f"{mine['ms_50']:10.4g} ms; {others}", flush=True)


def start(allocator: str, args: argparse.Namespace, ops: list[str], compile_only: bool = False) -> subprocess.Popen:
    # The default allocator is there to show what it costs: a forward and backward tell.
    whole = "full" in args.modes and allocator == "default" and not compile_only
    request = dict(allocator=allocator, build=str(args.build.resolve()), ops=ops, sizes=args.sizes, dtypes=args.dtypes,
                   modes=["full"] if whole else args.modes, quick=args.quick, compile_only=compile_only)
    return subprocess.Popen([sys.executable, HERE / "worker.py", json.dumps(request)], env=environment(allocator, args.build),
                            text=True, stdout=subprocess.DEVNULL if compile_only else subprocess.PIPE)


def compile_ahead(args: argparse.Namespace) -> None:
    """Fills inductor's cache, on the first run in this build folder: in two processes, since nothing is timed yet."""
    if cache(args.build).exists():
        return
    print("torch.compile: compiling everything ahead, once", flush=True)
    for worker in [start("default", args, args.ops[i::2], compile_only=True) for i in range(2)]:
        worker.wait()  # what fails is met again, and told, when it is measured


def measure(allocator: str, args: argparse.Namespace) -> tuple[list[dict], list[dict], dict]:
    """Runs one worker; returns its records, who was left out, and its settings."""
    worker = start(allocator, args, args.ops)
    records, left_out, cell = [], [], {}
    for line in worker.stdout:
        record = json.loads(line)
        if "left_out" in record:
            left_out.append(record)
        elif "machine" in record:
            about = record
        else:
            if record["provider"] in cell:
                show(cell)
                cell = {}
            cell[record["provider"]] = record
            records.append(record)
    show(cell)
    if worker.wait():
        sys.exit(f"the process that measures (allocator: {allocator}) failed after {len(records)} records")
    return records, left_out, about


def update(file: Path, table: str) -> None:
    head, rest = file.read_text().split(BEGIN, 1)
    file.write_text(head + BEGIN + "\n" + table + END + rest.split(END, 1)[1])


def main() -> None:
    args = options()
    begin = time.monotonic()
    compile_ahead(args)
    records, left_out, about = [], [], {}
    for allocator in ALLOCATORS:
        found, absent, about[allocator] = measure(allocator, args)
        records += found
        left_out += absent
    if not records:
        sys.exit("nothing to measure: adamw has only the mode full")
    out = args.out or args.build / "peers"
    out.mkdir(parents=True, exist_ok=True)
    results = Results(records)
    table = markdown(results, about, left_out)
    (out / "peers.md").write_text(table)
    write_csv(results, out / "peers.csv")
    if "full" in args.modes:
        write_svg(results, out / "peers.svg")
    if args.update:
        update(args.update, table)
    print(f"{time.monotonic() - begin:.0f} s; {out}/peers.md, peers.csv, peers.svg")
    if bad := wrong(results):
        print("beyond the tolerance:", *bad, sep="\n  ")
    sys.exit(any(r["provider"] == "tigon" and not r["correct"] for r in records))


if __name__ == "__main__":
    main()
