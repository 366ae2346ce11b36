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
    """A process's losses: its classes of all, and how many the mean of smoothing is over."""

    def __init__(self, group, classes, ignore_index, label_smoothing, formula, mode):
        self.group, self.classes, self.all = group, classes, classes * processes_of(group)
        self.averaged = self.all if mode == "global" else classes
        self.smoothing = _smoothing(label_smoothing, formula, self.averaged)
        self.ignore_index, self.options = ignore_index, {"ignore_index": ignore_index}
        self.alone = self.all == classes
        if not self.alone:
            self.options |= {"vocab_start": torch.distributed.get_rank(group) * classes, "vocab_size": self.all}

    def known(self, target):
        """Targets, of which those that are no class count as ignored."""
        return target.masked_fill((target < 0) | (target >= self.all), self.ignore_index)

    def kept(self, numbers, target):
        return numbers.masked_fill(target == self.ignore_index, 0)

    def losses(self, logits, target):
        """The losses of tokens and their lse."""
        if self.alone:
            return ops.cross_entropy_forward(
                logits, target, lse=True, reduction="none", label_smoothing=self.smoothing, **self.options
            )
        mean = {"mean_logits": True} if self.smoothing else {}
        numbers = ops.softmax_logp_forward(logits, target, lse=True, **mean, **self.options)
        x_y, lse, *means = of_all(self.group, *(numbers if self.averaged == self.all else numbers[:2]))
        lse = lse.logsumexp(0)
        loss = lse - (1 - self.smoothing) * x_y.sum(0)
        if self.smoothing:
            loss = loss - self.smoothing * (means[0].mean(0) if means else numbers[2])
        return self.kept(loss, target), lse

    def gradient(self, logits, target, lse, dloss):
        dlogits = like(logits)
        if self.alone:
            options = {"reduction": "none", "label_smoothing": self.smoothing, **self.options}
            return ops.cross_entropy_backward(logits, target, lse=lse, dloss=dloss, dlogits=dlogits, **options)
        if not self.smoothing:
            return ops.softmax_logp_backward(logits, target, lse=lse, dlogp=-dloss, dlogits=dlogits, **self.options)
        wide = torch.promote_types(logits.dtype, torch.float32)
        pieces = (t.split(-(-ROOM // self.classes)) for t in (dlogits, logits, target, lse, dloss))
        for made, x, *given in zip(*pieces):
            made.copy_(self._smoothed(x.to(wide, copy=True), *given))
        return dlogits

    def _smoothed(self, x, target, lse, dloss):
        """The gradient over x, f32 at least. What the target does not get of p dloss a class of another slice is said to get."""
        elsewhere = torch.full((1,), (self.options["vocab_start"] + self.classes) % self.all, device=x.device)
        smoothed = {"selected_ids": elsewhere, "dselected": -self.smoothing * dloss.unsqueeze(-1)}
        dlogp = (self.smoothing - 1) * dloss
        ops.softmax_logp_backward(x, target, lse=lse, dlogp=dlogp, dlogits=x, **smoothed, **self.options)
        return x.sub_(self.kept(self.smoothing / self.averaged * dloss, target).unsqueeze(-1))


class LigerVocabParallelCEFunction(Function):
    """With the mode `partition` the losses of processes differ."""

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
        shape = vocab_parallel_logits.shape
        options = ignore_index, label_smoothing, label_smoothing_formula, label_smoothing_mode
        ctx.slice = _Slice(tp_group, shape[-1], *options)
        logits, target = matrix(vocab_parallel_logits), ctx.slice.known(target.reshape(-1).contiguous().long())
        loss, lse = ctx.slice.losses(logits, target)
        ctx.save_for_backward(logits, target, lse)
        return loss.view(shape[:-1])

    @staticmethod
    def backward(ctx, grad_output):
        dlogits = ctx.slice.gradient(*ctx.saved_tensors, grad_output.reshape(-1).contiguous())
        return (dlogits.view(*grad_output.shape, ctx.slice.classes), *(None,) * 6)
