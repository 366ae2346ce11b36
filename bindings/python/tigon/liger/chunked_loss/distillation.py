"""The losses of liger_kernel.chunked_loss that teach one last layer by another's logits, with cross entropy beside it as the hard loss.

Rows go in chunks, and the logits of one chunk alone exist at a time: products, cross_entropy, softmax_jsd and rms_norm of Tigon on them.
Logits and their gradients are f32; the latter are rounded once to the type of the inputs, and sums over chunks are in f32."""
from typing import NamedTuple

import torch
from torch import nn

from tigon.liger.ops._shared import Function, check_targets, rows, scaled
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import as_given, operands


class Layer(NamedTuple):
    """A last layer: its logits are x weightᵀ + bias, in the first of `width` columns, and 0 in the others."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def logits(self, chunk, width):
        x, (classes, _) = self.x[chunk], self.weight.shape
        logits = torch.zeros if width > classes else torch.empty
        logits = logits(x.shape[0], width, dtype=torch.float32, device=x.device)
        own = logits[:, :classes]
        if self.bias is not None:
            own.copy_(self.bias)
        ops.gemm(x, self.weight, c=own, trans_b=True, beta=0.0 if self.bias is None else 1.0)
        return logits


class Gradients:
    """Those of the student's layer, to which chunks add. scale: of the logits' gradients, so that f16 has numbers for a mean's."""

    def __init__(self, layer, wanted, scale):
        self.layer, self.scale = layer, scale
        x, weight, bias = (t if want else None for t, want in zip(layer, wanted))
        self.dx = None if x is None else torch.empty_like(x)
        self.dweight = None if weight is None else torch.zeros_like(weight, dtype=torch.float32)
        self.dbias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)

    def add(self, chunk, dlogits):
        dlogits = rows(dlogits.to(self.layer.x.dtype))
        share = 1 / self.scale
        if self.dx is not None:
            ops.gemm(dlogits, self.layer.weight, c=self.dx[chunk], alpha=share)
        if self.dweight is not None:
            ops.gemm(dlogits, self.layer.x[chunk], c=self.dweight, trans_a=True, alpha=share, beta=1.0)
        if self.dbias is not None:
            ops.sum_rows_forward(dlogits, y=self.dbias, scale=share, accumulate=True)


class Batch(NamedTuple):
    """What is the same for all chunks. count: of the rows that are not ignored, at least 1."""

    labels: torch.Tensor
    ignore_index: int
    count: torch.Tensor
    scale: float

    def number(self, value=0.0):
        return torch.full((), value, dtype=torch.float32, device=self.labels.device)


def hard_loss(batch, chunk, logits, weight):
    """Cross entropy of a chunk's rows, their part of the mean, and its gradient times the weight."""
    loss, dlogits = batch.number(), torch.empty_like(logits)
    ops.cross_entropy_forward(
        logits,
        batch.labels[chunk],
        batch_target=batch.labels,
        dloss=batch.number(weight),
        loss=loss,
        dlogits=dlogits,
        ignore_index=batch.ignore_index,
        grad_scale=batch.scale,
    )
    return loss, dlogits


def divergence(batch, chunk, student, teacher, weight, beta, temperature):
    """jsd of a chunk's rows, their part of the mean. student becomes its gradient times the weight."""
    loss = batch.number()
    ops.softmax_jsd_forward(
        student,
        teacher,
        batch.labels,
        batch.number(weight),
        loss=loss,
        dstudent=student,
        beta=beta,
        temperature=temperature,
        ignore_index=batch.ignore_index,
        first_row=chunk.start,
        batch_rows=batch.labels.shape[0],
        grad_scale=batch.scale,
    )
    return loss


def cosine_distance(batch, chunk, student, teacher, weight, beta, temperature):
    """beta (1 - cosine) of a chunk's rows, likewise; a temperature leaves a cosine as it is. With rows of mean square 1 it is half of the
    mean square of their difference, which keeps its digits where they nearly agree, and is the gradient but for the norm's."""
    width = student.shape[1]
    unit, rstd, loss = torch.empty_like(student), torch.empty(student.shape[0], dtype=torch.float32, device=student.device), batch.number()
    eps = 1e-24 / width  # a row's norm is 1e-12 at least
    ops.rms_norm_forward(student, y=unit, rstd=rstd, eps=eps)
    ops.rms_norm_forward(teacher, y=teacher, eps=eps)
    unit -= teacher
    unit.masked_fill_((batch.labels[chunk] == batch.ignore_index)[:, None], 0)
    ops.sum_squares_forward(unit, y=loss)
    share = beta / (width * batch.count)
    unit *= share * (weight * batch.scale)
    ops.rms_norm_backward(unit, student, rstd=rstd, dx=unit)
    student.copy_(unit)
    return loss * (share / 2)


def chunks_of(count, chunk_size):
    """As many rows in each as Liger takes."""
    number = max(1, count // chunk_size)
    size = max(1, -(-count // number))
    return [slice(first, min(first + size, count)) for first in range(0, max(count, 1), size)]


def run(
    soft_loss,
    ctx,
    tensors,
    weight_hard_loss,
    weight_soft_loss,
    beta,
    ignore_index,
    temperature,
    chunk_size,
    return_soft_hard_loss,
):
    """The loss, and with it the gradients for an upstream gradient of 1. soft_loss: what compares a chunk's logits."""
    student_input, student_weight, teacher_input, teacher_weight, labels, student_bias, teacher_bias = tensors
    given = student_input, student_weight, student_bias
    x, weight, bias, *taught = operands(*given, teacher_input, teacher_weight, teacher_bias)
    student, teacher = Layer(x, weight, bias), Layer(*taught)
    classes, width, count = weight.shape[0], teacher.weight.shape[0], x.shape[0]
    if width < classes:
        raise ValueError(f"the teacher has {width} classes, expected {classes} at least, as many as the student")
    check_targets(labels, ignore_index, classes)
    scale = 2.0 ** (count.bit_length() + 8) if x.dtype == torch.float16 else 1.0
    batch = Batch(labels, ignore_index, (labels != ignore_index).sum().clamp_min(1), scale)
    needs = ctx.needs_input_grad
    gradients = Gradients(student, (needs[0], needs[1], needs[5]), scale)
    soft, hard = batch.number(), batch.number()
    with_soft, with_hard = (w != 0 or return_soft_hard_loss for w in (weight_soft_loss, weight_hard_loss))
    for chunk in chunks_of(count, chunk_size):
        logits, of_hard = student.logits(chunk, width), None
        own = logits[:, :classes]
        if with_hard:
            part, of_hard = hard_loss(batch, chunk, own, weight_hard_loss)
            hard += part
        if with_soft:
            soft += soft_loss(batch, chunk, logits, teacher.logits(chunk, width), weight_soft_loss, beta, temperature)
        else:
            own.zero_()
        gradients.add(chunk, own if of_hard is None else own.add_(of_hard))
    ctx.save_for_backward(*as_given((gradients.dx, gradients.dweight, gradients.dbias), given))
    loss = weight_hard_loss * hard + weight_soft_loss * soft
    if not return_soft_hard_loss:
        return loss
    ctx.mark_non_differentiable(soft, hard)
    return loss, soft, hard


def _function(name, soft_loss):
    def forward(
        ctx,
        student_input,
        student_weight,
        teacher_input,
        teacher_weight,
        true_labels,
        student_bias,
        teacher_bias,
        weight_hard_loss=0.5,
        weight_soft_loss=0.5,
        beta=0.5,
        ignore_index=-100,
        temperature=1.0,
        compiled=True,
        chunk_size=1024,
        return_soft_hard_loss=False,
    ):
        tensors = student_input, student_weight, teacher_input, teacher_weight, true_labels, student_bias, teacher_bias
        options = weight_hard_loss, weight_soft_loss, beta, ignore_index, temperature, chunk_size, return_soft_hard_loss
        return run(soft_loss, ctx, tensors, *options)

    def backward(ctx, grad_output, *_):
        dx, dweight, dbias = scaled(grad_output, *ctx.saved_tensors)
        return dx, dweight, None, None, None, dbias, *(None,) * 9

    return type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward), "__module__": __name__})


LigerFusedLinearJSDFunction = _function("LigerFusedLinearJSDFunction", divergence)
LigerFusedLinearCosineSimilarityFunction = _function("LigerFusedLinearCosineSimilarityFunction", cosine_distance)


class _Loss(nn.Module):
    """function: the autograd function of the loss."""

    function = None

    def __init__(
        self,
        weight_hard_loss=0.5,
        weight_soft_loss=0.5,
        beta=0.5,
        ignore_index=-100,
        temperature=1.0,
        compiled=True,
        chunk_size=1024,
        return_soft_hard_loss=False,
    ):
        super().__init__()
        assert temperature != 0, "temperature is 0"
        self.options = weight_hard_loss, weight_soft_loss, beta, ignore_index, temperature, compiled, chunk_size, return_soft_hard_loss

    def forward(
        self, student_input, student_weight, teacher_input, teacher_weight, true_labels, student_bias=None, teacher_bias=None
    ):
        tensors = student_input, student_weight, teacher_input, teacher_weight, true_labels, student_bias, teacher_bias
        return self.function.apply(*tensors, *self.options)


class LigerFusedLinearJSDLoss(_Loss):
    function = LigerFusedLinearJSDFunction


class LigerFusedLinearCosineSimilarityLoss(_Loss):
    function = LigerFusedLinearCosineSimilarityFunction
