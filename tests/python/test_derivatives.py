"""Gradients of gradients and derivatives in forward mode: right for products, for every other operator zero where that is true and an
error that names it where PyTorch would otherwise take it for constant. In tigon.torch, in tigon.liger. (In patched models: tests/liger.)"""
import pytest
import torch
from torch.autograd import forward_ad

import tigon.torch
from liger_calls import FUNCTIONS, LIGER, normal
from problems import problems
from tigon.torch._table import PRODUCTS

PROBLEMS = problems()
# Their gradient by an input does not depend on inputs.
LINEAR = {"embedding", "sum_rows", "rope", "llama4_rope", "qwen2vl_mrope", "kl_div", "moe_gather"}
BENT = sorted(set(PROBLEMS) - set(PRODUCTS))


def call(name, tensors):
    results = getattr(tigon.torch, name)(**tensors, **PROBLEMS[name].options)
    return results if isinstance(results, tuple) else (results,)


def total(results, bent):
    return sum((r * r if bent else r).sum() for r in results if r is not None and r.requires_grad)


def second(function, leaves, bent, inside=False):
    """The gradients of the sum of squares of function's gradients, taken by leaves, or by what is computed of them."""
    given = {n: 1 * t for n, t in leaves.items()}
    by = list((given if inside else leaves).values())
    first = torch.autograd.grad(total(function(given), bent), by, create_graph=True)
    return torch.autograd.grad(sum((g * g).sum() for g in first), by, allow_unused=True)


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.parametrize("name", BENT)
def test_an_operator_is_named(name, bent):
    tensors = PROBLEMS[name].copy()
    leaves = {n: t for n, t in tensors.items() if t.requires_grad}
    if name in LINEAR and not bent:
        with pytest.raises(RuntimeError, match="does not require grad"):
            second(lambda t: call(name, {**tensors, **t}), leaves, bent)
        return
    for inside in (False, True):
        with pytest.raises(NotImplementedError, match=f"^{name}: there is no gradient of its gradient"):
            second(lambda t: call(name, {**tensors, **t}), leaves, bent, inside)


def second_by_func(name, leaves, constant):
    def first(t):
        gradients = torch.func.grad(lambda u: sum(r.square().sum() for r in call(name, {**constant, **u})))(t)
        return sum((g * g).sum() for g in gradients.values())
    return torch.func.grad(first)(leaves)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBLEMS)
def test_torch_func(name):
    """Gradients of gradients and jvp under the transforms, and dual numbers without them."""
    tensors = PROBLEMS[name].copy()
    constant = {n: t.detach() for n, t in tensors.items()}
    leaves = {n: constant[n] for n, t in tensors.items() if t.requires_grad}
    if name not in PRODUCTS:
        with pytest.raises(NotImplementedError, match=f"^{name}: there is no gradient of its gradient"):
            second_by_func(name, leaves, constant)
    words = "_forward|".join([name] + [""] * (name not in PRODUCTS)) + ": there is no derivative in forward mode"
    with pytest.raises(NotImplementedError, match=words):
        torch.func.jvp(lambda t: call(name, {**constant, **t}), (leaves,), (leaves,))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=words):
        call(name, {**constant, **{n: forward_ad.make_dual(t, t) for n, t in leaves.items()}})
    with forward_ad.dual_level(), pytest.raises(NotImplementedError):
        call(name, {**tensors, **{n: forward_ad.make_dual(tensors[n], t) for n, t in leaves.items()}})


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_second_gradients(name):
    problem = PROBLEMS[name]
    tensors = {n: t.detach().double().requires_grad_() for n, t in problem.tensors.items()}
    found = second(lambda t: call(name, t), tensors, True)
    expected = second(lambda t: (problem.reference(**t, **problem.options),), tensors, True)
    constant = {n: t.detach() for n, t in tensors.items()}
    for f, g, e in zip(found, second_by_func(name, constant, constant).values(), expected):
        torch.testing.assert_close(f, e)
        torch.testing.assert_close(g, e)


def test_an_operator_of_torch_ops_itself():
    x, dy = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
    with pytest.raises(NotImplementedError, match="^softmax: there is no gradient of its gradient"):
        torch.ops.tigon.softmax_backward(dy, x.softmax(-1)).sum().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("name, function", {
    "softmax_forward": torch.ops.tigon.softmax_forward,
    "softmax_backward": lambda t: torch.ops.tigon.softmax_backward(t, torch.full((4, 8), 1 / 8)),
    "rms_norm_forward": lambda t: torch.ops.tigon.rms_norm_forward(torch.ones(3, 8), t[0], eps=1e-6)[0],
    "gemm": lambda t: torch.ops.tigon.gemm(torch.ones(3, 8), t, trans_b=True),
}.items())
def test_an_operator_of_torch_ops_loses_no_tangent(name, function, leaf):
    x = torch.randn(4, 8, requires_grad=leaf)
    words = f"^{name}: there is no derivative in forward mode"
    for transformed in (lambda: torch.func.jvp(function, (x,), (torch.ones_like(x),)), lambda: torch.func.jacfwd(function)(x),
                        lambda: torch.func.linearize(function, x)):
        with pytest.raises(NotImplementedError, match=words):
            transformed()
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=words):
        function(forward_ad.make_dual(x, torch.ones_like(x)))
    with forward_ad.dual_level():  # nothing has a tangent
        torch.testing.assert_close(function(x), function(x.detach()))


@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_alone_go_through_create_graph():
    """Those of a loss that is not differentiated again are as they were, and may be changed in place."""
    x, weight, target = torch.randn(6, 16, requires_grad=True), torch.randn(5, 16, requires_grad=True), torch.arange(6) % 5
    expected = torch.autograd.grad(tigon.torch.fused_linear_cross_entropy(x, weight, target), (x, weight))
    tigon.torch.fused_linear_cross_entropy(x, weight, target).backward(create_graph=True)
    torch.nn.utils.clip_grad_norm_([x, weight], 1e9)
    for t, e in zip((x, weight), expected):
        torch.testing.assert_close(t.grad, e)
        t.grad = None


def test_every_function_of_liger_has_a_call():
    assert set(LIGER) == set(FUNCTIONS)


@pytest.mark.parametrize("name", LIGER)
def test_liger(name):
    def run(t):
        results = FUNCTIONS[name].apply(*LIGER[name](t["x"]))
        return results if isinstance(results, tuple) else (results,)

    words = rf"^{FUNCTIONS[name].__module__.rpartition('.')[2]} \({FUNCTIONS[name].__name__}\): there is no "
    for bent in (False, True):
        for inside in (False, True):
            with pytest.raises(NotImplementedError, match=words + "gradient of its gradient"):
                second(run, {"x": normal(6, 8)}, bent, inside)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=words + "derivative in forward mode"):
        run({"x": forward_ad.make_dual(torch.randn(6, 8), torch.ones(6, 8))})
