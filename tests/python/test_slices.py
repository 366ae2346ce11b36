"""Losses of tigon.liger over slices of a vocabulary, in groups of 1, 2 and 4 processes, beside PyTorch's f64 with all of it."""
import multiprocessing

import pytest
import torch
import torch.distributed as dist
from processes import gloo_group

from tigon.liger.ops import LigerFusedLinearScaledCrossEntropyTPFunction, LigerVocabParallelCEFunction, vocab_parallel_cross_entropy
from tigon.liger.transformers.functional import liger_fused_linear_scaled_cross_entropy_tp

IGNORED = -100
S, B, SLICE, HIDDEN = 5, 3, 31, 16
EPSILON = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-40}

# label_smoothing, its formula and mode
SMOOTHINGS = [(0.0, "pytorch", "global"), *((0.1, f, m) for f in ("pytorch", "megatron") for m in ("global", "partition"))]


def normal(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spread(x):
    return x


def padded(x):
    """A slice of a vocabulary that is filled up has no class that can be."""
    x[..., -SLICE // 2 :] = -torch.inf
    return x


# Logits: how they are made of normal ones.
LOGITS = {"normal": spread, "large": lambda x: 1e4 * x, "offset": lambda x: x + 1e4, "padded": padded, "confident": lambda x: 40 * x}


def targets(classes, ignored=IGNORED):
    target = torch.randint(classes, (S, B), generator=torch.Generator().manual_seed(2))
    target[0, 1] = target[3, 2] = ignored
    return target


def losses(logits, target, mine, smoothing, formula, mode, ignored):
    """The definition, of a process whose classes are `mine`."""
    logp = logits.log_softmax(-1)
    part = logp[..., mine] if mode == "partition" else logp
    k = part.shape[-1]
    a = smoothing * k / (k - 1) if formula == "megatron" else smoothing
    kept = (target != ignored) & (target >= 0) & (target < logits.shape[-1])
    loss = -logp.gather(-1, (target * kept)[..., None])[..., 0]
    if a:
        loss = (1 - a) * loss - a * part.mean(-1)
    return loss.where(kept, 0)


def one_loss(group, kind, dtype, smoothing, ignored=IGNORED):
    n, mine = slice_of(group)
    whole = LOGITS[kind](normal(S, B, n * SLICE)).to(dtype)
    target = targets(n * SLICE, ignored)
    target[1, 0] = n * SLICE + 5  # no class
    x = whole[..., mine].clone().requires_grad_()
    loss = LigerVocabParallelCEFunction.apply(x, target, group, ignored, *smoothing)
    assert loss.dtype == torch.promote_types(dtype, torch.float32) and loss.shape == (S, B)
    dloss = torch.linspace(0.5, 2, S * B, dtype=loss.dtype).view(S, B)
    dx, = torch.autograd.grad(loss, x, dloss, retain_graph=True)
    again, = torch.autograd.grad(loss, x, dloss)
    assert torch.equal(dx, again) and torch.equal(x.detach(), whole[..., mine])
    right = whole.double().requires_grad_()
    expected = losses(right, target, mine, *smoothing, ignored)
    dright, = torch.autograd.grad(expected, right, dloss.double())
    lse = whole.double().logsumexp(-1).abs().max().item() if n > 1 else 1  # of a slice it is an f32: its rounding is in all p
    error = 2.0**-23 * max(8.0, lse)
    what = f"{kind} {dtype} {smoothing} of {n}"
    torch.testing.assert_close(loss.double(), expected, rtol=4 * error if n > 1 else 2e-6, atol=error, msg=lambda m: f"{what}: {m}")
    torch.testing.assert_close(dx.double(), dright[..., mine], rtol=EPSILON[dtype], atol=4 * error, msg=lambda m: f"{what}: {m}")
    if smoothing[2] == "global":
        parts = [torch.empty_like(loss) for _ in range(n)]
        dist.all_gather(parts, loss.detach(), group)
        assert all(torch.equal(loss, other) for other in parts)


def slice_of(group):
    n, rank = group.size(), dist.get_rank(group)
    return n, slice(rank * SLICE, (rank + 1) * SLICE)


def last_layer(group, dtype, temperature, entropy, upstream):
    """upstream: which results have a gradient."""
    n, mine = slice_of(group)
    tokens = S * B
    x, weight, target = normal(tokens, HIDDEN).to(dtype), normal(n * SLICE, HIDDEN, seed=3).to(dtype), targets(n * SLICE).flatten()
    here = x.clone().requires_grad_(), weight[mine].clone().requires_grad_()
    results = liger_fused_linear_scaled_cross_entropy_tp(*here, target, group, temperature, IGNORED, 2, entropy)
    results = results if entropy else (results,)
    whole = x.double().requires_grad_(), weight.double().requires_grad_()
    logp = (whole[0] @ whole[1].T / temperature).log_softmax(-1)
    kept = target != IGNORED
    right = [-logp.gather(-1, (target * kept)[:, None])[:, 0].where(kept, 0), (-logp.exp() * logp).sum(-1).where(kept, 0)]
    d = torch.linspace(-1, 1, tokens)
    got = torch.autograd.grad([results[i] for i in upstream], here, [d] * len(upstream))
    dx, dweight = torch.autograd.grad([right[i] for i in upstream], whole, [d.double()] * len(upstream))
    tolerance = 2e-5 if dtype == torch.float32 else 3e-2
    for g, r in zip((*results, *got), (*right[: 1 + entropy], dx, dweight[mine])):
        torch.testing.assert_close(g.double(), r, rtol=tolerance, atol=tolerance * r.abs().max().item())


def process(rank, world, folder):
    """Groups of all, of pairs whose ranks are not those of the group, and of one. Smoothed gradients are made in several pieces."""
    vocab_parallel_cross_entropy.ROOM = 7 * SLICE
    with gloo_group(rank, world, folder):
        groups = [dist.group.WORLD, *(dist.new_group(g) for g in ([0, 2], [1, 3], *([r] for r in range(world))))]
        for group in (g for g in groups if isinstance(g, dist.ProcessGroup)):
            for smoothing in SMOOTHINGS:
                for dtype in EPSILON:
                    one_loss(group, "normal", dtype, smoothing)
                for kind in ("large", "offset", "confident"):
                    one_loss(group, kind, torch.float32, smoothing)
            one_loss(group, "padded", torch.bfloat16, SMOOTHINGS[0])
            one_loss(group, "normal", torch.float32, (0.2, "megatron", "global"), ignored=2)
            for dtype in EPSILON:
                last_layer(group, dtype, 1.0, False, [0])
                last_layer(group, dtype, 0.7, True, [0, 1])
                last_layer(group, dtype, 1.5, True, [1])


def test_groups(tmp_path):
    multiprocessing.set_forkserver_preload(["torch"])
    torch.multiprocessing.start_processes(process, (4, str(tmp_path)), nprocs=4, start_method="forkserver")


def test_arguments():
    x, target = normal(S, B, SLICE), targets(SLICE)
    with pytest.raises(ValueError, match="3-D"):
        LigerVocabParallelCEFunction.apply(x[0], target[0], None)
    with pytest.raises(ValueError, match="label_smoothing_formula is 'theirs', expected one of pytorch, megatron"):
        LigerVocabParallelCEFunction.apply(x, target, None, IGNORED, 0.1, "theirs", "global")
    with pytest.raises(ValueError, match="a single class"):
        LigerVocabParallelCEFunction.apply(x[..., :1], target * 0, None, IGNORED, 0.1, "megatron", "global")
    weight, tokens = normal(SLICE, HIDDEN), normal(S * B, HIDDEN)
    with pytest.raises(ValueError, match="tiles_per_reduce is 3"):
        LigerFusedLinearScaledCrossEntropyTPFunction.apply(tokens, weight, target.flatten(), None, tiles_per_reduce=3)
    with pytest.raises(RuntimeError, match="not initialised"):
        LigerFusedLinearScaledCrossEntropyTPFunction.apply(tokens, weight, target.flatten(), None)


def test_strided():
    """Logits [batch, seq, vocab] of a model as [seq, batch, vocab]."""
    x, target = normal(B, S, SLICE).transpose(0, 1).requires_grad_(), targets(SLICE)
    LigerVocabParallelCEFunction.apply(x, target, None).sum().backward()
    right = x.detach().requires_grad_()
    torch.nn.functional.cross_entropy(right.flatten(0, 1), target.flatten(), reduction="sum").backward()
    torch.testing.assert_close(x.grad, right.grad)
