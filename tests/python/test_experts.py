"""Mixtures of experts: what every family's tests do not call."""
import pytest
import torch
from torch.nn import functional as F

import tigon.torch as tt
from tigon import ops

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


def route_problem(tokens=41, experts=8, top_k=3, seed=0):
    torch.manual_seed(seed)
    return torch.randint(experts + 1, (tokens, top_k)), experts


@pytest.mark.parametrize("capacity", [None, 4])
def test_route(capacity):
    index, experts = route_problem()
    slot, offset, place = tt.moe_route(index, experts=experts, capacity=capacity, place=True)
    flat, found = index.flatten(), []
    for e in range(experts):
        slots = (flat == e).nonzero()[:capacity, 0]
        torch.testing.assert_close(slot[offset[e]:offset[e + 1]], slots)
        found.append(slots)
    found = torch.cat(found)
    assert offset[-1] == len(found) and (slot[len(found):] == -1).all()
    expected = torch.full_like(flat, -1)
    expected[found] = torch.arange(len(found))
    torch.testing.assert_close(place.flatten(), expected)


@pytest.mark.parametrize("top_k", [1, 2])
def test_products_of_gathered_rows_beside_slots_without_expert(top_k):
    """moe_route's slots are a gather, which ends in -1."""
    index, x, w = torch.randint(4, (9, top_k)), torch.randn(9, 16), torch.randn(3, 8, 16)
    slot, offset = tt.moe_route(index, experts=3)
    assert slot[-1] == -1
    y = torch.full((len(slot), 8), float("nan"))
    ops.grouped_gemm_forward(a=x, b=w, offset=offset, gather=slot, c=y, top_k=top_k)
    for e in range(3):
        rows = slice(int(offset[e]), int(offset[e + 1]))
        torch.testing.assert_close(y[rows], x[slot[rows] // top_k] @ w[e].T)
    assert (y[int(offset[-1]):] == 0).all()


def test_a_layer_of_parts():
    """gather, products by experts and scatter are fused_moe."""
    (x, gate_up, down, weights), index = inputs(13, 16, 8, 4, 2)
    leaves = [x, gate_up, down, weights]
    slot, offset, place = tt.moe_route(index, experts=4, place=True)
    rows = tt.moe_gather(x, slot, place, top_k=2)
    hidden = tt.grouped_gemm(rows, gate_up, offset)
    out = tt.grouped_gemm(tt.swiglu(*hidden.chunk(2, -1)), down, offset)
    y, expected = tt.moe_scatter(out, place, weights, slot), tt.fused_moe(x, gate_up, down, index, weights)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-5)
    dy = torch.randn_like(y)
    for f, e in zip(torch.autograd.grad(y, leaves, dy), torch.autograd.grad(expected, leaves, dy)):
        torch.testing.assert_close(f, e, atol=1e-4, rtol=1e-4)


def test_balance_over_layers_is_made_of_counts_and_probs():
    """As transformers' load_balancing_loss_func has it, with its mask."""
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    torch.manual_seed(0)
    layers = [torch.randn(2 * 6, 8, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    parts = [tt.moe_router(logits, mask=mask, top_k=2, renormalise=True, counts=True, probs=True)[2:] for logits in layers]
    counts, probs = (sum(each) for each in zip(*parts))
    n = counts.sum() / 2
    loss = 8 * (counts / n * probs / n).sum()
    expected = modeling.load_balancing_loss_func(tuple(layers), 8, 2, mask)
    torch.testing.assert_close(loss, expected)
    for f, e in zip(torch.autograd.grad(loss, layers), torch.autograd.grad(expected, layers)):
        torch.testing.assert_close(f, e)


@pytest.mark.parametrize("options", [{"balance": True}, {"z_loss": True}, {"balance": True, "counts": True, "z_loss": True}])
def test_losses_of_a_router(options):
    logits = torch.randn(7, 8, requires_grad=True)
    results = tt.moe_router(logits, top_k=2, renormalise=True, **options)
    assert len(results) == 2 + len(options)
    p, index = logits.softmax(-1), logits.topk(2).indices
    torch.testing.assert_close(results[0], index)
    counts = torch.bincount(index.flatten(), minlength=8)
    expected = {"balance": 8 * (counts / 7 * p.mean(0)).sum(), "z_loss": logits.logsumexp(-1).square().mean()}
    losses = dict(zip(("balance", "z_loss"), results[-2:])) if len(options) == 3 else {next(iter(options)): results[-1]}
    for name, loss in losses.items():
        torch.testing.assert_close(loss.squeeze(), expected[name])
        torch.testing.assert_close(*(torch.autograd.grad(v, logits, retain_graph=True)[0] for v in (loss, expected[name])))


def test_routing_in_a_graph_and_under_checkpointing():
    def layer(logits, x):
        index, weights = tt.moe_router(logits, top_k=2, renormalise=True)
        slot, _, place = tt.moe_route(index, experts=8, place=True)
        return tt.moe_scatter(tt.moe_gather(x, slot, place, top_k=2), place, weights, slot)
    logits, x = torch.randn(9, 8, requires_grad=True), torch.randn(9, 16, requires_grad=True)
    ways = [layer, torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager"),
            lambda *given: torch.utils.checkpoint.checkpoint(layer, *given, use_reentrant=False)]
    expected, *others = [torch.autograd.grad(way(logits, x).square().sum(), [logits, x]) for way in ways]
    for found in others:
        for f, e in zip(found, expected):
            torch.testing.assert_close(f, e)
