"""tigon.liger.chunked_loss, without Liger installed, beside formulas in PyTorch's f64: losses, metrics and gradients."""
import pytest
import torch
import torch.nn.functional as F

import tigon.liger.chunked_loss as chunked
from tigon.liger.chunked_loss import _last_layer

IGNORED = -100
N, S, H, V = 6, 9, 16, 23  # sequences, tokens, hidden size, classes


@pytest.fixture(autouse=True, params=["one chunk", "several", "held", "tokens", "none fits"])
def room(request, monkeypatch):
    """All sequences in one chunk; a pair in each, also with all gradients of logits held; four tokens, or all at once where a sequence is
    not cut; or all, multiplied twice."""
    pair = 2 * S * V * 4
    rooms = {"one chunk": 1 << 20, "several": pair, "held": pair, "tokens": 4 * V * 4, "none fits": 0}
    monkeypatch.setattr(_last_layer, "ROOM", rooms[request.param])
    monkeypatch.setattr(_last_layer, "holds", lambda x, weight: request.param == "held")


def tensors(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    x, w, b = torch.randn(N, S, H), torch.randn(V, H) / H**0.5, torch.randn(V)
    target = torch.randint(0, V, (N, S))
    target[0, :4] = target[4, 2] = IGNORED
    return [t.to(dtype).requires_grad_() for t in (x, w, b)], target


def doubles(leaves):
    return [t.detach().double().requires_grad_() for t in leaves]


def token_logp(x, w, b, target, temperature=1.0):
    logits = (x @ w.T + b) / temperature
    logp = logits.log_softmax(-1).gather(-1, target.clamp(min=0)[..., None])[..., 0]
    return logp * (target != IGNORED), logits


def sequence_logp(x, w, b, target, average):
    logp, logits = token_logp(x, w, b, target)
    total = logp.sum(-1)
    return total / (target != IGNORED).sum(-1).clamp(min=1) if average else total, logits


def agree(found, expected, leaves, references, tolerance=2e-5):
    """Losses, metrics, and the gradients of 1.7 times the loss, computed twice."""
    (loss, metrics), (wanted_loss, wanted_metrics) = found, expected
    for got, want in zip([loss, *metrics], [wanted_loss, *wanted_metrics], strict=True):
        torch.testing.assert_close(got.double(), want.double(), atol=tolerance, rtol=tolerance)
    (1.7 * loss).backward(retain_graph=True)
    first = [t.grad.clone() for t in leaves]
    (1.7 * loss).backward()
    (1.7 * wanted_loss).backward()
    for t, once, reference in zip(leaves, first, references):
        torch.testing.assert_close(t.grad, 2 * once)
        torch.testing.assert_close(once.double(), reference.grad, atol=tolerance, rtol=tolerance)


def log_s(x):
    return F.logsigmoid(x)


def of_x(f):
    return lambda a, b, beta, e: f(beta * (a - b), e)


# The losses of pairs, of log-probabilities less the reference's.
PAIRS = {
    "sigmoid": of_x(lambda x, e: -log_s(x)),
    "hinge": of_x(lambda x, e: F.relu(1 - x)),
    "exo_pair": of_x(lambda x, e: x.sigmoid() * (log_s(x) - (1 - e).log()) + (-x).sigmoid() * (log_s(-x) - e.log())),
    "robust": of_x(lambda x, e: (-(1 - e) * log_s(x) + e * log_s(-x)) / (1 - 2 * e)),
    "discopop": of_x(lambda x, e: -log_s(x) * (1 - (x / 0.05).sigmoid()) + (-x).exp() * (x / 0.05).sigmoid()),
    "nca_pair": lambda a, b, beta, e: -log_s(beta * a) - 0.5 * log_s(-beta * a) - 0.5 * log_s(-beta * b),
    "bco_pair": lambda a, b, beta, e: -log_s(beta * a) - log_s(-beta * b),
    "sppo_hard": lambda a, b, beta, e: (a - 0.5 / beta) ** 2 + (b + 0.5 / beta) ** 2,
    "apo_zero": lambda a, b, beta, e: 1 - (beta * a).sigmoid() + (beta * b).sigmoid(),
    "apo_down": lambda a, b, beta, e: (beta * a).sigmoid() + 1 - (beta * (a - b)).sigmoid(),
}


def paired(refs, target, pref, beta, average, alpha=1.0, nll=False, ref=None, further=None):
    logp, logits = sequence_logp(*refs, target, average)
    chosen, rejected = logp[: N // 2], logp[N // 2 :]
    ref = sequence_logp(*ref, target, average)[0] if ref else torch.zeros_like(logp)
    a, b = chosen - ref[: N // 2], rejected - ref[N // 2 :]
    of_nll = torch.zeros((), dtype=torch.float64)
    if nll is not False:
        labels = target if nll is True else nll
        of_nll = -token_logp(*refs, labels)[0][: N // 2].sum() / (labels[: N // 2] != IGNORED).sum().clamp(min=1)
    metrics = [chosen, rejected, logits[: N // 2].mean(), logits[N // 2 :].mean(), of_nll, beta * a, beta * b]
    return alpha * of_nll + pref(a, b).mean(), metrics + (further(a, b) if further else [])


@pytest.mark.parametrize("loss_type", PAIRS)
@pytest.mark.parametrize("average", [False, True])
def test_dpo(loss_type, average):
    leaves, target = tensors()
    ref, _ = tensors(1)
    refs, e = doubles(leaves), torch.tensor(0.1, dtype=torch.float64)
    module = chunked.LigerFusedLinearDPOLoss(
        beta=0.3, alpha=0.7, compute_nll_loss=average, average_log_prob=average, loss_type=loss_type, label_smoothing=float(e)
    )
    found = module(leaves[1], leaves[0], target, leaves[2], *ref)
    expected = paired(refs, target, lambda a, b: PAIRS[loss_type](a, b, 0.3, e), 0.3, average, 0.7, average, doubles(ref))
    agree(found, expected, leaves, refs)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cpo_and_simpo(smoothing):
    def pref(gamma):
        return lambda a, b: -(1 - smoothing) * log_s(0.2 * (a - b) - gamma) - smoothing * log_s(gamma - 0.2 * (a - b))

    for module, gamma, average in (
        (chunked.LigerFusedLinearCPOLoss(beta=0.2, alpha=0.8, label_smoothing=smoothing), 0, False),
        (chunked.LigerFusedLinearSimPOLoss(beta=0.2, alpha=0.8, label_smoothing=smoothing, gamma=0.4), 0.4, True),
    ):
        leaves, target = tensors()
        refs = doubles(leaves)
        found = module(leaves[1], leaves[0], target, leaves[2])
        agree(found, paired(refs, target, pref(gamma), 0.2, average, 0.8, True), leaves, refs)


@pytest.mark.parametrize("own_labels", [False, True])
def test_orpo(own_labels):
    leaves, target = tensors()
    refs = doubles(leaves)
    nll_target = target.roll(1, 1) if own_labels else None

    def odds(a, b):
        return (a - b) - (torch.log1p(-a.exp()) - torch.log1p(-b.exp()))

    found = chunked.LigerFusedLinearORPOLoss(beta=0.2)(leaves[1], leaves[0], target, leaves[2], nll_target)
    expected = paired(refs, target, lambda a, b: -0.2 * log_s(odds(a, b)), 0.2, True, nll=nll_target if own_labels else True,
                      further=lambda a, b: [log_s(odds(a, b)).mean(), odds(a, b).mean()])  # fmt: skip
    agree(found, expected, leaves, refs)


@pytest.mark.parametrize("kl", [None, 0.3, "each"])
def test_kto(kl):
    leaves, target = tensors()
    ref, _ = tensors(1)
    refs, preferred = doubles(leaves), torch.tensor([1, 0, 0, 1, 1, 0]).bool()
    kl = torch.linspace(-1, 1, N) if kl == "each" else kl
    module = chunked.LigerFusedLinearKTOLoss(beta=0.2, use_ref_model=True)
    found = module(leaves[0], leaves[1], target, leaves[2], preferred, *ref, kl=kl)
    logp, logits = sequence_logp(*refs, target, False)
    z = logp - sequence_logp(*doubles(ref), target, False)[0]
    loss = 1 - (0.2 * (z - (0 if kl is None else kl)) * torch.where(preferred, 1, -1)).sigmoid()
    numbers = logp, logits.sum((1, 2)), 0.2 * z
    agree(found, (loss.mean(), [x[which].sum() for x in numbers for which in (preferred, ~preferred)]), leaves, refs)


def policy(logp, mask, advantages, old, ref, loss_type, sequence, is_ratio):
    """Losses of tokens, divergences and what is clipped, by Liger's definitions; phi and min(rho, 0.2) are constants."""
    a = advantages[:, None]
    old = logp.detach() if old is None else old
    log_ratio = logp - old
    if sequence:
        log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1))[:, None].expand_as(logp)
    rho, u = log_ratio.exp(), (logp.detach() if ref is None else ref) - logp
    if loss_type == "cispo":
        loss, clipped = -rho.detach().clamp(max=0.2) * a * logp, (rho > 0.2) & (a > 0)
    elif loss_type == "sapo":
        t = torch.where(a > 0, 1.0, 1.05)
        loss, clipped = -a * (t * (rho - 1)).sigmoid() * 4 / t, torch.zeros_like(rho)
    elif loss_type == "vespo":
        w = (log_ratio.clamp(-20, 20) * mask).sum(-1, keepdim=True)
        w = (w if is_ratio is None else w + is_ratio.log().sum(-1, keepdim=True)).clamp(-18.420680743952367, 20)
        k, rate = torch.where(a >= 0, 2.0, 3.0), torch.where(a >= 0, 3.0, 2.0)
        loss, clipped = -(rate + k * w - rate * w.exp()).exp().detach() * a * logp, torch.zeros_like(rho)
    else:
        loss = -torch.min(rho * a, rho.clamp(0.8, 1.2) * a)
        clipped = ((rho < 0.8) & (a < 0)) | ((rho > 1.2) & (a > 0))
    if is_ratio is not None and loss_type != "vespo":
        loss = loss * is_ratio
    return loss, u.exp() - u - 1, clipped


def reduced(loss, mask, loss_type):
    count = mask.sum(-1, keepdim=True)
    if loss_type in ("grpo", "sapo"):
        return (loss * mask / count.clamp(min=1)).sum() / N
    if loss_type == "luspo":
        return (loss * count).mean()
    return (loss * mask).sum() / {"dr_grpo": N * 20, "bnpo": mask.sum()}.get(loss_type, 31)


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("given", ["nothing", "old", "all"])
def test_grpo(loss_type, level, given):
    if level == "sequence" and loss_type in ("cispo", "sapo", "vespo"):
        with pytest.raises(ValueError, match="not supported"):
            chunked.LigerFusedLinearGRPOFunction.apply(
                *tensors()[0][:2], tensors()[1], torch.ones(N, S), torch.ones(N), None, None, None, None, None, None, 0.1, 0.2, 0.2,
                loss_type, None, level, 1.0, 1.05, 1.0, True, False,
            )  # fmt: skip
        return
    leaves, target = tensors()
    ref, _ = tensors(0)
    ref[0] = ref[0].detach() + 0.05 * torch.randn(N, S, H)
    refs, ids, mask = doubles(leaves), target.clamp(min=0), (target != IGNORED).float()
    mask[2] = 0  # a sequence without a token
    advantages = torch.tensor([1.0, -0.7, 0.5, 0.3, -1.2, 0.0])
    with torch.no_grad():
        old = token_logp(*leaves, ids, 0.9)[0] + 0.3 * torch.randn(N, S) if given != "nothing" else None
    beta, is_ratio = (0.1, torch.rand(N, S) + 0.5) if given == "all" else (0.0, None)
    module = chunked.LigerFusedLinearGRPOLoss(
        beta=beta, use_ref_model=given == "all", loss_type=loss_type, max_completion_length=20, importance_sampling_level=level,
        temperature=0.9,
    )  # fmt: skip
    found = module(leaves[0], leaves[1], ids, mask, advantages, leaves[2], None, old, *(ref if given == "all" else (None,) * 3),
                   vllm_is_ratio=is_ratio, num_items_in_batch=31)  # fmt: skip
    logp = token_logp(*refs, ids, 0.9)[0]
    of_ref = token_logp(*doubles(ref), ids, 0.9)[0].detach() if given == "all" else None
    loss, kl, clipped = policy(logp, mask.double(), advantages.double(), old, of_ref, loss_type, level == "sequence", is_ratio)
    metrics = [(x * mask).sum() / mask.sum() for x in ((kl, clipped) if beta else (clipped,))]
    agree(found, (reduced(loss + beta * kl, mask.double(), loss_type), metrics), leaves, refs, 5e-5)


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_sixteen_bits(dtype, tolerance):
    leaves, target = tensors(dtype=dtype)
    refs = doubles(leaves)
    found = chunked.LigerFusedLinearORPOLoss()(leaves[1], leaves[0], target, leaves[2])
    expected = paired(refs, target, lambda a, b: -0.1 * log_s(
        (a - b) - (torch.log1p(-a.exp()) - torch.log1p(-b.exp()))), 0.1, True, nll=True)  # fmt: skip
    assert [t.dtype for t in torch.autograd.grad(found[0], leaves, retain_graph=True)] == [dtype] * 3
    agree((found[0], []), (expected[0], []), leaves, refs, tolerance)


def test_frozen():
    """What needs no gradient has none, and the others are as they were."""
    leaves, target = tensors()
    module = chunked.LigerFusedLinearCPOLoss()
    expected = torch.autograd.grad(module(leaves[1], leaves[0], target, leaves[2])[0], leaves)
    for i, leaf in enumerate(leaves):
        x, w, b = (t.detach().requires_grad_(j == i) for j, t in enumerate(leaves))
        found = torch.autograd.grad(module(w, x, target, b)[0], (x, w, b)[i])
        torch.testing.assert_close(found[0], expected[i])
    loss = module(*(t.detach() for t in (leaves[1], leaves[0])), target, leaves[2].detach())[0]
    assert not loss.requires_grad


def test_extreme_sequences():
    """Sequences without a token, and certain ones: nothing is NaN, as it is with Liger."""
    leaves, target = tensors()
    target[0] = target[5] = IGNORED
    with torch.no_grad():
        leaves[1].mul_(300)
    for module in (
        chunked.LigerFusedLinearORPOLoss(),
        chunked.LigerFusedLinearSimPOLoss(beta=20),
        *(chunked.LigerFusedLinearDPOLoss(beta=9, use_ref_model=False, loss_type=t, label_smoothing=0.1) for t in PAIRS),
    ):
        loss, metrics = module(leaves[1], leaves[0], target, leaves[2])
        assert all(x.isfinite().all() for x in (loss, *metrics, *torch.autograd.grad(loss, leaves)))
    target[:] = IGNORED
    loss, metrics = chunked.LigerFusedLinearCPOLoss()(leaves[1], leaves[0], target, leaves[2])
    assert metrics[4] == 0 and all((g == 0).all() for g in torch.autograd.grad(loss, leaves))


def test_errors():
    leaves, target = tensors()
    with pytest.raises(ValueError, match="even"):
        chunked.LigerFusedLinearCPOLoss()(leaves[1], leaves[0][:5], target[:5])
    with pytest.raises(NotImplementedError, match="ipo"):
        chunked.LigerFusedLinearDPOLoss(loss_type="ipo")
    with pytest.raises(ValueError, match="label_smoothing"):
        chunked.LigerFusedLinearDPOLoss(loss_type="exo_pair")
    with pytest.raises(ValueError, match="Unknown loss type"):
        chunked.LigerFusedLinearGRPOLoss(loss_type="ppo", use_ref_model=False)(*leaves[:2], target, target, torch.ones(N))


def test_mixed_types_and_autocast():
    leaves, target = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked.LigerFusedLinearCPOLoss()(leaves[1], leaves[0], target, leaves[2])[0]
    gradients = torch.autograd.grad(loss, leaves)
    assert [g.dtype for g in gradients] == [torch.float32] * 3
    mixed = leaves[0].detach().bfloat16().requires_grad_()
    loss = chunked.LigerFusedLinearCPOLoss()(leaves[1], mixed, target)[0]
    assert torch.autograd.grad(loss, mixed)[0].dtype == torch.bfloat16
