"""Options that change a formula, in PyTorch's words: results and gradients against elementary operations."""
import pytest
import torch

import tigon.ops
import tigon.torch

from test_compile import same


def rotated(x, cos, sin, start, width, pairing, inverse):
    """x [B,S,H,D] and tables [S, width / 2], in float64."""
    part = x[..., start:start + width]
    adjacent_before = pairing == "adjacent" or (pairing == "adjacent_to_halves" and not inverse)
    adjacent_after = pairing == "adjacent" or (pairing == "adjacent_to_halves" and inverse)
    first, second = (part[..., 0::2], part[..., 1::2]) if adjacent_before else part.chunk(2, -1)
    c, s = cos[:, None, :width // 2], sin[:, None, :width // 2] * (-1 if inverse else 1)
    pairs = first * c - second * s, second * c + first * s
    turned = torch.stack(pairs, -1).flatten(-2) if adjacent_after else torch.cat(pairs, -1)
    return torch.cat([x[..., :start], turned, x[..., start + width:]], -1)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("pairing", ["halves", "adjacent", "adjacent_to_halves"])
@pytest.mark.parametrize("start,width,d", [(0, 64, 64), (5, 18, 41), (128, 64, 192)])
def test_rope(pairing, inverse, start, width, d):
    torch.manual_seed(0)
    q, k = torch.randn(2, 7, 3, d, requires_grad=True), torch.randn(2, 7, 1, d, requires_grad=True)
    cos, sin = torch.randn(7, width // 2), torch.randn(7, width // 2)
    found = tigon.torch.rope(q, k, cos, sin, rotary_start=start, rotary_dim=width, pairing=pairing, inverse=inverse)
    weights = [torch.randn_like(y) for y in found]
    gradients = torch.autograd.grad([y for y in found], [q, k], weights)
    for x, y, g, dx in zip((q, k), found, weights, gradients):
        wide = x.detach().double().requires_grad_()
        expected = rotated(wide, cos.double(), sin.double(), start, width, pairing, inverse)
        torch.testing.assert_close(y, expected.float())
        torch.testing.assert_close(dx, torch.autograd.grad(expected, wide, g.double())[0].float())


def gated(gate, up, limit=None, alpha=1.0, up_offset=0.0):
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + up_offset)


FORMS = [dict(), dict(limit=7.0), dict(limit=0.5, alpha=1.702, up_offset=1.0)]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("options", FORMS)
def test_swiglu(options, interleaved):
    torch.manual_seed(0)
    x = torch.randn(9, 2 * 41, requires_grad=True)
    gate, up = (x[:, 0::2], x[:, 1::2]) if interleaved else x.chunk(2, -1)
    given = dict(gate=x, interleaved=True) if interleaved else dict(gate=gate, up=up)
    found, expected = tigon.torch.swiglu(**given, **options), gated(gate, up, **options)
    torch.testing.assert_close(found, expected)
    dy = torch.randn_like(found)
    torch.testing.assert_close(torch.autograd.grad(found, x, dy)[0], torch.autograd.grad(expected, x, dy)[0])


def test_a_value_at_the_limit_has_its_gradient():
    x = torch.tensor([[2.0, 2.0, 2.0], [2.0, -2.0, 2.5]])
    gate, up = x.clone().requires_grad_(), (-x).requires_grad_()
    y = tigon.torch.swiglu(gate, up, limit=2.0)
    expected = torch.autograd.grad(gated(gate, up, limit=2.0).sum(), [gate, up])
    for found, wanted in zip(torch.autograd.grad(y.sum(), [gate, up]), expected):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("exact", [False, True])
def test_geglu_of_one_tensor(exact):
    torch.manual_seed(0)
    x = torch.randn(9, 2 * 41, requires_grad=True)
    found = tigon.torch.geglu(x, interleaved=True, exact=exact)
    expected = torch.nn.functional.gelu(x[:, 0::2], approximate="none" if exact else "tanh") * x[:, 1::2]
    torch.testing.assert_close(found, expected)
    dy = torch.randn_like(found)
    torch.testing.assert_close(torch.autograd.grad(found, x, dy)[0], torch.autograd.grad(expected, x, dy)[0])


def normalised(x, weight, gate=None, scale=None, shift=None, offset=0.0):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    y = y if weight is None else y * (offset + weight)
    if gate is not None:
        y = y * torch.nn.functional.silu(gate)
    if scale is not None:
        y = y * (1 + scale)
    return y if shift is None else y + shift


def compared(function, formula, tensors, **options):
    """Results and gradients of all tensors, which are made leaves."""
    tensors = {n: t.detach().requires_grad_() for n, t in tensors.items() if t is not None}
    found, expected = function(**tensors, **options), formula(**{"weight": None, **tensors}, **options)
    torch.testing.assert_close(found, expected)
    dy = torch.randn_like(found)
    gradients = [torch.autograd.grad(y, list(tensors.values()), dy) for y in (found, expected)]
    for name, *both in zip(tensors, *gradients):
        torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_norm_with_a_gate(weighted, offset):
    torch.manual_seed(0)
    weight = torch.randn(41) if weighted else None
    compared(tigon.torch.rms_norm, normalised, dict(x=torch.randn(3, 7, 41), weight=weight, gate=torch.randn(3, 7, 41)), offset=offset)


@pytest.mark.parametrize("weighted,shifted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("rows", [(1, 1), (3, 1), (3, 7)])
def test_a_norm_with_a_scale_of_groups(rows, weighted, shifted):
    torch.manual_seed(0)
    table = torch.randn(*rows, 2 * 41)  # as layers of modulation make both
    scale, shift = table.chunk(2, -1)
    compared(tigon.torch.rms_norm, normalised,
             dict(x=torch.randn(3, 7, 41), weight=torch.randn(41) if weighted else None, scale=scale, shift=shift if shifted else None))


def test_scale_and_shift_may_have_a_type_of_their_own():
    torch.manual_seed(0)
    x, scale = torch.randn(6, 64, dtype=torch.bfloat16, requires_grad=True), torch.randn(2, 64, requires_grad=True)
    shift = torch.randn(2, 64, requires_grad=True)
    y = tigon.torch.rms_norm(x, torch.ones(64, dtype=torch.bfloat16), scale=scale, shift=shift)
    dx, dscale, dshift = torch.autograd.grad(y.float().sum(), [x, scale, shift])
    assert (y.dtype, dx.dtype, dscale.dtype, dscale.shape) == (torch.bfloat16, torch.bfloat16, torch.float32, scale.shape)
    assert torch.equal(dshift, torch.full_like(shift, 3))
    shapes = tigon.ops.rms_norm_backward(y, x, rstd=torch.ones(6), scale=scale, dscale=True, dshift=True)
    assert [t.dtype for t in shapes] == [torch.bfloat16, torch.float32, torch.float32]


def test_the_module_takes_them():
    x, gate, scale = torch.randn(3, 7, 41).unbind()
    norm = tigon.torch.RMSNorm(41)
    torch.testing.assert_close(norm(x, gate=gate), normalised(x, norm.weight, gate))
    torch.testing.assert_close(norm(x, scale=scale[:1], shift=scale[1:2]), normalised(x, norm.weight, None, scale[:1], scale[1:2]))


def test_norms_with_options_are_traced():
    x, gate = (torch.randn(6, 34, requires_grad=True) for _ in range(2))
    same(lambda x, gate: tigon.torch.rms_norm(2 * x, gate=gate), x, gate)
    scale, shift = (torch.randn(3, 34, requires_grad=True) for _ in range(2))
    same(lambda x, scale, shift: tigon.torch.rms_norm(2 * x, scale=scale, shift=shift), x, scale, shift)


@pytest.mark.parametrize("dynamic", [False, True])
def test_half_a_size_is_traced(dynamic):
    for rows, width in ((6, 34), (9, 52)):
        same(lambda x: tigon.torch.swiglu(2 * x, interleaved=True), torch.randn(rows, width, requires_grad=True), dynamic=dynamic)


@pytest.mark.parametrize("call,words", [
    (lambda x: tigon.torch.swiglu(x, x, interleaved=True), "swiglu_forward: "),
    (lambda x: tigon.torch.swiglu(x), "swiglu_forward: up is NULL, expected a tensor"),
    (lambda x: tigon.torch.swiglu(x[:, 1:], interleaved=True), "swiglu_forward: gate is "),
    (lambda x: tigon.torch.swiglu(x, x, limit=-1.0), "swiglu_forward: limit is -1"),
    (lambda x: tigon.torch.rope(x[None, None], None, x, x, rotary_start=9), "rope_forward: rotary_start is 9, expected 0 to 8"),
    (lambda x: tigon.torch.rms_norm(x, gate=x[:, 1:]), "rms_norm_forward: gate is "),
    (lambda x: tigon.torch.rms_norm(x, gate=x, scale=x), "rms_norm_forward: gate and scale are given, expected one of them"),
    (lambda x: tigon.torch.rms_norm(x, shift=x), "rms_norm_forward: shift is given but scale is NULL"),
    (lambda x: tigon.torch.rms_norm(x, scale=x[:3]), "rms_norm_forward: scale has 3 rows, expected a divisor of x's, 4"),
    (lambda x: tigon.torch.rope(x[None, None], None, x, x, pairing="sideways"), "expected one of halves, adjacent, adjacent_to_halves"),
])
def test_what_is_wrong_is_told(call, words):
    with pytest.raises(ValueError, match=words):
        call(torch.ones(4, 8))


def test_an_output_goes_with_the_optional_input_that_it_may_lie_over():
    gate, up, dy = torch.randn(3, 4, 8).unbind()
    dgate, dup = tigon.ops.swiglu_backward(dy, gate, up)
    assert dgate.shape == dup.shape == gate.shape
    assert tigon.ops.swiglu_backward(dy, torch.randn(4, 16), interleaved=True).shape == (4, 16)
    q, k, table = torch.randn(1, 5, 4, 8), torch.randn(1, 5, 2, 8), torch.randn(5, 4)
    yq, yk = tigon.ops.rope_forward(q, k, table, table)
    assert yq.shape == q.shape and yk.shape == k.shape
