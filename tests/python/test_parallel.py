"""tigon.torch.vocab_parallel_fused_linear_cross_entropy: processes with slices of a head, beside PyTorch with all of it."""
import pytest
import torch
import torch.distributed as dist
from processes import gloo_group

import tigon.torch as tt

ROWS, HIDDEN, VOCAB = 23, 16, 91
CASES = (
    {},
    {"reduction": "sum", "label_smoothing": 0.1},
    {"reduction": "none", "chunk_bytes": 1000},
    {"lse_square_scale": 1e-2, "softcap": 5.0},
    {"ignore_index": 3},
    {"softcap": 5.0, "logits": True},
)


def tensors(dtype):
    generator = torch.Generator().manual_seed(3)
    x, weight, bias = (torch.randn(size, generator=generator) for size in ((ROWS, HIDDEN), (VOCAB, HIDDEN), (VOCAB,)))
    target = torch.randint(VOCAB, (ROWS,), generator=generator)
    target[5], target[7] = -100, 3
    return x.to(dtype), weight.to(dtype), bias.to(dtype), target


def expected(x, weight, bias, target, reduction="mean", label_smoothing=0.0, lse_square_scale=0.0, softcap=None, ignore_index=-100,
             chunk_bytes=None, logits=False):
    logits = x @ weight.T + bias
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    target = target.masked_fill(target == -100, ignore_index)
    kept = target != ignore_index
    loss = torch.nn.functional.cross_entropy(logits, target, reduction="none", label_smoothing=label_smoothing, ignore_index=ignore_index)
    loss = loss + lse_square_scale * torch.logsumexp(logits, -1).square() * kept
    return loss if reduction == "none" else loss.sum() / (kept.sum() if reduction == "mean" else 1)


def gradients(loss, wrt):
    return torch.autograd.grad((loss * torch.linspace(1, 2, loss.numel()).view(loss.shape).to(loss.dtype)).sum(), wrt)


def process(rank, world, folder):
    """The slices are not equal: the last process has what is left."""
    with gloo_group(rank, world, folder):
        start = rank * (VOCAB // world)
        end = VOCAB if rank == world - 1 else start + VOCAB // world
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.bfloat16, 3e-2)):
            for case in CASES:
                x, weight, bias, target = tensors(dtype)
                target = target.masked_fill(target == -100, case.get("ignore_index", -100))
                mine = [t.clone().requires_grad_() for t in (x, weight[start:end], bias[start:end])]
                loss = tt.vocab_parallel_fused_linear_cross_entropy(mine[0], mine[1], target, mine[2], vocab_start=start, vocab_size=VOCAB,
                                                                   **case)
                got = gradients(loss, mine)
                whole = [t.double().requires_grad_() for t in (x, weight, bias)]
                right = expected(*whole, target, **case)
                dx, dweight, dbias = gradients(right, whole)
                for g, r in zip((loss.detach(), *got), (right.detach(), dx, dweight[start:end], dbias[start:end])):
                    torch.testing.assert_close(g.double(), r, rtol=tolerance, atol=tolerance * r.abs().max().item(), msg=lambda m: f"{case}: {m}")
                losses = [torch.empty_like(loss) for _ in range(world)]
                dist.all_gather(losses, loss.detach())
                assert all(torch.equal(loss, other) for other in losses)
        equal(rank, world)


def equal(rank, world):
    """Equal slices in the order of the ranks need no numbers; leading dimensions, and only what is asked for."""
    x, weight, _, target = tensors(torch.float32)
    weight = weight[: VOCAB // world * world]
    target = (target % len(weight)).view(1, ROWS)
    mine = weight.chunk(world)[rank].clone().requires_grad_()
    loss = tt.vocab_parallel_fused_linear_cross_entropy(x.view(1, ROWS, HIDDEN), mine, target)
    loss.backward()
    whole = weight.clone().requires_grad_()
    right = torch.nn.functional.cross_entropy(x @ whole.T, target[0])
    right.backward()
    torch.testing.assert_close(loss, right, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(mine.grad, whole.grad.chunk(world)[rank], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("world", (1, 2, 3))
def test_processes_with_slices(world, tmp_path):
    torch.multiprocessing.spawn(process, (world, str(tmp_path)), nprocs=world)


def test_arguments():
    x, weight, _, target = tensors(torch.float32)
    with pytest.raises(ValueError, match="reduction is 'average', expected one of mean, sum, none"):
        tt.vocab_parallel_fused_linear_cross_entropy(x, weight, target, reduction="average")
    with pytest.raises(ValueError, match="vocab_start and vocab_size are given together"):
        tt.vocab_parallel_fused_linear_cross_entropy(x, weight, target, vocab_size=91)
    with pytest.raises(ValueError, match=r"vocab_start is 1, expected 0 to 0"):
        tt.vocab_parallel_fused_linear_cross_entropy(x, weight, target.clamp(min=0), vocab_start=1, vocab_size=91)
