"""Trains the last layer of a model, whose vocabulary several processes share, and compares it with the whole layer in PyTorch.

    torchrun --nproc-per-node 2 examples/python/vocab_parallel.py [--vocab 4096] [--hidden 256] [--steps 20]

Each process has vocab / processes rows of the head. All see the same activations and tokens, here random ones with something to learn.
"""
import argparse

import torch
import torch.distributed as dist
from torch.nn import functional as F

import tigon.torch as tt

ROWS = 512


def batches(vocab, hidden, steps):
    """Activations that tell their token, through a head that nobody has, but for noise."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(vocab, hidden, generator=generator)
    for _ in range(steps):
        target = torch.randint(vocab, (ROWS,), generator=generator)
        yield tokens[target] + 0.1 * torch.randn(ROWS, hidden, generator=generator), target


def train(head, loss_of, options):
    """The losses of the steps."""
    optimizer = torch.optim.AdamW([head], lr=1e-2)
    losses = []
    for x, target in batches(options.vocab, options.hidden, options.steps):
        loss = loss_of(x, head, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if options.vocab % world:
        parser.error(f"--vocab is {options.vocab}, expected a multiple of the {world} processes")
    whole = torch.randn(options.vocab, options.hidden, generator=torch.Generator().manual_seed(0)) * options.hidden**-0.5
    mine = whole.chunk(world)[rank].clone().requires_grad_()
    losses = train(mine, tt.vocab_parallel_fused_linear_cross_entropy, options)
    if rank == 0:
        alone = train(whole.requires_grad_(), lambda x, head, target: F.cross_entropy(x @ head.T, target), options)
        for step in range(0, options.steps, max(1, options.steps // 5)):
            print(f"step {step:4}   {world} slices {losses[step]:.5f}   whole {alone[step]:.5f}")
        apart = max(abs(a - b) for a, b in zip(losses, alone))
        print(f"largest difference of losses: {apart:.1e}; of the first slice's rows: {(mine - whole.chunk(world)[0]).abs().max().item():.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
