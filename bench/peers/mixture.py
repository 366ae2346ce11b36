#!/usr/bin/env python3
"""mixture.py [--device cuda] [--sizes 8192,2048,768,128,8 ...] [--rounds 12] [--others] [--one-expert] [--kernels] - fused_moe in bf16: the time
of forward, backward and both, their rates of 6 T K H I operations forward and twice as many backward, and the peak of memory above the inputs,
outputs and gradients included. A size is T,H,I,E,K.

On a GPU a time is what events around the calls say, one call behind the other, the median of rounds. --others: beside experts of transformers by
grouped_mm, eager and compiled. --one-expert: all slots in one. --kernels: what each kernel takes, by PyTorch's profiler."""
import argparse
import statistics
import time
from collections.abc import Callable

import tigon
import torch

import experts
from measure import leaves, tigon_contestant, torch_contestant
from problem import Make, Problem

SIZES = ["8192,2048,768,128,8", "32768,2048,768,128,8", "8192,4096,1536,8,2", "256,2048,768,128,8"]
MODES = ("forward", "backward", "full")


def milliseconds(run: Callable, prepare: Callable, device: str, rounds: int) -> float:
    times = []
    for _ in range(rounds + 2):
        prepare()
        if device == "cpu":
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(2000000)  # the host is through with the calls before the card begins
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[2:])


def kernels(run: Callable) -> str:
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        run()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in record.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name.removeprefix("void ").split("(")[0], []).append(event.device_time)
    return ", ".join(f"{name} {sum(t):.0f} µs" for name, t in times.items())


def bytes_of(p: Problem, sizes: dict) -> float:
    """Of Tigon's outputs, gradients, what it keeps for backward, and its workspace."""
    kept = [t for t in [*p.outputs, *p.grads] if t is not None]
    return sum(t.numel() * t.element_size() for t in kept) + sizes["T"] * sizes["K"] * 4 * sizes["I"] + tigon.workspace_peak()


def measure(args: argparse.Namespace, words: str) -> None:
    sizes = dict(zip("THIEK", map(int, words.split(",")), strict=True))
    with torch.device(args.device):
        p = experts.experts(Make(torch.bfloat16), **sizes)
    if args.one_expert:
        p.inputs[3].fill_(sizes["E"] // 2)
    tigon.workspace_trim()
    contestants = {"tigon": lambda mode: tigon_contestant(p, mode)}
    for name, function in p.others.items() if args.others else ():
        contestants[name] = lambda mode, name=name, function=function: torch_contestant(name, p, function, mode, leaves(p), p.upstream)
    for name, make in contestants.items():
        found = []
        for mode in MODES:
            c = make(mode)
            if name == "tigon":
                c.results()  # what backward needs is there
            ms = milliseconds(c.run, c.prepare, args.device, args.rounds)
            found.append(f"{mode} {ms:.3f} ms {p.flops[mode] / ms / 1e9:.0f} TF/s")
            if name == "tigon" and args.kernels and mode != "full":
                print(f"  {mode}: {kernels(c.run)}", flush=True)
        peak = f", peak {bytes_of(p, sizes) / 2**30:.2f} GiB" if name == "tigon" else ""
        print(f"{words} {name}: {', '.join(found)}{peak}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=12)
    for flag in ("--others", "--one-expert", "--kernels"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    for words in args.sizes:
        measure(args, words)


if __name__ == "__main__":
    main()
