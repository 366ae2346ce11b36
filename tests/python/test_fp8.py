"""Products of numbers of 8 bits beside PyTorch's own E4M3, and the linear layer made of them."""
import pytest
import torch

import tigon.torch as tt
from tigon import ops

E4M3 = torch.float8_e4m3fn


def blocks(x, square=False):
    """Scales [C/128, R] or [C/128, R/128] and the numbers of 8 bits, by PyTorch."""
    rows, columns = x.shape
    high, wide = 128 if square else 1, 128
    padded = torch.zeros(-(-rows // high) * high, -(-columns // wide) * wide)
    padded[:rows, :columns] = x.float()
    tiles = padded.view(padded.shape[0] // high, high, -1, wide)
    amax = tiles.abs().amax((1, 3))
    scale = torch.where(amax == 0, 1, amax / 448)
    q = (tiles * (1 / scale)[:, None, :, None]).to(E4M3)
    return scale.T, q.view(padded.shape)[:rows, :columns]


def widened(q, scale, square=False):
    """What q and its scales stand for, in f64."""
    across = scale.T.double().repeat_interleave(128, 1)[:, :q.shape[1]]
    return q.double() * (across.repeat_interleave(128, 0)[:q.shape[0]] if square else across)


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_quantisation_has_the_numbers_of_pytorch(dtype, square):
    torch.manual_seed(0)
    x = (torch.randn(200, 300) * torch.logspace(-3, 3, 300)).to(dtype)
    q, scale, qt, scale_t = ops.quantize_block(x, q=True, scale=True, qt=True, scale_t=True, square=square)
    assert q.dtype == qt.dtype == E4M3 and q.shape == (200, 300) and qt.shape == (300, 200)
    for found, of in (((scale, q), x), ((scale_t, qt), x.T)):
        expected = blocks(of, square)
        torch.testing.assert_close(found[0], expected[0].contiguous(), rtol=0, atol=0)
        assert torch.equal(found[1].view(torch.uint8), expected[1].contiguous().view(torch.uint8))


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_product(dtype, square):
    torch.manual_seed(0)
    a, b, addend = torch.randn(70, 300), torch.randn(140, 300), torch.randn(140).to(dtype)
    (qa, sa), (qb, sb) = ops.quantize_block(a, q=True, scale=True), ops.quantize_block(b, q=True, scale=True, square=square)
    c = ops.gemm_block_scaled(qa, sa, qb, sb, addend.expand(70, -1))
    expected = widened(qa, sa) @ widened(qb, sb, square).T + addend.double()
    assert c.dtype == dtype
    torch.testing.assert_close(c.double(), expected, rtol=1e-5 if dtype == torch.float32 else 8e-3, atol=1e-4)
    assert ops.gemm_block_scaled(qa, sa, qb, sb).dtype == torch.bfloat16
    c.copy_(addend.expand(70, -1))
    ops.gemm_block_scaled(qa, sa, qb, sb, c, c=c)  # is added to
    torch.testing.assert_close(c.double(), expected, rtol=1e-5 if dtype == torch.float32 else 8e-3, atol=1e-4)


def through(x, square=False):
    """x as its numbers of 8 bits tell it."""
    scale, q = blocks(x.detach(), square)
    return widened(q, scale, square)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_and_its_gradients(dtype):
    torch.manual_seed(0)
    layer = tt.FP8Linear(200, 140, dtype=dtype)
    x, dy = torch.randn(3, 50, 200, dtype=dtype, requires_grad=True), torch.randn(3, 50, 140, dtype=dtype)
    y = layer(x)
    grads = torch.autograd.grad(y, (x, layer.weight, layer.bias), dy)
    rows, upstream, w = x.detach().view(150, 200), dy.view(150, 140), layer.weight.detach()
    close = {"rtol": 1e-5 if dtype == torch.float32 else 8e-3, "atol": 1e-4 if dtype == torch.float32 else 1e-2}
    torch.testing.assert_close(y.view(150, 140).double(), through(rows) @ through(w, True).T + layer.bias.detach().double(), **close)
    torch.testing.assert_close(grads[0].view(150, 200).double(), through(upstream) @ through(w, True), **close)
    torch.testing.assert_close(grads[1].double(), through(upstream.T) @ through(rows.T).T, **close)
    torch.testing.assert_close(grads[2].double(), upstream.double().sum(0), **close)
    assert all(g.dtype == dtype for g in grads) and y.dtype == dtype


def test_linear_in_what_pytorch_does():
    torch.manual_seed(0)
    layer, x = tt.FP8Linear(128, 256, bias=False), torch.randn(10, 128)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.float().sum().backward()
    assert y.dtype == torch.bfloat16 and layer.weight.grad.dtype == torch.float32
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    z = layer(x)
    assert torch.equal(compiled(x), z)
    with pytest.raises(NotImplementedError, match="fp8_linear: there is no gradient of its gradient"):
        g, = torch.autograd.grad(layer(x.requires_grad_()).square().sum(), x, create_graph=True)
        g.sum().backward()


def test_other_operators_refuse_it():
    q = torch.zeros(4, 128, dtype=E4M3)
    with pytest.raises(ValueError, match="softmax_forward: x is of type f8e4m3, expected f32, bf16 or f16"):
        ops.softmax_forward(q, y=torch.empty(4, 128))
    with pytest.raises(ValueError, match="gemm_block_scaled: scale_a is .* expected"):
        ops.gemm_block_scaled(q, torch.zeros(2, 4), q, torch.zeros(1, 4))


def norm_apart(x, norm_weight, weight, residual):
    if residual is None:
        return tt.fp8_linear(tt.rms_norm(x, norm_weight), weight), x
    normed, s = tt.fused_add_rms_norm(x, residual, norm_weight)
    return tt.fp8_linear(normed, weight), s


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fused", [False, True])
def test_norm_before_a_linear_layer_has_the_bits_of_both(dtype, fused):
    torch.manual_seed(0)
    tensors = [torch.randn(3, 50, 200).to(dtype), 1 + 0.1 * torch.randn(200).to(dtype), torch.randn(140, 200).to(dtype)]
    tensors += [torch.randn(3, 50, 200).to(dtype)] if fused else []
    tensors = [t.requires_grad_() for t in tensors]
    dy, ds = torch.randn(3, 50, 140).to(dtype), torch.randn(3, 50, 200).to(dtype)
    results = []
    for function in (norm_apart, tt.fp8_norm_linear):
        out = function(*tensors, None) if not fused else function(*tensors)
        y, s = (out, None) if isinstance(out, torch.Tensor) else out
        loss = (y * dy).sum() + ((s * ds).sum() if fused else 0)
        results.append([y] + ([s] if fused else []) + list(torch.autograd.grad(loss, tensors)))
    for expected, found in zip(*results):
        assert torch.equal(expected, found) and found.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_feed_forward_part_has_the_bits_of_its_steps(dtype):
    torch.manual_seed(0)
    x, gate_up, down = (torch.randn(*shape).to(dtype).requires_grad_() for shape in ((3, 50, 72), (512, 72), (40, 256)))
    dy = torch.randn(3, 50, 40).to(dtype)
    gate, up = tt.fp8_linear(x, gate_up).chunk(2, -1)
    expected = tt.fp8_linear(tt.swiglu(gate, up), down)
    found = tt.fp8_swiglu(x, gate_up, down)
    assert torch.equal(found, expected)
    for one, other in zip(*(torch.autograd.grad(y, (x, gate_up, down), dy) for y in (expected, found))):
        assert torch.equal(one, other) and one.dtype == dtype
    only, = torch.autograd.grad(tt.fp8_swiglu(x.detach(), gate_up.detach(), down), down, dy)
    assert torch.equal(only, torch.autograd.grad(tt.fp8_swiglu(x, gate_up, down), down, dy)[0])
    with pytest.raises(ValueError, match="gate_up has 200 rows, expected a multiple of 256"):
        tt.fp8_swiglu(x, gate_up[:200], down[:, :100])
    assert torch.equal(torch.compile(tt.fp8_swiglu, backend="aot_eager", fullgraph=True)(x, gate_up, down), found)
