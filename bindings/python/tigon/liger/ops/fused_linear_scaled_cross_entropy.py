"""fused_linear_scaled_cross_entropy under Liger-Kernel's names: fused_linear_logp, the log-probabilities with their sign turned.

Results are f32, of f32 logits, and sums over tokens of the weight's gradient are rounded once.
"""
import torch

from tigon.liger.ops._shared import Function, check_targets, like
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import operands


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
        if not isinstance(return_entropy, bool):
            raise TypeError(f"return_entropy is {return_entropy!r}, expected a bool")
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
