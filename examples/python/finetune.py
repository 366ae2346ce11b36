"""Trains a small Llama of Hugging Face's on the text of this repository, with Tigon's operators and without, and prints both.

    python examples/python/finetune.py [--steps 40] [--model PATH]       a model of one's own, in place of a small new one
    torchrun --nproc-per-node 2 examples/python/finetune.py --fsdp       its parameters spread over two processes
"""
import argparse
import time
from pathlib import Path
from typing import Any, Dict

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, LlamaConfig

import tigon.transformers

BATCH, LENGTH = 4, 128
ROOT = Path(__file__).resolve().parents[2]
SMALL: Dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": LENGTH,
}


def batches(steps, rank):
    """Pieces of the documents, a byte a token; each process reads its own."""
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(1 + rank)
    for _ in range(steps):
        starts = torch.randint(len(tokens) - LENGTH, (BATCH,), generator=generator)
        yield torch.stack([tokens[s : s + LENGTH] for s in starts])


def make(path):
    torch.manual_seed(0)
    if path:
        return AutoModelForCausalLM.from_pretrained(path)
    return AutoModelForCausalLM.from_config(LlamaConfig(**SMALL))


def spread(model):
    """Each layer's parameters, and then the rest, are shared out over the processes and gathered where they are used."""
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)


def train(model, steps, rank):
    """The losses of the steps, and seconds a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses, start = [], time.perf_counter()
    for ids in batches(steps, rank):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, (time.perf_counter() - start) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--model", help="a folder that save_pretrained() wrote")
    parser.add_argument("--fsdp", action="store_true", help="in each of several processes that torchrun starts")
    options = parser.parse_args()
    if options.fsdp:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if options.fsdp else 0
    found = {}
    for name in ("transformers", "tigon"):
        model = make(options.model)
        if name == "tigon":
            tigon.transformers.apply_to(model)
        if options.fsdp:
            spread(model)
        found[name] = train(model, options.steps, rank)
    if rank == 0:
        for step in range(0, options.steps, max(1, options.steps // 8)):
            print(f"step {step:4}   " + "   ".join(f"{name} {losses[step]:.5f}" for name, (losses, _) in found.items()))
        print("seconds a step: " + ", ".join(f"{name} {seconds:.3f}" for name, (_, seconds) in found.items()))
    if options.fsdp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
