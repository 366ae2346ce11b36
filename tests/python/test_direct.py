"""Calls past PyTorch's dispatcher (tigon.torch._direct): the same results, and whoever looks on at what is computed sees operators."""
import pytest
import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

import tigon.torch
from problems import problems
from tigon.torch._library import direct_calls

PROBLEMS = problems()


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function._schema.name)
        return function(*args, **(kwargs or {}))


def results_and_gradients(name):
    """What the family's problem gives, and its gradients."""
    torch.manual_seed(0)
    problem = PROBLEMS[name]
    tensors = problem.copy()
    results = getattr(tigon.torch, name)(**tensors, **problem.options)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((r.float() ** 2).sum() for r in results if r.requires_grad)
    gradients = torch.autograd.grad(loss, [t for t in tensors.values() if t.requires_grad], allow_unused=True)
    return [*results, *(g for g in gradients if g is not None)]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_bits_are_those_of_the_operators(name):
    found = results_and_gradients(name)
    with Names() as mode:
        expected = results_and_gradients(name)
    assert f"tigon::{name}" in mode.seen or f"tigon::{name}_forward" in mode.seen
    assert len(found) == len(expected) and all(map(torch.equal, found, expected))


def test_a_profiler_sees_operators():
    x, weight = torch.randn(4, 8), torch.ones(8)
    with profile() as found:
        tigon.torch.rms_norm(x, weight)
    assert "tigon::rms_norm_forward" in {e.key for e in found.key_averages()}


def test_autocast():
    a, b = torch.randn(4, 8), torch.randn(6, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = tigon.torch.gemm(a, b, trans_b=True)
        assert torch.equal(found, torch.ops.tigon.gemm(a, b, trans_b=True))
        assert torch.equal(found, direct_calls["gemm"](a, b, trans_b=True))
    assert found.dtype == torch.bfloat16


def test_a_negative_view_is_read_as_such():
    x, weight = torch.randn(4, 8), torch.ones(8)
    torch.testing.assert_close(tigon.torch.rms_norm(x._neg_view(), weight), tigon.torch.rms_norm(-x, weight))
    q = torch.randn(1, 4, 2, 8)
    torch.testing.assert_close(tigon.torch.flash_attention(q._neg_view(), q, q), tigon.torch.flash_attention(-q, q, q))


@pytest.mark.parametrize("options", [{"epsilon": 1e-6}, {"eps": "small"}])
def test_an_option_that_there_is_not(options):
    x, weight = torch.randn(4, 8), torch.ones(8)
    with pytest.raises(RuntimeError):
        torch.ops.tigon.rms_norm_forward(x, weight, **options)
    with pytest.raises((RuntimeError, TypeError)):
        tigon.torch.rms_norm(x, weight, **options)
