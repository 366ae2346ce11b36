"""Compares Tigon with PyTorch: starts the measuring processes, keeps their measurements, writes page and chart. See docs/benchmark.md."""

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
from names import ALLOCATORS, MODES
from problem import OPERATORS
from report import Results, markdown, wrong

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = str(1 << 40)
# PyTorch's best: glibc takes everything from its heap and gives nothing back, so that pages are faulted in once.
ENVIRONMENTS = {"kept": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": KEPT, "MALLOC_TOP_PAD_": str(1 << 28)}, "default": {}}
CHART = ["--metric", "ratio", "--mode", "full", "--where", "size=large", "--where", "allocator=kept"]


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
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of libtigon.so and tigon; default: build")
    parser.add_argument("--out", type=Path, help="folder for peers.jsonl, peers.md, peers.svg; default: BUILD/peers")
    chosen_options = parser.parse_args()
    if not (chosen_options.build / "libtigon.so").exists():
        parser.error(f"--build: found no libtigon.so in {chosen_options.build}")
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
        others = ", ".join(f"{name} {r['ratio']:.2f}" for name, r in cell.items() if name != "tigon")
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


def measure(allocator: str, args: argparse.Namespace) -> list[dict]:
    """Runs one worker, and returns the lines that it prints."""
    worker = start(allocator, args, args.ops)
    lines, cell = [], {}
    for line in worker.stdout:
        lines.append(json.loads(line))
        provider = lines[-1].get("provider")
        if provider in cell:
            show(cell)
            cell = {}
        if provider:
            cell[provider] = lines[-1]
    show(cell)
    if worker.wait():
        sys.exit(f"the process that measures (allocator: {allocator}) failed after {len(lines)} lines")
    return lines


def families(names: list[str]) -> list[dict]:
    return [dict(family=name, memory_bound=OPERATORS[name].memory_bound, note=OPERATORS[name].note) for name in names]


def main() -> None:
    args = options()
    begin = time.monotonic()
    compile_ahead(args)
    lines = families(args.ops)
    for allocator in ALLOCATORS:
        lines += measure(allocator, args)
    results = Results(lines)
    if not results.cells:
        sys.exit("nothing to measure: adamw has only the mode full")
    out = args.out or args.build / "peers"
    out.mkdir(parents=True, exist_ok=True)
    (out / "peers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "peers.md").write_text(markdown(results))
    print(f"{time.monotonic() - begin:.0f} s; {out}/peers.jsonl, peers.md")
    if "full" in args.modes and "large" in args.sizes:
        subprocess.run([args.build / "tigon", "plot", *CHART, out / "peers.jsonl", "--output", out / "peers.svg"], check=True)
    if bad := wrong(results):
        print("beyond the tolerance:", *bad, sep="\n  ")
    sys.exit(any(r["provider"] == "tigon" and not r["correct"] for r in results.cells.values()))


if __name__ == "__main__":
    main()
