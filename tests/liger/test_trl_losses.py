"""TRL's fused head and its loss of distillation on Tigon, beside TRL's own functions."""
import sys

import pytest
import torch

sys.path[:] = [p for p in sys.path if "liger_kernel" not in p]

pytest.importorskip("trl.kernels.chunked_divergence")

from trl.kernels import ChunkedLogProbFunction  # noqa: E402
from trl.trainer import utils  # noqa: E402
from trl.trainer.distillation_trainer import _chunked_divergence_loss  # noqa: E402

from tigon.transformers import _trl, install, uninstall  # noqa: E402

OUTPUTS = ("entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


class Refused:
    """Stands for TRL's function where Tigon's is to run."""

    @staticmethod
    def apply(*args):
        raise AssertionError("TRL's own function was called")


def tensors(rows, hidden, classes, dtype=torch.float32, bias=True, seed=0):
    torch.manual_seed(seed)
    made = torch.randn(rows, hidden), torch.randn(classes, hidden) / hidden**0.5, torch.randn(classes) if bias else None
    return [None if t is None else t.to(dtype).requires_grad_() for t in made]


def gradients(results, given, upstream):
    loss = sum((r.float() * u).sum() for r, u in zip(results, upstream) if r is not None and r.requires_grad)
    return torch.autograd.grad(loss, [t for t in given if t is not None])


def close(found, expected, dtype):
    error, size = (found.double() - expected.double()).norm(), expected.double().norm()
    assert error <= {torch.float32: 2e-6, torch.bfloat16: 1e-2}[dtype] * (size + 1e-3), (error / size).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "rows, classes, options",
    [
        (37, 131, {}),
        (37, 131, {"temperature": 0.7, "outputs": ()}),
        (5, 1000, {"temperature": 1.3, "logit_scale": 0.25, "outputs": ("entropy", "is_top1")}),
        (9, 77, {"final_logit_softcapping": 3.0, "logit_scale": 2.0, "outputs": ("log_sum_sq_probs", "entropy")}),
        (1, 8, {"outputs": ("mean_logits",)}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_fused_head(dtype, rows, classes, options, bias):
    given = tensors(rows, 24, classes, dtype, bias)
    target = torch.randint(classes, (rows,))
    values = {"temperature": 1.0, "final_logit_softcapping": None, "logit_scale": 1.0, "outputs": OUTPUTS, **options}
    temperature, softcap, scale, outputs = (values[n] for n in ("temperature", "final_logit_softcapping", "logit_scale", "outputs"))
    found = _trl.FusedHead(Refused).apply(*given, target, temperature, 32768, softcap, scale, outputs)
    # TRL rounds the logits to 16 bits: beside it in f32, of the same numbers.
    exact = [None if t is None else t.detach().float().requires_grad_() for t in given]
    expected = ChunkedLogProbFunction.apply(*exact, target, temperature, 64, softcap, scale, outputs)
    for name, f, e in zip(("logp", *OUTPUTS), found, expected):
        assert (f is None) == (e is None), name
        if f is not None and name == "is_top1":
            assert torch.equal(f, e)
        elif f is not None:
            assert f.dtype == e.dtype == torch.float32 and not (name in OUTPUTS[1:] and f.requires_grad)
            close(f, e, torch.float32)
    upstream = torch.randn(rows), torch.randn(rows)
    for f, e in zip(gradients(found, given, upstream), gradients(expected, exact, upstream)):
        assert f.dtype == dtype
        close(f, e, dtype)


def test_fused_head_of_no_position():
    """A batch whose tokens are all masked gives zero, with a gradient of zeros."""
    x, weight, _ = tensors(0, 8, 11)
    logp = _trl.FusedHead(Refused).apply(x, weight, None, torch.empty(0, dtype=torch.int64), 1.0, 64)[0]
    dx, dweight = torch.autograd.grad(torch.zeros(3).masked_scatter(torch.zeros(3, dtype=torch.bool), logp).sum(), [x, weight])
    assert dx.shape == (0, 8) and not dweight.any()


@pytest.mark.parametrize("hidden, weight, head", [(torch.float32, torch.bfloat16, None), (torch.float32, torch.float32, torch.bfloat16)])
def test_types(hidden, weight, head):
    """A head that is cast to f32, and one under autocast."""
    given = tensors(6, 16, 40, bias=False)
    given = [given[0].detach().to(hidden).requires_grad_(), given[1].detach().to(weight).requires_grad_(), None]
    results = []
    for function in (_trl.FusedHead(Refused), ChunkedLogProbFunction):
        with torch.autocast("cpu", head or torch.bfloat16, enabled=head is not None):
            logp = function.apply(*given, torch.arange(6), 1.0, 64)[0]
        results.append((logp, *torch.autograd.grad(logp.sum(), given[:2])))
    for f, e in zip(*results):
        assert f.dtype == e.dtype
        close(f, e, torch.bfloat16)


@pytest.mark.parametrize("change", [lambda t: t.double(), lambda t: setattr(t, "ds_id", 0) or t], ids=["f64", "ZeRO-3"])
def test_what_stays_trls(change):
    given = [change(t.detach()) for t in tensors(3, 8, 11, bias=False)[:2]]
    for head, raises in ((_trl.FusedHead(Refused), True), (_trl.FusedHead(ChunkedLogProbFunction), False)):
        try:
            head.apply(*given, None, torch.arange(3), 1.0, 64)
            assert not raises
        except AssertionError:
            assert raises


def losses(function, dtype, beta, temperature, bias, scales, softcaps, rows=21, **more):
    student = tensors(rows, 24, 131, dtype, bias)
    teacher = [None if t is None else t.detach() for t in tensors(rows, 40, 131, dtype, bias, seed=1)]
    mask = torch.arange(rows).reshape(3, -1) % 4 > 0
    shaped = (student[0].reshape(3, rows // 3, 24), teacher[0].reshape(3, rows // 3, 40))
    if function is _chunked_divergence_loss:  # whose gradients are rounded once more: in f32, of the same numbers
        student = [None if t is None else t.detach().float().requires_grad_() for t in student]
        teacher = [None if t is None else t.float() for t in teacher]
        shaped = student[0].reshape(3, rows // 3, 24), teacher[0].reshape(3, rows // 3, 40)
    loss, entropy, count = function(
        *shaped, student[1], teacher[1], mask, beta, student_lm_head_bias=student[2], teacher_lm_head_bias=teacher[2],
        student_logit_scale=scales[0], teacher_logit_scale=scales[1], student_final_logit_softcapping=softcaps[0],
        teacher_final_logit_softcapping=softcaps[1], temperature=temperature, **more,
    )  # fmt: skip
    assert count == mask.sum() and not entropy.requires_grad
    return loss, entropy, *torch.autograd.grad(3 * loss, [t for t in student if t is not None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("room", [None, 40000])
@pytest.mark.parametrize(
    "beta, temperature, bias, scales, softcaps, more",
    [
        (0.0, 1.0, False, (1.0, 1.0), (None, None), {}),
        (1.0, 0.8, True, (1.0, 1.0), (None, None), {"num_items_in_batch": 7}),
        (0.3, 1.5, True, (0.5, 2.0), (None, None), {"num_items_in_batch": torch.tensor(11)}),
        (0.5, 1.0, False, (1.0, 1.0), (2.0, 4.0), {}),
        (0.5, 2.0, True, (0.5, 1.0), (2.0, None), {}),
    ],
)
def test_divergence(monkeypatch, dtype, room, beta, temperature, bias, scales, softcaps, more):
    if room:
        monkeypatch.setattr(_trl, "ROOM", room)
    options = dtype, beta, temperature, bias, scales, softcaps
    found = losses(_trl.divergence_loss(Refused.apply), *options, **more)
    expected = losses(_chunked_divergence_loss, *options, **more)
    for i, (f, e) in enumerate(zip(found, expected)):
        close(f, e, torch.float32 if i < 2 else dtype)


def test_divergence_of_no_position():
    student, teacher = tensors(4, 8, 11), tensors(4, 8, 11, seed=1)
    found = _trl.divergence_loss(Refused.apply)(
        student[0][None], teacher[0][None], student[1], teacher[1], torch.zeros(1, 4), 0.5, student_lm_head_bias=student[2]
    )
    assert [float(x) for x in found] == [0, 0, 0]
    assert not any(g.any() for g in torch.autograd.grad(found[0], student))


def test_there_and_back():
    before = utils._ChunkedLogProbFunction, utils._use_triton
    install()
    assert utils._ChunkedLogProbFunction is not before[0] and utils._use_triton(torch.device("cpu"))
    install()
    uninstall()
    assert (utils._ChunkedLogProbFunction, utils._use_triton) == before
