"""The distillation losses of tigon.liger beside their formulas in f64: all options, chunks, labels that are ignored, a teacher of more
classes, and a hard loss that is not asked for."""
import math

import pytest
import torch
import torch.nn.functional as F

from tigon.liger.chunked_loss import distillation
from tigon.liger.chunked_loss.distillation import LigerFusedLinearCosineSimilarityLoss, LigerFusedLinearJSDLoss

ROWS, CLASSES, IGNORED = 13, 23, -100


def jsd(student, teacher, beta, temperature):
    x, y = ((z / temperature).log_softmax(-1) for z in (student, teacher))
    if beta in (0, 1):
        x, y = (x, y) if beta == 0 else (y, x)
        return F.kl_div(x, y, reduction="none", log_target=True).sum(-1)
    m = torch.logsumexp(torch.stack([x + math.log(1 - beta), y + math.log(beta)]), 0)
    terms = (weight * F.kl_div(m, z, reduction="none", log_target=True) for weight, z in ((beta, y), (1 - beta, x)))
    return sum(terms).sum(-1)


def cosine(student, teacher, beta, temperature):
    return beta * (1 - F.cosine_similarity(student, teacher, dim=-1))


LOSSES = {"jsd": (LigerFusedLinearJSDLoss, jsd), "cosine": (LigerFusedLinearCosineSimilarityLoss, cosine)}


def truth(soft_loss, tensors, labels, weight_hard_loss, weight_soft_loss, beta, temperature):
    x, weight, teacher_x, teacher_weight, bias, teacher_bias = tensors
    student, teacher = F.linear(x, weight, bias), F.linear(teacher_x, teacher_weight, teacher_bias)
    count = (labels != IGNORED).sum().clamp_min(1)
    hard = F.cross_entropy(student, labels, ignore_index=IGNORED, reduction="sum") / count
    student = F.pad(student, (0, teacher.shape[1] - student.shape[1]))
    soft = soft_loss(student, teacher, beta, temperature).masked_fill(labels == IGNORED, 0).sum() / count
    return weight_hard_loss * hard + weight_soft_loss * soft, soft, hard


def problem(biases, teacher_classes, ignored=slice(2, 4)):
    torch.manual_seed(0)
    tensors = [torch.randn(s) for s in ((ROWS, 6), (CLASSES, 6), (ROWS, 9), (teacher_classes, 9), (CLASSES,), (teacher_classes,))]
    labels = torch.randint(0, CLASSES, (ROWS,))
    labels[ignored] = IGNORED
    return [t if i < 4 or biases else None for i, t in enumerate(tensors)], labels


def leaves(tensors, dtype):
    return [None if t is None else t.to(dtype, copy=True).requires_grad_(i in (0, 1, 4)) for i, t in enumerate(tensors)]


def gradients(loss, tensors):
    return torch.autograd.grad(1.5 * loss, [t for t in tensors if t is not None and t.requires_grad])


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.0, 1.0), (1.0, 0.0), (0.3, 2.0)], ids=str)
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_formula(name, beta, weights):
    module, soft_loss = LOSSES[name]
    for biases, classes, chunk_size in ((True, CLASSES, 4), (False, CLASSES + 6, 1024)):
        tensors, labels = problem(biases, classes)
        ours, theirs = leaves(tensors, torch.float32), leaves(tensors, torch.float64)
        loss = module(*weights, beta, IGNORED, temperature=1.7, chunk_size=chunk_size, return_soft_hard_loss=True)
        results = loss(*ours[:4], labels, *ours[4:])
        expected = truth(soft_loss, theirs, labels, *weights, beta, 1.7)
        torch.testing.assert_close([t.double() for t in results], list(expected), rtol=1e-5, atol=1e-6)
        found, wanted = gradients(results[0], ours), gradients(expected[0], theirs)
        torch.testing.assert_close([t.double() for t in found], list(wanted), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_all_rows_ignored(name):
    tensors, labels = problem(True, CLASSES, slice(None))
    ours = leaves(tensors, torch.float32)
    loss = LOSSES[name][0]()(*ours[:4], labels, *ours[4:])
    assert loss == 0 and all((g == 0).all() for g in gradients(loss, ours))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LOSSES)
def test_16_bits(name, dtype):
    module, soft_loss = LOSSES[name]
    tensors, labels = problem(True, CLASSES)
    tensors = [t.to(dtype) for t in tensors]
    ours, theirs = leaves(tensors, dtype), leaves(tensors, torch.float64)
    loss, expected = module(chunk_size=5)(*ours[:4], labels, *ours[4:]), truth(soft_loss, theirs, labels, 0.5, 0.5, 0.5, 1.0)[0]
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    for found, wanted in zip(gradients(loss, ours), gradients(expected, theirs)):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=1e-2 * wanted.abs().max().item())


def test_what_is_not_asked_for_is_not_computed(monkeypatch):
    calls = []
    monkeypatch.setattr(distillation, "hard_loss", lambda *args: calls.append(args))
    tensors, labels = problem(False, CLASSES)
    LigerFusedLinearJSDLoss(weight_hard_loss=0.0)(*tensors[:4], labels)
    assert not calls


def test_a_teacher_of_fewer_classes_is_refused():
    tensors, labels = problem(False, CLASSES - 1)
    with pytest.raises(ValueError, match="expected 23 at least"):
        LigerFusedLinearJSDLoss()(*tensors[:4], labels)
