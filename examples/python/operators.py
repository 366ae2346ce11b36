"""A block of a Llama made of Tigon's operators, trained for some steps, beside the same block in PyTorch's words.

    python examples/python/operators.py [cpu|cuda]

Prints the loss of both at each step, which agree, and what each step takes.
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import tigon
import tigon.torch as tt

WIDTH, HEADS, HIDDEN, CLASSES, BATCH, LENGTH, STEPS = 256, 4, 704, 1000, 4, 128, 10


def rotary_tables(length, width, device):
    angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, width, 2) / width)).to(device)
    return angles.cos(), angles.sin()


class Block(nn.Module):
    """Attention and a gated layer, each behind a norm, and the loss of the next token."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(CLASSES, WIDTH) * 0.02)
        self.norm1, self.norm2, self.norm3 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up, self.down = nn.Linear(WIDTH, 2 * HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)

    def heads(self, x):
        return (t.unflatten(-1, (HEADS, -1)) for t in self.qkv(x).chunk(3, -1))


class WithTigon(Block):
    def forward(self, tokens, target, cos, sin):
        x = tt.embedding(self.embedding, tokens)
        q, k, v = self.heads(tt.rms_norm(x, self.norm1))
        q, k = tt.rope(q, k, cos, sin)
        y = self.out(tt.flash_attention(q, k, v, causal=True).flatten(-2))
        h, x = tt.fused_add_rms_norm(y, x, self.norm2)
        x = x + self.down(tt.swiglu(*self.gate_up(h).chunk(2, -1)))
        # Logits, their softmax and gradients, a piece of the rows at a time.
        return tt.fused_linear_cross_entropy(tt.rms_norm(x, self.norm3).flatten(0, 1), self.embedding, target.flatten())


class WithTorch(Block):
    def forward(self, tokens, target, cos, sin):
        def turn(x):
            a, b = x.chunk(2, -1)
            c, s = cos[:, None], sin[:, None]
            return torch.cat((a * c - b * s, b * c + a * s), -1)
        x = F.embedding(tokens, self.embedding)
        q, k, v = self.heads(F.rms_norm(x, (WIDTH,), self.norm1, 1e-6))
        q, k, v = (t.transpose(1, 2) for t in (turn(q), turn(k), v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        gate, up = self.gate_up(F.rms_norm(x, (WIDTH,), self.norm2, 1e-6)).chunk(2, -1)
        x = x + self.down(F.silu(gate) * up)
        return F.cross_entropy((F.rms_norm(x, (WIDTH,), self.norm3, 1e-6) @ self.embedding.T).flatten(0, 1), target.flatten())


def train(kind, device):
    torch.manual_seed(0)
    model = kind().to(device)
    # (One optimizer for both, so that only the operators differ; tt.AdamW is Tigon's.)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tables = rotary_tables(LENGTH, WIDTH // HEADS, device)
    data = torch.randint(0, CLASSES, (BATCH, LENGTH + 1), device=device)
    losses, start = [], 0.0
    for step in range(STEPS):
        if step == 1:  # the first is warming up
            start = time.perf_counter()
        loss = model(data[:, :-1], data[:, 1:], *tables)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, (time.perf_counter() - start) / (STEPS - 1)


def main(device="cpu"):
    (ours, our_time), (theirs, their_time) = train(WithTigon, device), train(WithTorch, device)
    for step, pair in enumerate(zip(ours, theirs)):
        print(f"step {step}: loss {pair[0]:.5f} with Tigon, {pair[1]:.5f} with PyTorch")
        assert abs(pair[0] - pair[1]) < 1e-3 * pair[1]
    print(f"tigon {tigon.__version__}: {our_time * 1e3:.1f} ms a step; PyTorch {torch.__version__}: {their_time * 1e3:.1f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
