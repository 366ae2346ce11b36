"""vocab_parallel_cross_entropy under Liger-Kernel's names: logits [seq, batch, vocab] of which each process of a group has an equal slice,
in the order of the ranks. Losses are f32, one a token, and the logits stay as they are.

A process alone has cross_entropy. Of a slice softmax_logp gives lse_s, the target's logit where the slice has it, and the mean of its
logits; one exchange makes of these what the loss is made of:

    (1 - a) (lse - x_y) - a mean_i (x_i - lse) = lse - (1 - a) x_y - a mean_i x_i,    lse = log sum_s exp(lse_s)

with the mean over all classes, or over those of the process's slice. Its gradient p_i - (1 - a) [i = y] - a / K needs no exchange.
"""
import torch

from tigon._groups import of_all
from tigon.liger.ops._shared import Function, like, matrix
from tigon.liger.ops._traced import ops

FORMULAS = "pytorch", "megatron"
MODES = "global", "partition"
ROOM = 1 << 24  # elements whose gradient is in f32 until smoothing is subtracted and it is rounded


def validate_formula_and_mode(label_smoothing_formula, label_smoothing_mode):
    for name, value, known in (
        ("label_smoothing_formula", label_smoothing_formula, FORMULAS),
        ("label_smoothing_mode", label_smoothing_mode, MODES),
    ):
        if value not in known:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")


def processes_of(group):
    return 1 if group is None else group.size()


def _smoothing(label_smoothing, formula, classes):
    """The weight of the mean over `classes`. Megatron's label_smoothing is spread over all but the target."""
    if formula == "pytorch" or label_smoothing == 0:
        return label_smoothing
    if classes < 2:
        raise ValueError("label_smoothing of megatron's formula is given, expected none with a single class")
    return label_smoothing * classes / (classes - 1)


class _Slice:
    """This process's classes, and how the others' are spread."""

    def __init__(self, group, classes):
        self.group, self.classes, self.all = group, classes, classes * processes_of(group)
        self.start = torch.distributed.get_rank(group) * classes if self.all > classes else 0
        self.options = {"vocab_start": self.start, "vocab_size": self.all} if self.all > classes else {}

    def elsewhere(self, device):
        """A class of another slice, as ids of softmax_logp."""
        return torch.full((1,), (self.start + self.classes) % self.all, device=device)

    def losses(self, logits, target, ignored, smoothing, mode):
        """The losses of tokens and their lse."""
        if not self.options:
            return ops.cross_entropy_forward(logits, target, lse=True, reduction="none", label_smoothing=smoothing, **ignored)
        mean = {"mean_logits": True} if smoothing else {}
        numbers = ops.softmax_logp_forward(logits, target, lse=True, **mean, **ignored, **self.options)
        exchanged = numbers[:2] if mode == "partition" else numbers
        x_y, lse, *means = of_all(self.group, *exchanged)
        lse = lse.logsumexp(0)
        loss = lse - (1 - smoothing) * x_y.sum(0)
        if smoothing:
            loss = loss - smoothing * (means[0].mean(0) if means else numbers[2])
        return loss.masked_fill(target == ignored["ignore_index"], 0), lse

    def gradient(self, logits, target, lse, dloss, ignored, smoothing, averaged):
        """Of the process's own losses; averaged: how many classes the mean is over."""
        dlogits = like(logits)
        if not self.options:
            options = {"reduction": "none", "label_smoothing": smoothing, **ignored}
            return ops.cross_entropy_backward(logits, target, lse=lse, dloss=dloss, dlogits=dlogits, **options)
        if not smoothing:
            return ops.softmax_logp_backward(logits, target, lse=lse, dlogp=-dloss, dlogits=dlogits, **ignored, **self.options)
        wide = torch.promote_types(logits.dtype, torch.float32)
        pieces = (t.split(-(-ROOM // self.classes)) for t in (dlogits, logits, target, lse, dloss))
        for made, x, *given in zip(*pieces):
            made.copy_(self._smoothed(x.to(wide, copy=True), *given, ignored, smoothing, averaged))
        return dlogits

    def _smoothed(self, x, target, lse, dloss, ignored, smoothing, averaged):
        """The gradient over x, f32 at least. What the target does not get of p dloss another slice's class is said to get."""
        others = {"selected_ids": self.elsewhere(x.device), "dselected": -smoothing * dloss.unsqueeze(-1)}
        dlogp = (smoothing - 1) * dloss
        ops.softmax_logp_backward(x, target, lse=lse, dlogp=dlogp, dlogits=x, **others, **ignored, **self.options)
        uniform = (smoothing / averaged * dloss).masked_fill(target == ignored["ignore_index"], 0)
        return x.sub_(uniform.unsqueeze(-1))


class LigerVocabParallelCEFunction(Function):
    """A target that is no class of any slice counts as ignored. With the mode `partition` the losses of processes differ."""

    @staticmethod
    def forward(
        ctx,
        vocab_parallel_logits,
        target,
        tp_group=None,
        ignore_index=-100,
        label_smoothing=0.0,
        label_smoothing_formula="pytorch",
        label_smoothing_mode="global",
    ):
        if vocab_parallel_logits.dim() != 3:
            raise ValueError(f"vocab_parallel_logits are {tuple(vocab_parallel_logits.shape)}, expected 3-D [seq, batch, vocab]")
        validate_formula_and_mode(label_smoothing_formula, label_smoothing_mode)
        ctx.shape = vocab_parallel_logits.shape
        ctx.slice = _Slice(tp_group, ctx.shape[-1])
        ctx.averaged = ctx.slice.all if label_smoothing_mode == "global" else ctx.slice.classes
        ctx.smoothing = _smoothing(label_smoothing, label_smoothing_formula, ctx.averaged)
        ctx.ignored = {"ignore_index": ignore_index}
        logits, target = matrix(vocab_parallel_logits), target.reshape(-1).contiguous().long()
        target = target.masked_fill((target < 0) | (target >= ctx.slice.all), ignore_index)
        loss, lse = ctx.slice.losses(logits, target, ctx.ignored, ctx.smoothing, label_smoothing_mode)
        ctx.save_for_backward(logits, target, lse)
        return loss.view(ctx.shape[:-1])

    @staticmethod
    def backward(ctx, grad_output):
        logits, target, lse = ctx.saved_tensors
        dloss = grad_output.reshape(-1).contiguous()
        dlogits = ctx.slice.gradient(logits, target, lse, dloss, ctx.ignored, ctx.smoothing, ctx.averaged)
        return (dlogits.view(ctx.shape), *(None,) * 6)
