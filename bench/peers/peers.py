"""Compares Tigon with PyTorch, on a GPU with other libraries too: starts the measuring processes, keeps their measurements, writes page
and chart. See docs/benchmark.md."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import operators  # noqa: F401
from names import ALLOCATORS, MODES
from problem import OPERATORS
from report import Results, markdown, read_lines, wrong

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = str(1 << 40)
# PyTorch's best: glibc takes everything from its heap and gives nothing back, so that pages are faulted in once.
ENVIRONMENTS = {"kept": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": KEPT, "MALLOC_TOP_PAD_": str(1 << 28)}, "default": {}}
DEVICES = {  # what is measured there unless asked otherwise; a card's memory is kept by PyTorch itself. stem: of the files' names
    "cpu": dict(allocators=ALLOCATORS, dtypes=["f32", "bf16"], stem="peers", compilers=2),
    "cuda": dict(allocators=ALLOCATORS[:1], dtypes=["bf16"], stem="peers-cuda", compilers=16)}
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
    parser.add_argument("--device", choices=list(DEVICES), default="cpu", help="cuda: a GPU, with Liger-Kernel and QuACK where installed")
    for name, known in (("ops", list(OPERATORS)), ("sizes", ["small", "medium", "large"]), ("modes", list(MODES))):
        parser.add_argument(f"--{name}", type=chosen(known), default=known, metavar="A,B", help=f"default: {','.join(known)}")
    parser.add_argument("--dtypes", type=chosen(["f32", "bf16"]), metavar="A,B", help="default: f32,bf16; on a GPU bf16")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of each on the CPU; default: 2")
    parser.add_argument("--clock", choices=["wall", "process"], default="wall",
                        help="process: the process's own time, with --threads 1, on a machine where others work")
    parser.add_argument("--resume", action="store_true", help="keep what --out has, and measure only operators that it lacks")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that all works, not how fast it is")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of the package python/tigon and of tigon; default: build")
    parser.add_argument("--out", type=Path, help="folder for peers.jsonl, peers.md, peers.svg (peers-cuda.*); default: BUILD/peers")
    chosen_options = parser.parse_args()
    chosen_options.dtypes = chosen_options.dtypes or DEVICES[chosen_options.device]["dtypes"]
    chosen_options.ops = [name for name in chosen_options.ops if OPERATORS[name].sizes[chosen_options.device]]
    chosen_options.out = chosen_options.out or chosen_options.build / "peers"
    if chosen_options.clock == "process" and (chosen_options.device != "cpu" or chosen_options.threads != 1):
        parser.error("--clock process: the time of one thread of the CPU; expected --threads 1")
    if not (chosen_options.build / "python" / "tigon").exists():
        parser.error(f"--build: found no python/tigon in {chosen_options.build}")
    return chosen_options


def cache(args: argparse.Namespace) -> Path:
    return (args.build / "peers" / "inductor" / args.device).resolve()


def environment(allocator: str, args: argparse.Namespace) -> dict[str, str]:
    """Of the process that measures; nothing of the caller's that would favour or hinder one side."""
    hidden = r"MALLOC_|TIGON_(?!CUDA_LIBRARIES)|GLIBC_TUNABLES|LD_PRELOAD"
    inherited = {k: v for k, v in os.environ.items() if not re.match(hidden, k)}
    return inherited | ENVIRONMENTS[allocator] | {
        "TIGON_DEVICE": args.device, "OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": str(args.build.resolve() / "python"), "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache(args)), "TRITON_CACHE_DIR": str(cache(args) / "triton")}


def show(cell: dict[str, dict]) -> None:
    mine = cell.get("tigon")
    if mine:
        others = ", ".join(f"{name} {r['ratio']:.2f}" for name, r in cell.items() if name != "tigon")
        print(f"{mine['allocator']:8}{mine['operator']:30}{mine['size']:7}{mine['dtype']:5}{mine['mode']:9}"
              f"{mine['ms_50']:10.4g} ms; {others}", flush=True)


def start(allocator: str, args: argparse.Namespace, ops: list[str], compile_only: bool = False) -> subprocess.Popen:
    # The default allocator is there to show what it costs: a forward and backward tell.
    whole = "full" in args.modes and allocator == "default" and not compile_only
    request = dict(device=args.device, allocator=allocator, build=str(args.build.resolve()), ops=ops, sizes=args.sizes,
                   dtypes=args.dtypes, threads=args.threads, clock=args.clock, modes=["full"] if whole else args.modes, quick=args.quick, compile_only=compile_only)
    return subprocess.Popen([sys.executable, HERE / "worker.py", json.dumps(request)], env=environment(allocator, args),
                            text=True, stdout=subprocess.DEVNULL if compile_only else subprocess.PIPE)


def compile_ahead(args: argparse.Namespace, ops: list[str]) -> None:
    """Fills the compilers' caches, on the first run in this build folder: in several processes, since nothing is timed yet."""
    if cache(args).exists():
        return
    print("torch.compile: compiling everything ahead, once", flush=True)
    count = DEVICES[args.device]["compilers"]
    for worker in [start("default", args, ops[i::count], compile_only=True) for i in range(count)]:
        worker.wait()  # what fails is met again, and told, when it is measured


def measure(allocator: str, args: argparse.Namespace, ops: list[str], file) -> list[dict]:
    """Runs one worker; returns the lines that it prints, each of which is in the file as soon as it comes."""
    worker = start(allocator, args, ops)
    lines, cell = [], {}
    for text in worker.stdout:
        file.write(text)
        file.flush()
        lines.append(json.loads(text))
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


def main() -> None:
    args = options()
    begin = time.monotonic()
    about = DEVICES[args.device]
    args.out.mkdir(parents=True, exist_ok=True)
    records, page, chart = (args.out / (about["stem"] + ending) for ending in (".jsonl", ".md", ".svg"))
    lines = read_lines(records) if args.resume and records.exists() else []
    done = {(line["family"], line["allocator"]) for line in lines if "family" in line}
    with records.open("a" if lines else "w") as file:
        for allocator in about["allocators"]:
            ops = [name for name in args.ops if (name, allocator) not in done]
            compile_ahead(args, ops)
            lines += measure(allocator, args, ops, file)
    results = Results(lines)
    if not results.cells:
        sys.exit("nothing to measure: adamw and muon have only the mode full")
    page.write_text(markdown(results))
    print(f"{time.monotonic() - begin:.0f} s; {records}, {page}")
    if "full" in args.modes and "large" in args.sizes:
        subprocess.run([args.build / "tigon", "plot", *CHART, records, "--output", chart], check=True)
    if bad := wrong(results):
        print("beyond the tolerance:", *bad, sep="\n  ")
    failed = [r for r in results.left_out if r["left_out"] == "tigon"]
    sys.exit(bool(failed) or any(r["provider"] == "tigon" and not r["correct"] for r in results.cells.values()))


if __name__ == "__main__":
    main()
