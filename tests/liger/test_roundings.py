"""What tests of Liger-Kernel in bf16 compare that left_out.txt leaves out: Tigon and eager PyTorch, here both beside f64;
and PyTorch's own sums beside those that the plug-in puts in their place.

Those tests want Tigon as near to eager's result as a tolerance says, where eager rounds each step to bf16. Here, with tensors of the same
sizes and distributions (but fewer rows, where products in bf16 take minutes), every output and gradient must be at least as near to the
truth as eager's. `pytest -s` prints the errors, and how many elements are further from the truth than the test's tolerance allows.
"""
import pytest
import torch
from torch.nn.functional import gelu, group_norm, layer_norm

from tigon.liger import pytest as plugin
from tigon.liger.ops import (
    LigerFusedAddRMSNormFunction,
    LigerFusedLinearKLDivFunction,
    LigerGELUMulFunction,
    LigerModulatedRMSNormFunction,
    LigerPolyNormFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
)

BF16 = torch.bfloat16
SAME = 1.001  # where both round at the same places the errors are equal but for chance


def geglu(x, gate, up, down, multiply=lambda a, b: gelu(a, approximate="tanh") * b):
    return multiply(x @ gate.T, x @ up.T) @ down.T


def geglu_of_tigon(*tensors):
    return geglu(*tensors, LigerGELUMulFunction.apply)


def poly_norm(x, weight, bias):
    norms = [u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-6) for u in (x**3, x**2, x)]
    return sum(w * norm for w, norm in zip(weight, norms)) + bias


def rope(q, k, cos, sin):
    turned = []
    for x in (q, k):
        a, b = x.chunk(2, dim=-1)
        c, s = (table[:, None, :, : a.shape[-1]] for table in (cos, sin))
        turned.append(torch.cat((a * c - b * s, b * c + a * s), dim=-1))
    return turned


def rms_norm(x, weight):
    """The norm in f32 at least, as Llama has it."""
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide / torch.sqrt((wide**2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def fused_add_rms_norm(x, residual, weight):
    s = x + residual
    return rms_norm(s, weight), s


def modulated_rms_norm(mode, offset):
    """y (1 + scale) + shift behind the norm, which rounds before its weight (llama), behind it (gemma), or after each step (none)."""

    def eager(x, scale, shift, weight=None):
        wide = x if mode == "none" or x.dtype == torch.float64 else x.float()
        y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = y.to(x.dtype) if mode == "llama" else y
        y = y if weight is None else y * (offset + weight.to(y.dtype))
        scale, shift = (t[:, None] if t.dim() == 2 else t for t in (scale, shift))
        return y.to(x.dtype) * (1 + scale) + shift

    def tigon(x, scale, shift, weight=None):
        return LigerModulatedRMSNormFunction.apply(x, weight, scale, shift, 1e-6, offset, mode, False)

    return eager, tigon


def divergence(x, weight, target):
    """Of the last layer's softmax from probabilities, the mean over rows, in f32 at least behind the product."""
    logits = x @ weight.T
    wide = logits if x.dtype == torch.float64 else logits.float()
    target = target.to(wide.dtype)
    return (target * (target.clamp_min(1e-10).log() - wide.log_softmax(-1))).sum() / x.shape[0]


def as_llama(function):
    return lambda *tensors: function.apply(*tensors, 1e-6, 0.0, "llama", False)


def normal(*shapes, dtype=BF16):
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def mlp(rows, hidden, intermediate):
    return normal((rows, hidden), (intermediate, hidden), (intermediate, hidden), (hidden, intermediate))


# name: eager, Tigon, tensors, how many of them have gradients, the test's absolute and relative tolerance
CASES = {
    "geglu, 128 x 2048, 4096": (geglu, geglu_of_tigon, lambda: mlp(128, 2048, 4096), 4, (1e-2, 1e-2)),
    "geglu, 369 x 341, 4231": (geglu, geglu_of_tigon, lambda: mlp(369, 341, 4231), 4, (1e-2, 1e-2)),
    "poly_norm, 256 x 512": (
        poly_norm, LigerPolyNormFunction.apply,
        lambda: normal((256, 512)) + [torch.full((3,), 1 / 3, dtype=BF16), torch.ones((), dtype=BF16)], 3, (0.6, 0.05),
    ),
    "rope, 2 x 4 x 17 x 64": (rope, LigerRopeFunction.apply, lambda: normal(*[(2, 4, 17, 64)] * 2, *[(2, 17, 64)] * 2), 2, (1e-2, 1e-2)),
    "fused_linear_kl_div, 8 x 2048, 3200": (
        divergence, LigerFusedLinearKLDivFunction.apply,
        lambda: [torch.randn(8, 2048).to(BF16), torch.rand(3200, 2048).to(BF16), torch.rand(8, 3200).softmax(-1).to(BF16)], 2, (5e-3, 5e-2),
    ),
    "rms_norm, 16 x 256": (rms_norm, as_llama(LigerRMSNormFunction), lambda: normal((16, 256), (256,)), 2, (1e-2, 1e-2)),
    "rms_norm, 32 x 4096": (rms_norm, as_llama(LigerRMSNormFunction), lambda: normal((32, 4096), (4096,)), 2, (1e-2, 1e-2)),
    "fused_add_rms_norm, 32 x 4096": (
        fused_add_rms_norm, as_llama(LigerFusedAddRMSNormFunction), lambda: normal((32, 4096), (32, 4096), (4096,)), 3, (1e-2, 1e-2),
    ),
}  # fmt: skip


# Three ways to share a scale and a shift: all rows, those of a batch, none.
for shape in ((2, 128, 512), (5, 123, 123)):
    for mode, offset, absolute in (("llama", 0.0, 0.1), ("gemma", 1.0, 0.1), ("none", 0.0, 0.2)):
        for shared, of_scale in (("all", shape[2:]), ("batch", shape[::2]), ("row", shape)):
            for weight in ((), (shape[2],)):
                name = f"modulated_rms_norm, {'x'.join(map(str, shape))}, {mode}, a scale for {shared}" + ("" if weight else ", no weight")

                def make(shape=shape, of_scale=of_scale, weight=weight):
                    return [*normal(shape), *(0.1 * t for t in normal(of_scale, of_scale)), *(torch.ones(n, dtype=BF16) for n in weight)]

                CASES[name] = (*modulated_rms_norm(mode, offset), make, 3 + len(weight), (absolute, 2e-2))


def results(function, tensors, gradients, dtype):
    """{name: outputs and gradients, in f64}, computed in `dtype` from the same numbers."""
    leaves = [t.to(dtype, copy=True).requires_grad_(i < gradients) for i, t in enumerate(tensors)]
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    torch.manual_seed(1)
    torch.autograd.backward(outputs, [y.to(dtype) for y in normal(*(y.shape for y in outputs))])
    named = {f"output {i}": y.detach() for i, y in enumerate(outputs)}
    named.update({f"gradient {i}": t.grad for i, t in enumerate(leaves[:gradients])})
    return {name: t.double() for name, t in named.items()}


def beside(truth, t, absolute, relative):
    """The root mean square of the errors, and how many of them exceed a tolerance."""
    error = (t - truth).abs()
    return error.square().mean().sqrt().item(), int((error > absolute + relative * truth.abs()).sum())


@pytest.mark.parametrize("name", CASES)
def test_at_least_as_near_to_the_truth_as_eager(name):
    eager, tigon, make, gradients, tolerance = CASES[name]
    torch.manual_seed(0)
    tensors = make()
    truth = results(eager, tensors, gradients, torch.float64)
    theirs, ours = (results(function, tensors, gradients, BF16) for function in (eager, tigon))
    for what, t in truth.items():
        (error, beyond), (our_error, our_beyond) = (beside(t, x[what], *tolerance) for x in (theirs, ours))
        print(f"{name}, {what}: error of eager {error:.4g}, of Tigon {our_error:.4g}; of {t.numel()} beyond tolerance: {beyond}, {our_beyond}")
        assert our_error <= SAME * error, f"{name}: {what} is {our_error} off, expected at most eager's {error}"


# ---- what the plug-in has PyTorch sum more exactly ----


def norm_gradients(function, normalized):
    """Those of weight and bias: sums over all rows."""

    def run(exact, dtype, x, weight, bias, dy):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, weight, bias)]
        norm = plugin._widened(function) if exact else function
        norm(leaves[0], normalized, *leaves[1:], 1e-6).backward(dy.to(dtype))
        return torch.cat([t.grad for t in leaves[1:]])

    return run


def smoothed():
    """Log-probabilities, and the upstream gradient of cross entropy with label smoothing."""
    y, target = torch.randn(64, 32000).log_softmax(1), torch.randint(0, 32000, (64, 1))
    return [torch.full_like(y, -0.2 / 32000).scatter_add_(1, target, torch.full((64, 1), -0.8)), y]


def log_softmax(exact, dtype, x):
    return plugin._log_softmax(x, 1, False) if exact else torch._log_softmax(x.to(dtype), 1, False)


def log_softmax_gradient(exact, dtype, dy, y):
    function = plugin._log_softmax_backward if exact else torch._log_softmax_backward_data
    return function(dy.to(dtype), y.to(dtype), 1, dtype)


def nll_loss(exact, dtype, y, target):
    function = plugin._nll_loss if exact else torch.ops.aten.nll_loss_forward
    return function(y.to(dtype), target, None, 1, -100)[0]


# name: what computes (PyTorch's or the plug-in's, in a type, from tensors), tensors, their type, the tolerance of Liger's tests
SUMS = {
    "layer_norm, 1536 x 128, bf16": (
        norm_gradients(layer_norm, (128,)), lambda: normal((1536, 128), (128,), (128,), (1536, 128)), BF16, (2e-2, 2e-2),
    ),
    "group_norm, 16 x 48 x 8192, 12 groups, f32": (
        norm_gradients(group_norm, 12), lambda: normal((16, 48, 8192), (48,), (48,), (16, 48, 8192), dtype=torch.float32),
        torch.float32, (1e-4, 1e-4),
    ),
    "log_softmax, 64 x 32000, bf16": (log_softmax, lambda: normal((64, 32000)), BF16, (1e-2, 1e-2)),
    "gradient of log_softmax, 64 x 32000, f32": (log_softmax_gradient, smoothed, torch.float32, (1e-8, 1e-6)),
    "nll_loss, 16384 x 100, f16": (
        nll_loss, lambda: [torch.randn(16384, 100).log_softmax(1).half(), torch.randint(0, 100, (16384,))], torch.float16, (1e-3, 1e-3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_the_plug_in_is_nearer_to_the_truth_than_pytorch(name):
    run, make, dtype, tolerance = SUMS[name]
    torch.manual_seed(0)
    tensors = make()
    truth = run(False, torch.float64, *tensors).double()
    (theirs, beyond), (ours, our_beyond) = (beside(truth, run(exact, dtype, *tensors).double(), *tolerance) for exact in (False, True))
    print(f"{name}: error of PyTorch's {theirs:.4g}, of the plug-in's {ours:.4g}; of {truth.numel()} beyond tolerance: {beyond}, {our_beyond}")
    assert ours < theirs, f"{name} is {ours} off, expected less than PyTorch's {theirs}"
