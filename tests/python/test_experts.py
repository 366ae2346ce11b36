"""Mixtures of experts: what every family's tests do not call."""
import pytest
import torch
from torch.nn import functional as F

import tigon.torch as tt

from problems import fused_moe


def inputs(tokens, hidden, inner, experts, top_k, seed=0):
    torch.manual_seed(seed)
    x, weights = torch.randn(tokens, hidden), torch.randn(tokens, top_k).softmax(-1)
    gate_up, down = torch.randn(experts, 2 * inner, hidden) * hidden ** -0.5, torch.randn(experts, hidden, inner) * inner ** -0.5
    index = torch.stack([torch.randperm(experts)[:top_k] for _ in range(tokens)])
    return [t.requires_grad_() for t in (x, gate_up, down, weights)], index


def gradients(y, tensors):
    torch.manual_seed(1)
    return torch.autograd.grad(y, tensors, torch.randn_like(y))


def test_recomputed_activations_give_the_same_gradients():
    (x, gate_up, down, weights), index = inputs(40, 24, 20, 6, 3)
    tensors = (x, gate_up, down, weights)
    found = [tt.fused_moe(x, gate_up, down, index, weights, recompute=again) for again in (False, True)]
    assert torch.equal(*found)
    for a, b in zip(*(gradients(y, tensors) for y in found)):
        torch.testing.assert_close(a, b)


def test_tokens_of_several_dimensions():
    (x, gate_up, down, weights), index = inputs(12, 16, 8, 4, 2)
    flat = tt.fused_moe(x, gate_up, down, index, weights)
    y = tt.fused_moe(x.view(3, 4, 16), gate_up, down, index.view(3, 4, 2), weights.view(3, 4, 2), addend=x.view(3, 4, 16))
    assert y.shape == (3, 4, 16)
    torch.testing.assert_close(y.view(12, 16), flat + x)


def test_an_addend_alone_gets_its_gradient():
    (x, gate_up, down, weights), index = inputs(5, 16, 8, 4, 2)
    addend = torch.randn(5, 16, requires_grad=True)
    y = tt.fused_moe(*(t.detach() for t in (x, gate_up, down)), index, weights.detach(), addend=addend)
    dy = torch.randn_like(y)
    assert torch.equal(*torch.autograd.grad(y, addend, dy), dy)


@pytest.mark.parametrize("options", [{}, {"transposed": True}, {"interleaved": True, "limit": 1.0, "alpha": 1.702, "up_offset": 1.0}])
def test_module(options):
    torch.manual_seed(0)
    layer = tt.FusedMoE(16, 12, 4, bias=True, **options)
    x, index, weights = torch.randn(7, 16), torch.randint(0, 5, (7, 2)), torch.rand(7, 2)
    gate_up, down = (t.mT if options.get("transposed") else t for t in (layer.gate_up, layer.down))
    if not options.get("interleaved"):
        expected = fused_moe(x, gate_up, down, index, weights, layer.gate_up_bias, layer.down_bias, torch.zeros_like(x))
        torch.testing.assert_close(layer(x, index, weights), expected)
        return
    gate, up = (torch.einsum("th,eih->tei", x, gate_up) + layer.gate_up_bias).unflatten(-1, (12, 2)).unbind(-1)
    gate, up = gate.clamp(max=1.0), up.clamp(-1.0, 1.0)
    each = torch.einsum("tei,ehi->teh", gate * torch.sigmoid(1.702 * gate) * (up + 1), down) + layer.down_bias
    chosen = F.one_hot(index, 5)[..., :4].to(weights.dtype) * weights[..., None]
    torch.testing.assert_close(layer(x, index, weights), torch.einsum("tke,teh->th", chosen, each))


def test_one_set_of_bits_for_any_number_of_threads():
    (x, gate_up, down, weights), index = inputs(200, 40, 33, 5, 2)
    tensors, before, results = (x, gate_up, down, weights), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            y = tt.fused_moe(x, gate_up, down, index, weights)
            results.append([y, *gradients(y, tensors)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))
