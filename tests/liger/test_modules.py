"""The modules and functions of tigon.liger.transformers, without Liger installed, beside PyTorch's: results and gradients."""
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import tigon.liger.transformers as liger
from tigon.liger.ops import (
    LigerFusedLinearScaledCrossEntropyFunction,
    LigerFusedNeighborhoodAttentionFunction,
    LigerMultiTokenAttentionFunction,
)

CONFIG = SimpleNamespace(hidden_size=16, intermediate_size=24, hidden_act="silu", num_experts=3, moe_intermediate_size=24)


def centred_rms_norm(m, x):
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * (1 + m.weight)


def poly_norm(m, x):
    powers = (u / (u.square().mean(-1, keepdim=True) + 1e-6).sqrt() for u in (x**3, x**2, x))
    return sum(w * p for w, p in zip(m.weight, powers)) + m.bias


def mhc(m, x):
    flat = x.flatten(-2)
    mix = flat @ m.phi * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    pre, post, res = (a * part + b for a, part, b in zip((m.alpha_pre, m.alpha_post, m.alpha_res), mix.split((6, 6, 36), -1), m.b.split((6, 6, 36))))
    h = res.unflatten(-1, (6, 6)).softmax(-1) + 1e-6
    for dim in (-2, -1, -2, -1, -2):
        h = h / (h.sum(dim, keepdim=True) + 1e-6)
    f = m.layer((pre.sigmoid()[..., None] * x).sum(-2))
    return h @ x + 2 * post.sigmoid()[..., None] * f[..., None, :]


def gated(activation):
    return lambda m, x: m.down_proj(activation(m.gate_proj(x)) * m.up_proj(x))


def packed(m, x):
    gate, up = m.gate_up_proj(x).chunk(2, -1)
    return m.down_proj(F.silu(gate) * up)


def falcon(m, x):
    return m.down_proj(F.silu(0.5 * m.gate_proj(x)) * m.up_proj(x)) * 2


def gelu(x):
    return F.gelu(x, approximate="tanh")


# a module, what it computes; x is [2,6,16]
MODULES = {
    "rms_norm": (liger.LigerRMSNorm(16), lambda m, x: F.rms_norm(x, (16,), m.weight, 1e-6)),
    "rms_norm_without_weight": (liger.LigerRMSNorm(16, elementwise_affine=False), lambda m, x: F.rms_norm(x, (16,), eps=1e-6)),
    "gemma": (liger.LigerRMSNormForGemma(16), centred_rms_norm),
    "gemma3": (liger.LigerRMSNormForGemma3(dim=16), centred_rms_norm),
    "layer_norm": (liger.LigerLayerNorm(16, bias=True, impl="triton"), lambda m, x: F.layer_norm(x, (16,), m.weight, m.bias, 1e-6)),
    "group_norm": (liger.LigerGroupNorm(6, 3, bias=True), lambda m, x: F.group_norm(x, 3, m.weight, m.bias, 1e-6)),
    "poly_norm": (liger.LigerPolyNorm(), poly_norm),
    "dyt": (liger.LigerDyT(16), lambda m, x: torch.tanh(m.alpha * x) * m.gamma + m.beta),
    "mhc": (liger.LigerMHC(torch.nn.Linear(16, 16), hc=6, c=16, tmax=3, phi_dtype=torch.float32, allow_fp32=True), mhc),
    "softmax": (liger.LigerSoftmax(), lambda m, x: x.softmax(-1)),
    "relu_squared": (liger.LigerReLUSquared(), lambda m, x: F.relu(x).square()),
    "swiglu": (liger.LigerSwiGLUMLP(CONFIG), gated(F.silu)),
    "geglu": (liger.LigerGEGLUMLP(CONFIG), gated(gelu)),
    "phi3": (liger.LigerPhi3SwiGLUMLP(CONFIG), packed),
    "falcon": (liger.LigerFalconH1SwiGLUMLP(SimpleNamespace(**vars(CONFIG), mlp_multipliers=(0.5, 2))), falcon),
    "mlp": (liger.LigerMLP(CONFIG), gated(F.silu)),
    "falcon_mlp": (liger.LigerFalconH1MLP(SimpleNamespace(**vars(CONFIG), mlp_multipliers=(0.5, 2))), falcon),
    "tiled_swiglu": (liger.LigerTiledSwiGLUMLP(CONFIG, num_shards=4), gated(F.silu)),
    "tiled_geglu": (liger.LigerTiledGEGLUMLP(SimpleNamespace(hidden_size=16, intermediate_size=24)), gated(gelu)),
    "mixtral": (liger.LigerBlockSparseTop2MLP(CONFIG), lambda m, x: m.w2(F.silu(m.w1(x)) * m.w3(x))),
}


def gradients(output, *tensors):
    output.backward(torch.linspace(-1, 1, output.numel()).view(output.shape))
    found = [t.grad for t in tensors]
    for t in tensors:
        t.grad = None
    return output.detach(), *found


def test_arguments_without_effect_are_kept():
    module = liger.LigerLayerNorm(16, backend="cutile")
    assert (module.impl, module.backend, module.mode) == ("cutile", "cutile", None)
    kept = {c.__name__: c(16).in_place for c in (liger.LigerRMSNorm, liger.LigerRMSNormForGemma, liger.LigerRMSNormForGemma2,
                                                 liger.LigerRMSNormForGlm4, liger.LigerRMSNormForOlmo2)}
    assert [name for name in kept if kept[name]] == ["LigerRMSNorm", "LigerRMSNormForGemma"]


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    module, expected = MODULES[name]
    torch.manual_seed(0)
    x = torch.randn(2, 6, 16, requires_grad=True)
    tensors = x, *module.parameters()
    torch.testing.assert_close(gradients(module(x), *tensors), gradients(expected(module, x), *tensors), atol=1e-4, rtol=1e-4)


def test_fused_add_rms_norm():
    module = liger.LigerFusedAddRMSNorm(16)
    x, residual = torch.randn(2, 3, 16, requires_grad=True), torch.randn(2, 3, 16, requires_grad=True)
    tensors = x, residual, module.weight
    y, s = module(x, residual)
    found = gradients(y + 2 * s, *tensors)
    s = x + residual
    expected = gradients(F.rms_norm(s, (16,), module.weight, 1e-6) + 2 * s, *tensors)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    _, s = module(x, residual)  # and with a gradient of the sum alone
    torch.testing.assert_close(gradients(s, x), gradients(x + residual, x))


def as_wide(*tensors):
    """Leaves of the same values in float64; None stays None."""
    return tuple(None if t is None else t.detach().double().requires_grad_() for t in tensors)


@pytest.mark.parametrize("scale_shape", ((2, 16), (16,), (2, 6, 16)))
@pytest.mark.parametrize("plain", (False, True))
def test_modulated_rms_norm(scale_shape, plain):
    torch.manual_seed(0)
    module = liger.LigerModulatedRMSNorm(16, offset=0.5, elementwise_affine=not plain)
    x = torch.randn(2, 6, 16, requires_grad=True)
    scale = torch.randn(scale_shape, requires_grad=True)
    shift = None if plain else torch.randn(scale_shape, requires_grad=True)
    given = [t for t in (x, scale, shift, module.weight) if t is not None]
    wide_x, wide_scale, wide_shift, weight = as_wide(x, scale, shift, module.weight)
    rows = [t if t is None or t.dim() != 2 else t[:, None] for t in (wide_scale, wide_shift)]
    expected = F.rms_norm(wide_x, (16,), eps=1e-6) * (1 if plain else weight + 0.5) * (1 + rows[0]) + (0 if plain else rows[1])
    wide = [t for t in (wide_x, wide_scale, wide_shift, weight) if t is not None]
    grad = torch.randn(2, 6, 16)
    y = module(x, scale, shift)
    torch.testing.assert_close(y, expected.float())
    torch.testing.assert_close(y, liger.functional.liger_modulated_rms_norm(x, module.weight, scale, shift, offset=0.5))
    for found, truth in zip(torch.autograd.grad(y, given, grad), torch.autograd.grad(expected, wide, grad.double())):
        torch.testing.assert_close(found, truth.float(), atol=1e-5, rtol=1e-5)
    with pytest.raises(AssertionError, match="do not divide the 12 rows"):
        module(x, torch.zeros(5, 16))


@pytest.mark.parametrize("return_entropy", (False, True))
@pytest.mark.parametrize("ids", (None, (), (3, 0, 3)))
def test_scaled_cross_entropy(return_entropy, ids):
    torch.manual_seed(0)
    x, weight = torch.randn(5, 16, requires_grad=True), torch.randn(11, 16, requires_grad=True)
    target, ids = torch.tensor([1, -100, 3, 10, 0]), None if ids is None else torch.tensor(ids, dtype=torch.int64)
    found = LigerFusedLinearScaledCrossEntropyFunction.apply(
        x, weight, target, temperature=0.7, return_entropy=return_entropy, selected_token_ids=ids
    )
    wide = as_wide(x, weight)
    logp = (wide[0] @ wide[1].T / 0.7).log_softmax(-1)
    kept = (target >= 0).double()
    expected = [-logp[torch.arange(5), target.clamp(min=0)] * kept]
    expected += [-(logp.exp() * logp).sum(-1) * kept] if return_entropy else []
    expected += [] if ids is None else [logp[:, ids] * kept[:, None]]
    found = [found] if len(expected) == 1 else list(found)
    upstream = [torch.randn(t.shape) for t in found]
    torch.testing.assert_close(found, [t.float() for t in expected], atol=1e-5, rtol=1e-5)
    truth = torch.autograd.grad(expected, wide, [g.double() for g in upstream])
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, weight), upstream), tuple(t.float() for t in truth), atol=1e-5, rtol=1e-5
    )


def test_scaled_cross_entropy_takes_a_part_of_its_gradients():
    """An output whose gradient nobody asks for counts as one without."""
    x, weight = torch.randn(5, 16, requires_grad=True), torch.randn(11, 16)
    nll, entropy = LigerFusedLinearScaledCrossEntropyFunction.apply(x, weight, torch.arange(5), 1.0, -100, 1, True)
    logp = (x @ weight.T).log_softmax(-1)
    torch.testing.assert_close(gradients(entropy, x), gradients(-(logp.exp() * logp).sum(-1), x), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="m_tiles_per_cluster is 0"):
        LigerFusedLinearScaledCrossEntropyFunction.apply(x, weight, torch.arange(5), m_tiles_per_cluster=0)


def test_upstream_gradient_stays():
    """A gradient that another consumer holds too is not overwritten, whatever in_place says."""
    module = liger.LigerRMSNorm(16, in_place=True)
    x = torch.randn(4, 16, requires_grad=True)
    found = gradients(x + module(x), x)
    torch.testing.assert_close(found, gradients(x + F.rms_norm(x, (16,), module.weight, 1e-6), x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_losses_of_logits(reduction):
    torch.manual_seed(0)
    x, weight = torch.randn(5, 16, requires_grad=True), torch.randn(11, 16, requires_grad=True)
    target = torch.tensor([1, -100, 3, 10, 0])
    expected = gradients(F.cross_entropy(x @ weight.T, target, reduction=reduction), x, weight)
    found = gradients(liger.LigerCrossEntropyLoss(reduction=reduction)(x @ weight.T, target), x, weight)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    loss = liger.LigerFusedLinearCrossEntropyLoss(reduction=reduction, return_token_accuracy=True)(weight, x, target)
    assert loss.token_accuracy.shape == loss.loss.shape
    torch.testing.assert_close(gradients(loss.loss, x, weight), expected, atol=1e-5, rtol=1e-5)


def test_frozen_input():
    """The weight gets its gradient where the hidden states need none."""
    x, weight, target = torch.randn(5, 16), torch.randn(11, 16, requires_grad=True), torch.arange(5)
    loss = liger.LigerFusedLinearCrossEntropyLoss()(weight, x, target)
    torch.testing.assert_close(gradients(loss, weight), gradients(F.cross_entropy(x @ weight.T, target), weight), atol=1e-5, rtol=1e-5)


def test_backward_again():
    """The same gradients at a second backward over the same graph, with an upstream gradient that is not 1."""
    x, weight = torch.randn(5, 16, requires_grad=True), torch.randn(11, 16, requires_grad=True)
    loss = liger.LigerFusedLinearCrossEntropyLoss()(weight, x, torch.arange(5)) * 3
    first = torch.autograd.grad(loss, (x, weight), retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, (x, weight)), first, atol=0, rtol=0)


def test_divergences():
    p, q = torch.randn(4, 9).softmax(-1), torch.randn(4, 9).log_softmax(-1).requires_grad_()
    mean = (q.exp() + p) / 2
    half = (F.kl_div(mean.log(), p, reduction="batchmean") + F.kl_div(mean.log(), q.exp(), reduction="batchmean")) / 2
    torch.testing.assert_close(liger.LigerJSD()(q, p.log()), half, atol=1e-6, rtol=1e-5)
    kl = liger.LigerKLDIVLoss(reduction="batchmean")(q, p)
    torch.testing.assert_close(gradients(kl, q), gradients(F.kl_div(q, p, reduction="batchmean"), q), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(liger.LigerTVDLoss()(p, q.exp()), (p - q.exp()).abs().sum() / 8, atol=1e-6, rtol=1e-5)


def test_experts():
    torch.manual_seed(0)
    experts = liger.LigerExperts(CONFIG)
    for p in experts.parameters():
        torch.nn.init.normal_(p)
    x, index, weights = torch.randn(7, 16, requires_grad=True), torch.randint(3, (7, 2)), torch.rand(7, 2)
    expected = torch.zeros(7, 16)
    for t in range(7):
        for e, w in zip(index[t], weights[t]):
            gate, up = (experts.gate_up_proj[e] @ x[t]).chunk(2)
            expected[t] += w * (experts.down_proj[e] @ (F.silu(gate) * up))
    torch.testing.assert_close(experts(x, index, weights), expected, atol=1e-4, rtol=1e-4)


def test_embedding():
    module = liger.LigerEmbedding(9, 16, padding_idx=4)
    indices = torch.tensor([[1, 4, 1], [0, 8, 4]])
    expected = F.embedding(indices, module.weight, padding_idx=4)
    torch.testing.assert_close(gradients(module(indices), module.weight), gradients(expected, module.weight))


def test_rotary():
    q, k = torch.randn(2, 4, 5, 8, requires_grad=True), torch.randn(2, 2, 5, 8, requires_grad=True)
    angle = torch.randn(1, 5, 4).repeat(1, 1, 2)
    cos, sin = angle.cos(), angle.sin()

    def rotated(x):
        return x * cos.unsqueeze(1) + torch.cat((-x[..., 4:], x[..., :4]), -1) * sin.unsqueeze(1)

    for i, x in enumerate((q, k)):
        found = liger.liger_rotary_pos_emb(q, k, cos, sin)[i]
        torch.testing.assert_close(gradients(found, x), gradients(rotated(x), x), atol=1e-5, rtol=1e-5)
    complex_q = torch.view_as_complex(q.detach().transpose(1, 2).reshape(2, 5, 4, 4, 2))
    table = torch.polar(torch.ones(5, 4), angle[0, :, :4])
    found, _ = liger.liger_llama4_text_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), table)
    torch.testing.assert_close(found, torch.view_as_real(complex_q * table[:, None]).flatten(3), atol=1e-5, rtol=1e-5)


def test_gradients_whose_elements_lie_apart():
    """What comes from a product with a transposed matrix, as the keys' gradient in attention written out, gives what its copy gives."""
    def apart(x):
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)

    q, k, v = (torch.randn(2, 4, 5, 8, requires_grad=True) for _ in range(3))
    angle = torch.randn(1, 5, 4).repeat(1, 1, 2)
    table = torch.polar(torch.ones(5, 4), angle[0, :, :4])
    three = torch.randn(3, 2, 5, 8)
    scores, weight = torch.randn(2, 4, 6, 6, requires_grad=True), torch.randn(4, 1, 3, 3, requires_grad=True)
    calls = {
        "rope": (lambda q, k: liger.liger_rotary_pos_emb(q, k, angle.cos(), angle.sin()), (q, k)),
        "mrope": (lambda q, k: liger.liger_multimodal_rotary_pos_emb(q, k, three.cos(), three.sin(), [1, 1, 2]), (q, k)),
        "llama4": (lambda q, k: liger.liger_llama4_text_rotary_pos_emb(q, k, table), (q, k)),
        "neighborhood": (lambda q, k, v: (LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 3),), (q, k, v)),
        "multi_token": (lambda s, w: (LigerMultiTokenAttentionFunction.apply(s, w, None, 1, 1, 1, 4),), (scores, weight)),
    }
    for name, (function, inputs) in calls.items():
        if name == "llama4":
            inputs = tuple(x.detach().transpose(1, 2).contiguous().requires_grad_() for x in inputs)
        outputs = function(*inputs)
        upstream = [torch.randn_like(y) for y in outputs]
        same = torch.autograd.grad(outputs, inputs, upstream, retain_graph=True)
        found = torch.autograd.grad(outputs, inputs, [apart(dy) for dy in upstream])
        assert all(torch.equal(a, b) for a, b in zip(found, same)), name
        for y, z in zip(outputs, function(*(apart(x) for x in inputs))):
            assert torch.equal(y, z), name


def test_tiled_mlp_of_a_frozen_input():
    """Parameters get their gradients where the input needs none."""
    module, x = liger.LigerTiledSwiGLUMLP(CONFIG, num_shards=3), torch.randn(2, 6, 16)
    found = gradients(module(x), *module.parameters())
    torch.testing.assert_close(found, gradients(gated(F.silu)(module, x), *module.parameters()), atol=1e-4, rtol=1e-4)


def test_tiled_mlp_under_autocast():
    """Backward computes the parts again in the types of forward."""
    module, x = liger.LigerTiledSwiGLUMLP(CONFIG, num_shards=2), torch.randn(6, 16, requires_grad=True)
    tensors = x, *module.parameters()
    with torch.autocast("cpu", torch.bfloat16):
        tiled, whole = module(x), gated(F.silu)(module, x)
    torch.testing.assert_close(gradients(tiled, *tensors), gradients(whole, *tensors), atol=5e-2, rtol=5e-2)


@pytest.mark.parametrize("sparse", (False, True))
@pytest.mark.parametrize("stride, padding, dilation, groups", ((1, 1, 1, 1), (1, 0, 1, 2), (2, 1, 1, 1), (1, 2, 2, 2)))
def test_multi_token_attention(stride, padding, dilation, groups, sparse):
    torch.manual_seed(0)
    module = liger.LigerMultiTokenAttention(2, 4, 3, stride, padding, dilation, groups, sparse=sparse)
    scores = torch.randn(2, 2, 7, 7, requires_grad=True)
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    masked = scores.masked_fill(~lower, -1e9)
    probs = liger.functional.liger_sparsemax(masked, -1) if sparse else masked.softmax(-1)
    y = F.conv2d(probs, module.weight, module.bias, stride, padding, dilation, groups)
    tensors = scores, module.weight, module.bias
    found, expected = module(scores), y.tril()
    torch.testing.assert_close(gradients(found, *tensors), gradients(expected, *tensors), atol=1e-5, rtol=1e-5)


def test_multi_token_attention_of_a_result_too_large():
    with pytest.raises(ValueError, match="has 9 rows, expected 1 to 7"):
        liger.LigerMultiTokenAttention(1, 1, 1, padding=1)(torch.randn(1, 1, 7, 7))


def test_neighborhood_attention():
    layer = liger.LigerFusedNeighborhoodAttentionLayer(16, 2, kernel_size=3, dilation=2)
    x = torch.randn(2, 12, 16)
    attention = layer.attention
    q, k, v = (p(layer.layer_norm(x)).view(2, 12, 2, 8).transpose(1, 2) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
    apart = (torch.arange(12)[:, None] - torch.arange(12)).abs()
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=(apart <= 2) & (apart % 2 == 0))
    torch.testing.assert_close(layer(x), x + attention.out_proj(y.transpose(1, 2).reshape(2, 12, 16)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("loss_type", ("grpo", "dapo", "cispo", "vespo"))
def test_policy_loss(loss_type):
    """Tokens' losses are finite, masked ones 0, and their gradient is that of their mean."""
    torch.manual_seed(0)
    logits = torch.randn(2, 6, 11, requires_grad=True)
    ids, mask = torch.randint(11, (2, 5)), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    old, reference, advantages = torch.randn(2, 5) - 2, torch.randn(2, 5) - 2, torch.tensor([1.0, -1.0])
    common = {"beta": 0.1, "loss_type": loss_type, "inplace": False}
    loss, kl, clipped = liger.triton_grpo_loss(logits, old, reference, ids, advantages, mask, **common)
    assert (loss[0, 3:] == 0).all() and torch.isfinite(loss).all() and kl.shape == clipped.shape == loss.shape
    total = (loss.sum(-1) / mask.sum(-1)).mean() if loss_type == "grpo" else loss.sum() / mask.sum()
    found, _ = liger.triton_grpo_loss(logits, old, reference, ids, advantages, mask, reduce=True, **common)
    torch.testing.assert_close(gradients(found, logits), gradients(total, logits), atol=1e-6, rtol=1e-5)
