#!/usr/bin/env python3
"""scaled.py [--device cuda] [--sizes 8192,8192,8192 ...] [--rounds 10] - quantize_block and gemm_block_scaled on bf16: the rate of the product of blocks
beside PyTorch's own, where it has one, and beside the product of the bf16 numbers, in turns, behind a cold cache; and what part of a copy of as many
bytes, the quantisation in the order of the rows takes. A size is M,N,K. c of Tigon's product is compared with PyTorch's."""
import argparse
import statistics
from collections.abc import Callable

import torch
from tigon import ops

from blocks import multiplied_by_pytorch, padded_scales, quantised
from clocks import Card, Host

SIZES = ["8192,8192,8192", "16384,8192,2048", "16384,2048,8192", "16384,128256,2048", "32768,2048,768"]


def medians(runs: dict[str, Callable], clock, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 2):
        for name, run in runs.items():
            times[name].append(clock.milliseconds(lambda: None, run, True))
    return {name: statistics.median(t[2:]) for name, t in times.items()}


def measure(size: str, device: str, clock, rounds: int) -> str:
    M, N, K = map(int, size.split(","))
    x, w = (torch.randn(lines, K, device=device).bfloat16() for lines in (M, N))
    (a, scale_a), (b, scale_b) = quantised(x, 1), quantised(w, 128)
    scale_a, scale_b = scale_a.contiguous(), scale_b.contiguous()
    c, product = (torch.empty(M, N, device=device, dtype=torch.bfloat16) for _ in range(2))
    q, scale = torch.empty_like(a), torch.empty_like(scale_a)
    to, source = (torch.empty(3 * M * K // 4, device=device, dtype=torch.bfloat16) for _ in range(2))
    runs = dict(tigon=lambda: ops.gemm_block_scaled(a=a, scale_a=scale_a, b=b, scale_b=scale_b, c=c), bf16=lambda: torch.mm(x, w.t(), out=product),
                quantise=lambda: ops.quantize_block(x=x, q=q, scale=scale), copy=lambda: to.copy_(source))
    difference = ""
    if device == "cuda":
        padded = padded_scales(scale_b)
        runs["torch"] = lambda: multiplied_by_pytorch(a, scale_a, b, padded)
        runs["tigon"]()
        difference = f", largest difference from PyTorch's {(c.float() - runs['torch']().float()).abs().max().item():g}"
    ms = medians(runs, clock, rounds)
    rates = ", ".join(f"{name} {2 * M * N * K / ms[name] / 1e9:.4g}" for name in ("tigon", "torch", "bf16") if name in ms)
    over = ", ".join(f"{ms[name] / ms['tigon']:.2f} over {name}" for name in ("torch", "bf16") if name in ms)
    return f"{size}: TF/s {rates}: {over}{difference}; quantised at {ms['copy'] / ms['quantise']:.2f} of a copy"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="M,N,K")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    clock = Card() if options.device == "cuda" else Host()
    for size in options.sizes:
        print(measure(size, options.device, clock, options.rounds), flush=True)


if __name__ == "__main__":
    main()
