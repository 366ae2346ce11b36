#!/usr/bin/env python3
"""chunked.py [--device cuda] [--losses dpo,orpo,grpo] [--sizes 8,1024,4096,128256] [--rounds 5] - the losses of tigon.liger.chunked_loss
beside Liger-Kernel's, where it is installed: the time of forward with backward, the peak of memory above the inputs, how far results are apart.

Time and memory are those of clocks.py; on a GPU Tigon's workspace is beside what PyTorch's allocator holds."""
import argparse
import importlib
import sys
from pathlib import Path

import torch

from clocks import CLOCKS

PROVIDERS = {"tigon": "tigon.liger.chunked_loss", "liger": "liger_kernel.chunked_loss"}


class Inputs:
    """A policy's last layer and a reference model's, in bf16: x [B,S,H], weight [V,H]."""

    def __init__(self, batch: int, length: int, hidden: int, classes: int):
        normal = lambda *shape, scale=1.0: (torch.randn(*shape) * scale).bfloat16()
        self.x, self.reference = normal(batch, length, hidden).requires_grad_(), normal(batch, length, hidden)
        self.weight = normal(classes, hidden, scale=hidden**-0.5).requires_grad_()
        self.reference_weight = normal(classes, hidden, scale=hidden**-0.5)
        self.target = torch.randint(classes, (batch, length))
        self.advantages, self.mask = torch.randn(batch), torch.ones(batch, length)


def losses(module, i: Inputs) -> dict:
    """By name: a call without arguments."""
    dpo = module.LigerFusedLinearDPOLoss(use_ref_model=True)
    pairs = {name: getattr(module, f"LigerFusedLinear{name}Loss")() for name in ("ORPO", "CPO", "SimPO")}
    grpo = module.LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, loss_type="dapo")
    return dict(
        dpo=lambda: dpo(i.weight, i.x, i.target, ref_input=i.reference, ref_weight=i.reference_weight),
        grpo=lambda: grpo(i.x, i.weight, i.target, i.mask, i.advantages),
        **{name.lower(): lambda loss=loss: loss(i.weight, i.x, i.target) for name, loss in pairs.items()})  # fmt: skip


def step(call, inputs: Inputs) -> tuple:
    """The loss, and the gradients of x and weight."""
    loss = call()[0]
    return loss.detach(), *torch.autograd.grad(loss, (inputs.x, inputs.weight))


def compare(name: str, calls: dict, inputs: Inputs, args) -> None:
    first, clock = None, CLOCKS[args.device]()
    for provider, call in calls.items():
        step(call, inputs)  # compiles, and takes memory that is kept
        grown, results = clock.peak(lambda call=call: step(call, inputs))
        gib, results = grown / 2**30, [t.float() for t in results]
        apart = [f"{(r - f).norm() / f.norm():.1e}" for r, f in zip(results, first or results)]
        first = first or results
        print(f"{name} {provider}: peak {gib:.2f} GiB; loss, dx, dweight apart {', '.join(apart)}", flush=True)
    times = {provider: [] for provider in calls}
    for _ in range(args.rounds):
        for provider, call in calls.items():
            times[provider].append(clock.milliseconds(lambda: None, lambda call=call: step(call, inputs), True))
    print("; ".join(f"{name} {provider}: {sorted(of)[len(of) // 2]:.1f} ms" for provider, of in times.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Chunked losses of Tigon beside Liger-Kernel's.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--losses", default="dpo,orpo,grpo", help="of dpo, orpo, cpo, simpo, grpo")
    parser.add_argument("--sizes", default="8,1024,4096,128256", help="sequences, tokens of each, elements, classes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=Path(__file__).parents[2] / "build", help="folder of the package python/tigon")
    args = parser.parse_args()
    sys.path.insert(0, str(args.build / "python"))
    torch.set_default_device(args.device)
    torch.manual_seed(1)
    inputs, found = Inputs(*map(int, args.sizes.split(","))), {}
    for provider, module in PROVIDERS.items():
        try:
            found[provider] = losses(importlib.import_module(module), inputs)
        except ImportError as error:
            print(f"{provider} is left out: {error}")
    for name in args.losses.split(","):
        compare(name, {provider: calls[name] for provider, calls in found.items()}, inputs, args)


main()
