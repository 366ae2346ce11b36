"""A training step of a model of Hugging Face spread over cards by FSDP2 or DDP: with Liger-Kernel's kernels, with Tigon, or as it is.

    PYTHONPATH=build/python python bindings/python/bench/ranks.py --model 1b --batch 8 --length 2048           # a process a card, two cards
    PYTHONPATH=build/python python bindings/python/bench/ranks.py --device cpu --layers 2 --batch 1 --length 64 --variants eager,tigon

Each layer is a group of its own to FSDP2, and the rest another; DDP's buckets hold the gradients. Parameters, gradients and the optimizer's
state are bf16. `--batch` is of one process; tokens of all count, in the time that the slowest process takes for all steps;
memory is that of the first.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from step import VARIANTS, Card, Host, arguments, make_model, make_step


def fsdp2(model, device):
    from torch.distributed.fsdp import fully_shard

    for layer in model.model.layers:
        fully_shard(layer)
    return fully_shard(model)


def ddp(model, device):
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None, gradient_as_bucket_view=True)


WAYS = {"fsdp2": fsdp2, "ddp": ddp}


def prepare(options, device):
    model = VARIANTS[options.variant](make_model(options, torch.bfloat16, use_cache=False).train())
    model = WAYS[options.way](model, device)
    return make_step(model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True), options, 1 + dist.get_rank())


def measure(rank, options):
    on_card = options.device == "cuda"
    device, gauge = torch.device(options.device, rank if on_card else 0), Card() if on_card else Host()
    if on_card:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_card else "gloo", init_method=f"file://{options.meeting}", rank=rank, world_size=options.ranks)
    step = prepare(options, device)
    first = step().item()
    for _ in range(options.warmup):
        step()
    gauge.forget_peak()
    gauge.wait()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(options.steps):
        last = step()
    gauge.wait()
    slowest = torch.tensor((time.perf_counter() - start) / options.steps, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"seconds": slowest.item(), "memory": gauge.peak(), "losses": (first, last.item())}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # PyTorch has threads that nobody joins, one of which now and then aborts a process that is done


def processes(way, variant, options):
    """What the processes of one measurement find, None where one fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--ways", way, "--variant", variant, "--meeting", f"{folder}/meeting"]
        for name in ("device", "model", "layers", "batch", "length", "steps", "warmup", "ranks"):
            command += [f"--{name}", str(getattr(options, name))]
        run = [subprocess.Popen([*command, "--rank", str(r)], stdout=subprocess.PIPE, text=True) for r in range(options.ranks)]
        written = [p.communicate()[0] for p in run]
        return json.loads(written[0].splitlines()[-1]) if not any(p.returncode for p in run) else None


def compare(way, options):
    variants, base = options.variants.split(","), None
    rounds = [{v: processes(way, v, options) for v in variants} for _ in range(options.rounds)]
    for variant in variants:
        found = [r[variant] for r in rounds if r[variant]]
        if not found:
            print(f"{way:6}{variant:7} fails", flush=True)
            continue
        rate = options.ranks * options.batch * options.length / min(r["seconds"] for r in found)
        memory, base = min(r["memory"] for r in found), base or (variant, rate)
        losses = "  ".join(f"{loss:.4f}" for loss in found[0]["losses"])
        print(f"{way:6}{variant:7} {rate:8.0f} tokens/s  {memory:7.0f} MiB  losses {losses}  {rate / base[1]:5.2f} x {base[0]}", flush=True)


def main():
    parser = arguments(__doc__, device="cuda", variants="liger,tigon", batch=8, length=2048, steps=8, warmup=2, rounds=1)
    parser.add_argument("--ways", default="fsdp2,ddp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        options.way = options.ways
        measure(options.rank, options)
    for way in options.ways.split(","):
        compare(way, options)


if __name__ == "__main__":
    main()
