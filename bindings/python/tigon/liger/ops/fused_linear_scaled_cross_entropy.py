"""fused_linear_scaled_cross_entropy under Liger-Kernel's names: fused_linear_logp, the log-probabilities with their sign turned.

Results are f32, of f32 logits, and sums over tokens of the weight's gradient are rounded once.
"""
import torch
import torch.distributed as dist

from tigon import _groups
from tigon.liger.ops._shared import Function, check_targets, like
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import operands


def _check_flag(return_entropy):
    if not isinstance(return_entropy, bool):
        raise TypeError(f"return_entropy is {return_entropy!r}, expected a bool")


class LigerFusedLinearScaledCrossEntropyFunction(Function):
    """apply() takes its arguments by name, too, as Liger's does. m_tiles_per_cluster is checked and has no effect."""

    @classmethod
    def apply(
        cls,
        _input,
        weight,
        target,
        temperature=1.0,
        ignore_index=-100,
        m_tiles_per_cluster=1,
        return_entropy=False,
        selected_token_ids=None,
    ):
        """nll of each token; with return_entropy its entropy, too; with ids the log-probabilities [tokens, ids] of these behind them."""
        if isinstance(m_tiles_per_cluster, bool) or not isinstance(m_tiles_per_cluster, int):
            raise TypeError(f"m_tiles_per_cluster is {m_tiles_per_cluster!r}, expected an int")
        if m_tiles_per_cluster < 1:
            raise ValueError(f"m_tiles_per_cluster is {m_tiles_per_cluster}, expected 1 or more")
        _check_flag(return_entropy)
        return super().apply(_input, weight, target, float(temperature), ignore_index, return_entropy, selected_token_ids)

    @staticmethod
    def forward(ctx, _input, weight, target, temperature, ignore_index, return_entropy, ids):
        check_targets(target, ignore_index, weight.shape[0])
        ctx.types = _input.dtype, weight.dtype
        x, w = operands(_input, weight)
        ids = None if ids is None else ids.contiguous()
        ctx.options = {"temperature": temperature, "ignore_index": ignore_index}
        asked = {"entropy": True} if return_entropy else {}
        asked |= {} if ids is None else {"selected": True}
        logp, lse, *others = ops.fused_linear_logp_forward(x, w, target, selected_ids=ids, lse=True, **asked, **ctx.options)
        ctx.outputs = ("dlogp", *(f"d{name}" for name in asked))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w, target, ids, lse, others[0] if return_entropy else None)
        return (-logp, *others) if others else -logp

    @staticmethod
    def backward(ctx, *upstream):
        x, weight, target, ids, lse, entropy = ctx.saved_tensors
        given = {name: g.contiguous() for name, g in zip(ctx.outputs, upstream) if g is not None}
        given["dlogp"] = -given["dlogp"] if "dlogp" in given else torch.zeros_like(lse)
        gradients = {name: like(t) for name, t, want in zip(("dx", "dweight"), (x, weight), ctx.needs_input_grad) if want}
        ops.fused_linear_logp_backward(
            x, weight, target, selected_ids=ids, lse=lse, entropy=entropy, **given, **gradients, **ctx.options
        )
        made = (gradients.get(name) for name in ("dx", "dweight"))
        return (*(None if g is None else g.to(t) for g, t in zip(made, ctx.types)), None, None, None, None, None)


class _OfSlice(Function):
    """(nll, entropy) of tokens where the weight is this process's slice: one exchange of two numbers a token, or of three with the entropy,
    and in backward the sum of the gradient of the hidden states."""

    @staticmethod
    def forward(ctx, _input, weight, target, group, temperature, ignore_index, return_entropy):
        classes, ctx.group = weight.shape[0], group
        vocab = classes * dist.get_world_size(group)
        check_targets(target, ignore_index, vocab)
        ctx.types = _input.dtype, weight.dtype
        x, w = operands(_input, weight)
        ctx.options = {
            "temperature": temperature, "ignore_index": ignore_index, "vocab_start": dist.get_rank(group) * classes, "vocab_size": vocab
        }  # fmt: skip
        entropy = {"entropy": True} if return_entropy else {}
        numbers = ops.fused_linear_logp_forward(x, w, target, lse=True, **entropy, **ctx.options)
        x_y, lse_s, *entropy_s = _groups.of_all(group, *numbers)
        lse, ignored = lse_s.logsumexp(0), target == ignore_index
        entropy = [((lse_s - lse).exp() * (h + lse - lse_s)).sum(0).masked_fill(ignored, 0) for h in entropy_s]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w, target, lse, *entropy)
        return ((lse - x_y.sum(0)).masked_fill(ignored, 0), *entropy)

    @staticmethod
    def backward(ctx, dnll, dentropy=None):
        x, weight, target, lse, *entropy = ctx.saved_tensors
        others = {} if dentropy is None else {"entropy": entropy[0], "dentropy": dentropy.contiguous()}
        dlogp = torch.zeros_like(lse) if dnll is None else -dnll.contiguous()
        gradients = {name: like(t) for name, t, want in zip(("dx", "dweight"), (x, weight), ctx.needs_input_grad) if want}
        ops.fused_linear_logp_backward(x, weight, target, lse=lse, dlogp=dlogp, **others, **gradients, **ctx.options)
        if "dx" in gradients:
            dist.all_reduce(gradients["dx"], group=ctx.group)
        made = (gradients.get(name) for name in ("dx", "dweight"))
        return (*(None if g is None else g.to(t) for g, t in zip(made, ctx.types)), *(None,) * 5)


class LigerFusedLinearScaledCrossEntropyTPFunction:
    """The same where each process of a group has an equal slice of the weight, in the order of the ranks. Hidden states and targets are the
    same in all, and hidden states get their whole gradient. tiles_per_reduce is checked and has no effect."""

    @staticmethod
    def apply(
        _input, weight, target, tp_group, temperature=1.0, ignore_index=-100, tiles_per_reduce=1, return_entropy=False
    ):
        if isinstance(tiles_per_reduce, bool) or not isinstance(tiles_per_reduce, int):
            raise TypeError(f"tiles_per_reduce is {tiles_per_reduce!r}, expected an int")
        if tiles_per_reduce not in (1, 2, 4):
            raise ValueError(f"tiles_per_reduce is {tiles_per_reduce}, expected 1, 2 or 4")
        _check_flag(return_entropy)
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError("torch.distributed is not initialised, which tensor parallel losses need")
        options = float(temperature), ignore_index
        if dist.get_world_size(tp_group) == 1:
            whole = LigerFusedLinearScaledCrossEntropyFunction.apply
            return whole(_input, weight, target, *options, return_entropy=return_entropy)
        results = _groups.across(_OfSlice.apply, _input, weight, target, tp_group, *options, return_entropy)
        return results if return_entropy else results[0]
