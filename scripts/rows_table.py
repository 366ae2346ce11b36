#!/usr/bin/env python3
"""Rows of the CPU that the memory bounds, beside the machine's limit: prints docs/results/rows-cpu.md.

    python3 scripts/rows_table.py [--threads N] [--clock cpu] [--tigon build/tigon] [OPERATOR...] > docs/results/rows-cpu.md

Each operator runs at its large size with cold caches, and at a few of the same rows that stay in the second
cache: what its arithmetic takes when no memory is waited for.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

# What of the large size is taken so that it fits the second cache.
NEAR = {
    "rms_norm": "R=12", "fused_add_rms_norm": "R=8", "layer_norm": "R=12", "group_norm": "B=1 S=512", "dyt": "R=12", "geglu": "R=6",
    "sparsemax": "R=12", "selective_log_softmax": "B=1 L=4", "grpo_loss": "B=1 L=4", "softmax_jsd": "R=2", "sum_rows": "R=16",
    "swiglu": "R=6",
}

HEAD = """# Rows of the CPU beside the machine's limit

Operators at their large size, cold caches, {threads} of {device} (level {level}), by {clock}.
`python3 scripts/rows_table.py --threads {count} --clock {which}` prints the table, `tigon bench` measures: the limit is the best plain
loop that moves as many bytes in as many streams, over the operator's own tensors and in turns with it ([benchmark](../benchmark.md)).

* **limit**: GB/s of that loop, with its quantiles at 20 and 80 % over the rounds.
* **fraction**: the operator's share of it, the median over the rounds.
* **in cache**: the same kernel on a few of these rows, which stay in the second cache, in bytes a second over the limit's: what its
  arithmetic and its passes over the caches allow where no memory is waited for. Below 1 it bounds the fraction.
* **plain loop**: the share of the limit that a plain loop reaches that passes over its rows as often and does the same operations on
  their elements, exponentials included, but nothing else (`bench/rows_bound.c`, one core): the bound of the fraction by its operations.
  It knows no parameters, sums of their gradients, labels or special values.

| operator | mode | type | limit, GB/s | fraction | in cache | plain loop |
|---|---|---|---:|---:|---:|---:|"""


def bench(options, operator, *more):
    command = [options.tigon, "bench", operator, "--provider", "tigon", "--no-check", "--json", "--threads", str(options.threads),
               "--clock", options.clock, "--mode", "forward,backward", *more]
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return {(r["operator"], r["mode"], r["dtype"]): r for r in json.loads(done.stdout)}


def plain_loops():
    """Shares of the limit by operator, mode and type."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "rows_bound")
        subprocess.run([os.environ.get("CC", "cc"), "-O3", "-march=native", "-I", os.path.join(root, "src", "simd"),
                        os.path.join(root, "bench", "rows_bound.c"), "-lm", "-o", program], check=True)
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {(operator, mode, dtype): share for operator, mode, dtype, share in lines}


def level(tigon):
    return json.loads(subprocess.run([tigon, "info", "--json"], capture_output=True, text=True, check=True).stdout)["cpu_level"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tigon", default="build/tigon")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    parser.add_argument("operators", nargs="*", default=list(NEAR))
    options = parser.parse_args()
    print("plain loops", file=sys.stderr)
    plain = plain_loops()
    lines, device = [], ""
    for operator in options.operators:
        print(operator, file=sys.stderr)
        far = bench(options, operator, "--size", "large")
        near = bench(options, operator, "--shape", NEAR[operator], "--cache", "warm", "--no-limit", "--rounds", "9")
        for key, r in far.items():
            if key[0] != operator or r["limit_gbps"] is None:
                continue
            device = r["device"]
            limit = f"{r['limit_gbps']:.0f} ({r['limit_gbps_20']:.0f}-{r['limit_gbps_80']:.0f})"
            lines.append(f"| {operator} | {key[1]} | {key[2]} | {limit} | {r['fraction_of_limit']:.2f} | "
                         f"{near[key]['gbps'] / r['limit_gbps']:.2f} | {plain.get(key, '-')} |")
    threads = f"{options.threads} core" + ("s" if options.threads > 1 else "")
    clock = "the process's own time" if options.clock == "cpu" else "the wall's time"
    print(HEAD.format(threads=threads, device=device, level=level(options.tigon), clock=clock, count=options.threads, which=options.clock))
    print("\n".join(lines))


main()
