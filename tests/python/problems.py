"""A small problem for each family of tigon.torch, and the same in PyTorch's own words: what test_torch.py compares."""
import math
import pathlib
import sys

import torch
from torch.nn import functional as F

from tigon.torch._table import FAMILIES

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench" / "peers"))
import rows  # noqa: F401 (fills the table)
from problem import OPERATORS, Make

N = 16


class Problem:
    """tensors: by name, those of floating point want gradients unless they are named in `constant`; reference: the textbook's version,
    of the same tensors in f64."""

    def __init__(self, tensors, reference, options=None, constant=()):
        self.tensors, self.reference, self.options, self.constant = tensors, reference, options or {}, set(constant)

    def copy(self, device="cpu", dtype=torch.float32):
        """Fresh leaves."""
        copies = {}
        for name, tensor in self.tensors.items():
            real = tensor.is_floating_point()
            copies[name] = tensor.detach().to(device, dtype if real else tensor.dtype, copy=True)
            copies[name].requires_grad_(real and name not in self.constant)
        return copies


def normal(*shape, scale=1.0):
    return torch.randn(*shape) * scale


def rotate_half(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rope(q, k, cos, sin):
    cos, sin = torch.cat((cos, cos), -1)[:, None], torch.cat((sin, sin), -1)[:, None]
    return rotate_half(q, cos, sin), rotate_half(k, cos, sin)


def llama4_rope(q, k, freqs):
    table = torch.view_as_complex(freqs)[:, None]
    def turn(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * table).flatten(-2)
    return turn(q), turn(k)


def mrope(q, k, cos, sin, section_t, section_h, section_w):
    sizes = (section_t, section_h, section_w)
    def picked(table):
        return torch.cat([part[i] for i, part in enumerate(table[..., :sum(sizes)].split(sizes, -1))], -1)[:, :, None]
    c, s = picked(cos), picked(sin)
    return rotate_half(q, torch.cat((c, c), -1), torch.cat((s, s), -1)), rotate_half(k, torch.cat((c, c), -1), torch.cat((s, s), -1))


def rms(x, weight, eps=1e-6):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight


def fused_add_rms_norm(x, residual, weight):
    return rms(x + residual, weight), x + residual


def poly_norm(x, weight, bias):
    def n(u):
        return u * (u.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return weight[0] * n(x ** 3) + weight[1] * n(x ** 2) + weight[2] * n(x) + bias


def attn_res(v, query, weight):
    scores = (rms(v, weight) * query).sum(-1)
    return (scores.softmax(0)[..., None] * v).sum(0)


def mhc_coeffs(x, phi, bias, alpha_pre, alpha_post, alpha_res, iterations):
    streams = x.shape[-2]
    flat = x.flatten(-2)
    mix = flat @ phi * (flat.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    pre, post, res = mix.split((streams, streams, streams * streams), -1)
    b_pre, b_post, b_res = bias.split((streams, streams, streams * streams))
    matrix = (alpha_res * res + b_res).unflatten(-1, (streams, streams)).softmax(-1) + 1e-6
    for i in range(iterations):
        if i > 0:
            matrix = matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    return (alpha_pre * pre + b_pre).sigmoid(), 2 * (alpha_post * post + b_post).sigmoid(), matrix


def sparsemax(x):
    z = x.sort(-1, descending=True).values
    k = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    support = (1 + k * z > z.cumsum(-1)).sum(-1, keepdim=True)
    tau = (z.cumsum(-1).gather(-1, support - 1) - 1) / support
    return (x - tau).clamp(min=0)


def picked_log_softmax(logits, target, temperature):
    return (logits / temperature).log_softmax(-1).gather(-1, target[..., None])[..., 0]


def grpo(logits, target, advantages, old_logp, ref_logp, temperature, beta):
    logp = picked_log_softmax(logits, target, temperature)
    ratio = (logp - old_logp).exp()
    a = advantages[:, None]
    policy = -torch.min(ratio * a, ratio.clamp(1 - 0.2, 1 + 0.4) * a)
    u = ref_logp - logp
    return (policy + beta * (u.exp() - u - 1)).mean(-1).mean()


def policy(logp, advantages, old_logp, ref_logp, beta, importance_sampling_level):
    log_ratio = logp - old_logp
    ratio = log_ratio.mean(-1, keepdim=True).exp().expand_as(logp) if importance_sampling_level == "sequence" else log_ratio.exp()
    a, u = advantages[:, None], ref_logp - logp
    return (-torch.min(ratio * a, ratio.clamp(1 - 0.2, 1 + 0.4) * a) + beta * (u.exp() - u - 1)).mean(-1).mean()


def preference(logp, ref_logp, beta, label_smoothing):
    a, b = logp - ref_logp
    x = beta * (a - b)
    return (-(1 - label_smoothing) * F.logsigmoid(x) - label_smoothing * F.logsigmoid(-x)).mean()


def attention(q, k, v, causal):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).transpose(1, 2)


def neighbours(q, k, v, kernel_size):
    at = torch.arange(q.shape[2])
    near = (at[:, None] - at).abs() <= kernel_size // 2
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~near, -math.inf)
    return scores.softmax(-1) @ v


def jsd(student, teacher, beta=0.5):
    p, q = teacher.exp(), student.exp()
    log_m = (beta * p + (1 - beta) * q).log()
    return (beta * p * (teacher - log_m) + (1 - beta) * q * (student - log_m)).sum(-1).mean()


def softmax_jsd(student, teacher):
    return jsd(student.log_softmax(-1), teacher.log_softmax(-1))


def divergence_from(logits, target, reduction="batchmean"):
    return F.kl_div(logits.log_softmax(-1), target, reduction=reduction)


def ce_tvd(student, teacher, target):
    return F.cross_entropy(student, target, reduction="none"), 0.5 * (student.softmax(-1) - teacher.softmax(-1)).abs().sum(-1)


def softmax_logp(logits, target, selected_ids, temperature=1.0):
    logp = (logits / temperature).log_softmax(-1)
    return logp.gather(-1, target[..., None])[..., 0], -(logp.exp() * logp).sum(-1), logp[..., selected_ids]


def causal_conv1d(x, weight, bias, in_gate, out_gate, segments):
    """Token by token."""
    u, width, sums = x * in_gate, weight.shape[1], []
    for t in range(x.shape[1]):
        taps = range(max(0, t - width + 1), t + 1)
        same = [(segments[:, i:t + 1] == segments[:, t:t + 1]).all(-1, keepdim=True) for i in taps]
        sums.append(bias + sum(u[:, i] * weight[:, width - 1 - t + i] * s for i, s in zip(taps, same)))
    return out_gate * F.silu(torch.stack(sums, 1))


def grouped_gemm(a, b, offset, bias):
    ends = offset.tolist()
    groups = [a[first:end] @ b[e].T + bias[e] for e, (first, end) in enumerate(zip(ends, ends[1:]))]
    return torch.cat([*groups, torch.zeros(len(a) - ends[-1], b.shape[1], dtype=a.dtype)])


def moe_router(logits, bias, mask, top_k, scale, **_):
    """Sigmoid scores, chosen with a bias, and what the losses are made of."""
    scores, p, kept = logits.sigmoid(), logits.softmax(-1), mask != 0
    index = (scores + bias).topk(top_k).indices
    weights = scores.gather(-1, index)
    counts = F.one_hot(index, logits.shape[-1]).sum(1)[kept].sum(0).to(p.dtype)
    probs, n = p[kept].sum(0), kept.sum()
    balance = logits.shape[-1] * (counts / n * probs / n).sum()
    return index, scale * weights / weights.sum(-1, keepdim=True), probs, balance, logits.logsumexp(-1)[kept].square().mean()


def moe_scatter(rows, place, weights, slot):
    return torch.stack([sum(w * rows[p] for w, p in zip(*each) if p >= 0) for each in zip(weights, place.tolist())])


def fused_moe(x, gate_up, down, index, weights, gate_up_bias, down_bias, addend):
    """Slot by slot; an index of all experts is none."""
    rows = []
    for t in range(len(x)):
        y = addend[t]
        for e, weight in zip(index[t].tolist(), weights[t]):
            if e < len(down):
                gate, up = (gate_up[e] @ x[t] + gate_up_bias[e]).chunk(2)
                y = y + weight * (down[e] @ (F.silu(gate) * up) + down_bias[e])
        rows.append(y)
    return torch.stack(rows)


def multi_token_attention(scores, weight, bias, padding, groups):
    lower = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return F.conv2d(scores.masked_fill(~lower, -math.inf).softmax(-1), weight, bias, padding=padding, groups=groups) * lower


def of_peers(name):
    """The problem of bench/peers, at a small size: a new operator of elements needs no other here."""
    operator = OPERATORS[name]
    built = operator.build(Make(torch.float32), **dict.fromkeys(operator.sizes["cpu"]["small"], N))
    names = [name for name, tensor in built.forward[0][1].items() if any(tensor is x for x in built.inputs)]
    return Problem(dict(zip(names, built.inputs)), lambda **tensors: built.function(*tensors.values()))


def problems():
    torch.manual_seed(0)
    classes, rows = 11, 6
    q, k = normal(2, 5, 4, 8), normal(2, 5, 2, 8)
    angles = torch.rand(5, 4) * 6
    mrope_angles = torch.rand(3, 2, 5, 4) * 6
    ids = torch.randint(0, classes, (rows,))
    tokens = torch.randint(0, classes, (2, 3))
    x, weight = normal(2, 3, N), 1 + normal(N, scale=0.1)
    found = {
        "embedding": Problem({"weight": normal(classes, N), "indices": tokens}, lambda weight, indices: F.embedding(indices, weight)),
        "sum_rows": Problem({"x": normal(rows, N)}, lambda x, scale: scale * x.sum(0), {"scale": 0.5}),
        "rms_norm": Problem({"x": x, "weight": weight}, rms, {"eps": 1e-6}),
        "fused_add_rms_norm": Problem({"x": x, "residual": normal(2, 3, N), "weight": weight}, fused_add_rms_norm),
        "layer_norm": Problem({"x": x, "weight": weight, "bias": normal(N)},
                              lambda x, weight, bias: F.layer_norm(x, (N,), weight, bias, 1e-6)),
        "group_norm": Problem({"x": normal(2, 6, 5), "weight": normal(6), "bias": normal(6)},
                              lambda x, weight, bias, num_groups: F.group_norm(x, num_groups, weight, bias, 1e-6), {"num_groups": 3}),
        "swiglu": Problem({"gate": x, "up": normal(2, 3, N)}, lambda gate, up: F.silu(gate) * up),
        "geglu": Problem({"gate": x, "up": normal(2, 3, N)}, lambda gate, up, exact: F.gelu(gate) * up, {"exact": True}),
        "dyt": Problem({"x": x, "alpha": torch.tensor([0.7]), "gamma": weight, "beta": normal(N)},
                       lambda x, alpha, gamma, beta: torch.tanh(alpha * x) * gamma + beta),
        "poly_norm": Problem({"x": x, "weight": normal(3), "bias": normal(1)}, poly_norm),
        "attn_res": Problem({"v": normal(3, 2, 5, N), "query": normal(N), "weight": weight}, attn_res),
        "mhc_coeffs": Problem({"x": normal(2, 5, 3, N), "phi": normal(3 * N, 15, scale=0.2), "bias": normal(15), "alpha_pre": normal(1),
                               "alpha_post": normal(1), "alpha_res": normal(1)}, mhc_coeffs, {"iterations": 4}),
        "mhc_pre": Problem({"x": normal(2, 5, 3, N), "h_pre": normal(2, 5, 3)}, lambda x, h_pre: (h_pre[..., None] * x).sum(-2)),
        "mhc_post_res": Problem(
            {"x": normal(2, 5, 3, N), "f": normal(2, 5, N), "h_post": normal(2, 5, 3), "h_res": normal(2, 5, 3, 3)},
            lambda x, f, h_post, h_res: h_res @ x + h_post[..., None] * f[..., None, :]),
        "rope": Problem({"q": q, "k": k, "cos": angles.cos(), "sin": angles.sin()}, rope, constant=("cos", "sin")),
        "llama4_rope": Problem({"q": q, "k": k, "freqs": torch.stack((angles.cos(), angles.sin()), -1)}, llama4_rope, constant=("freqs",)),
        "qwen2vl_mrope": Problem({"q": q, "k": k, "cos": mrope_angles.cos(), "sin": mrope_angles.sin()}, mrope,
                                 {"section_t": 1, "section_h": 1, "section_w": 2}, constant=("cos", "sin")),
        "causal_conv1d": Problem(
            {"x": normal(2, 7, N), "weight": normal(N, 4), "bias": normal(N), "in_gate": normal(2, 7, N), "out_gate": normal(2, 7, N),
             "segments": torch.tensor([[0, 0, 0, 1, 1, 1, 1], [3, 3, 3, 3, 3, 5, 5]])},
            lambda silu, **tensors: causal_conv1d(**tensors), {"silu": True}),
        "multi_token_attention": Problem({"scores": normal(2, 4, 7, 7), "weight": normal(6, 2, 3, 3), "bias": normal(6)},
                                         multi_token_attention, {"padding": 1, "groups": 2}),
        "grouped_gemm": Problem({"a": normal(7, N), "b": normal(4, 5, N), "offset": torch.tensor([0, 2, 2, 5, 6]), "bias": normal(4, 5)},
                                grouped_gemm),
        "moe_router": Problem({"logits": normal(rows, 8), "bias": normal(8, scale=0.1), "mask": torch.tensor([1, 1, 0, 1, 1, 1])}, moe_router,
                              {"top_k": 3, "scoring": "sigmoid", "renormalise": True, "scale": 2.5, "probs": True, "balance": True,
                               "z_loss": True}, constant=("bias",)),
        "moe_gather": Problem({"x": normal(3, N), "slot": torch.tensor([4, 1, 2, 3, 0, -1]), "place": torch.tensor([[4, 1], [2, 3], [0, -1]])},
                              lambda x, slot, place, top_k: torch.stack([x[s // 2] if s >= 0 else 0 * x[0] for s in slot.tolist()]),
                              {"top_k": 2}),
        "moe_scatter": Problem({"rows": normal(6, N), "place": torch.tensor([[4, 1], [2, 3], [0, -1]]), "weights": normal(3, 2),
                                "slot": torch.tensor([4, 1, 2, 3, 0, -1])}, moe_scatter),
        "fused_moe": Problem(
            {"x": normal(5, N), "gate_up": normal(3, 12, N, scale=0.3), "down": normal(3, N, 6, scale=0.3), "weights": normal(5, 2).softmax(-1),
             "index": torch.tensor([[0, 1], [1, 1], [3, 0], [0, 1], [1, 3]]), "gate_up_bias": normal(3, 12), "down_bias": normal(3, N),
             "addend": normal(5, N)}, lambda recompute=False, **tensors: fused_moe(**tensors)),
        "softmax": Problem({"x": x}, lambda x: x.softmax(-1)),
        "sparsemax": Problem({"x": x}, sparsemax),
        "cross_entropy": Problem({"logits": normal(rows, classes), "target": ids},
                                 lambda logits, target, label_smoothing: F.cross_entropy(logits, target, label_smoothing=label_smoothing),
                                 {"label_smoothing": 0.1}),
        "fused_linear_cross_entropy": Problem(
            {"x": normal(rows, N), "weight": normal(classes, N), "target": ids, "bias": normal(classes)},
            lambda x, weight, target, bias: F.cross_entropy(F.linear(x, weight, bias), target)),
        "selective_log_softmax": Problem({"logits": normal(2, 3, classes), "target": tokens}, picked_log_softmax, {"temperature": 0.9}),
        "softmax_logp": Problem({"logits": normal(rows, classes), "target": ids, "selected_ids": torch.tensor([3, 0, 3])},
                                lambda logits, target, selected_ids, temperature, **_: softmax_logp(logits, target, selected_ids, temperature),
                                {"temperature": 0.9, "entropy": True, "selected": True}),
        "fused_linear_logp": Problem(
            {"x": normal(rows, N), "weight": normal(classes, N), "target": ids, "bias": normal(classes), "selected_ids": torch.tensor([1, 7])},
            lambda x, weight, target, bias, selected_ids, **_: softmax_logp(F.linear(x, weight, bias), target, selected_ids),
            {"entropy": True, "selected": True}),
        "grpo_loss": Problem({"logits": normal(2, 3, classes), "target": tokens, "advantages": normal(2), "old_logp": -2 + normal(2, 3),
                              "ref_logp": -2 + normal(2, 3)}, grpo, {"temperature": 1.0, "beta": 0.04},
                             constant=("advantages", "old_logp", "ref_logp")),
        "policy_loss": Problem({"logp": normal(2, 5), "advantages": normal(2), "old_logp": normal(2, 5), "ref_logp": normal(2, 5)}, policy,
                               {"beta": 0.04, "importance_sampling_level": "sequence"}, constant=("advantages", "old_logp", "ref_logp")),
        "preference_loss": Problem({"logp": normal(2, 7), "ref_logp": normal(2, 7)}, preference, {"beta": 0.5, "label_smoothing": 0.1},
                                   constant=("ref_logp",)),
        "flash_attention": Problem({"q": q, "k": k, "v": normal(2, 5, 2, 8)}, attention, {"causal": True}),
        "fused_neighborhood_attention": Problem({"q": normal(2, 2, 7, 8), "k": normal(2, 2, 7, 8), "v": normal(2, 2, 7, 8)}, neighbours,
                                                {"kernel_size": 3}),
        "kl_div": Problem({"y_pred": normal(rows, N).log_softmax(-1), "y_true": normal(rows, N).softmax(-1)},
                          lambda y_pred, y_true, reduction: F.kl_div(y_pred, y_true, reduction=reduction), {"reduction": "batchmean"},
                          constant=("y_true",)),
        "tvd": Problem({"p": normal(rows, N).softmax(-1), "q": normal(rows, N).softmax(-1)},
                       lambda p, q, reduction: 0.5 * (p - q).abs().sum() / rows, {"reduction": "batchmean"}, constant=("q",)),
        "jsd": Problem({"student": normal(rows, N).log_softmax(-1), "teacher": normal(rows, N).log_softmax(-1)}, jsd, {"beta": 0.3},
                       constant=("teacher",)),
        "softmax_jsd": Problem({"student": normal(rows, N), "teacher": normal(rows, N)}, softmax_jsd, constant=("teacher",)),
        "fused_linear_jsd": Problem(
            {"x": normal(rows, N), "weight": normal(classes, N), "teacher_x": normal(rows, 8), "teacher_weight": normal(classes, 8)},
            lambda x, weight, teacher_x, teacher_weight: softmax_jsd(x @ weight.T, teacher_x @ teacher_weight.T),
            constant=("teacher_x", "teacher_weight")),
        "softmax_kl_div": Problem(
            {"logits": normal(rows, N), "target": normal(rows, N).softmax(-1)},
            lambda logits, target, temperature, reduction: divergence_from(logits / temperature, target, reduction),
            {"temperature": 0.9, "reduction": "sum"}, constant=("target",)),
        "fused_linear_kl_div": Problem(
            {"x": normal(rows, N), "weight": normal(classes, N), "target": normal(rows, classes).softmax(-1), "bias": normal(classes)},
            lambda x, weight, target, bias, reduction: divergence_from(F.linear(x, weight, bias), target, reduction),
            {"reduction": "batchmean"}, constant=("target",)),
        "fused_ce_tvd": Problem({"student": normal(rows, classes), "teacher": normal(rows, classes), "target": ids}, ce_tvd,
                                constant=("teacher",)),
        "sum_squares": Problem({"x": x}, lambda x: x.pow(2).sum()),
        "gemm": Problem({"a": normal(N, 5), "b": normal(7, N)}, lambda a, b, trans_a, trans_b, alpha: alpha * a.T @ b.T,
                        {"trans_a": True, "trans_b": True, "alpha": 0.5}),
        "batched_gemm": Problem({"a": normal(3, rows, N), "b": normal(3, 5, N)},
                                lambda a, b, trans_b, alpha: alpha * a @ b.transpose(1, 2), {"trans_b": True, "alpha": 0.5}),
    }
    return found | {name: of_peers(name) for name in FAMILIES if name not in found}
