"""grpo_loss and selective_log_softmax under Liger-Kernel's names."""
import torch
import torch.distributed as dist

from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops, traced

LOSS_TYPES = ("grpo", "dapo", "bnpo", "dr_grpo", "luspo", "cispo", "sapo", "vespo")
OVER_ITEMS = ("dapo", "cispo", "vespo")
TOKEN_LEVEL_ALONE = ("cispo", "sapo", "vespo")


@torch.no_grad()
def fused_selective_log_softmax(logits, input_ids, temperature=0.9, mask=None):
    """Log-probabilities [B,L] of the last L of input_ids, from logits [B,L+1,V]."""
    length = logits.shape[1] - 1
    ids = input_ids[:, -length:]
    logp = torch.empty(ids.shape, dtype=torch.float32, device=logits.device)
    return ops.selective_log_softmax_forward(
        logits, ids, None if mask is None else mask[:, -length:], logp=logp, temperature=temperature
    )


def _check(loss_type, level, delta, sapo_temperatures):
    if loss_type not in LOSS_TYPES:
        raise ValueError(f"loss_type is {loss_type!r}, expected one of {', '.join(LOSS_TYPES)}")
    assert level in ("token", "sequence"), f"importance_sampling_level is {level!r}, expected 'token' or 'sequence'"
    if loss_type in TOKEN_LEVEL_ALONE:
        if delta is not None:
            raise ValueError(f"delta (two-sided clipping) is not supported for loss_type='{loss_type}'")
        if level == "sequence":
            raise ValueError(f"Sequence-level importance sampling is not supported for loss_type='{loss_type}'")
    if loss_type == "sapo":
        for name, value in zip(("sapo_temperature_pos", "sapo_temperature_neg"), sapo_temperatures):
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")


def items_in_batch(loss_type, mask, kept, num_items_in_batch):
    """What losses that are averaged over all items of a step are divided by: a process's share of the items of all."""
    if loss_type not in OVER_ITEMS:
        return None
    processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if num_items_in_batch is None and processes == 1:
        return None
    if num_items_in_batch is None:
        total = torch.as_tensor(float(kept) if mask is None else mask.float().sum())
        dist.all_reduce(total)
        num_items_in_batch = total
    return max(float(num_items_in_batch) / processes, 1.0)


def _place(ctx, logits):
    """Where the gradient of the logits goes: over them where the call says so, which is not followed under torch.compile."""
    return logits.detach() if ctx.inplace and not traced() else like(logits)


class GrpoLossFunction(Function):
    """(loss, kl or None, clipped): means with `reduce`, else one of each a token. With `inplace` the backward overwrites the logits."""

    @staticmethod
    def forward(
        ctx,
        logits,
        old_logp,
        ref_logp,
        completion_ids,
        advantages,
        completion_mask,
        temperature,
        beta,
        eps_low,
        eps_high,
        inplace,
        loss_type="grpo",
        max_completion_length=None,
        reduce=True,
        importance_sampling_level="token",
        sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05,
        vllm_is_ratio=None,
        delta=None,
        use_bias_correction_kl=False,
        num_items_in_batch=None,
        phi_seq=None,
    ):
        _check(loss_type, importance_sampling_level, delta, (sapo_temperature_pos, sapo_temperature_neg))
        assert beta == 0 or ref_logp is not None, "beta is not 0 and ref_logp is missing"
        if loss_type == "vespo" and phi_seq is None:
            raise ValueError("loss_type='vespo' requires phi_seq, which triton_grpo_loss computes")
        items = items_in_batch(loss_type, completion_mask, completion_ids.numel(), num_items_in_batch)
        tensors = {
            "logits": logits,
            "target": completion_ids,
            "advantages": advantages,
            "old_logp": old_logp,
            "ref_logp": ref_logp,
            "mask": completion_mask,
            "is_ratio": vllm_is_ratio,
        }
        options = {
            "temperature": temperature,
            "beta": beta,
            "eps_low": eps_low,
            "eps_high": eps_high,
            "loss_type": loss_type,
            "importance_sampling_level": importance_sampling_level,
            "reduction": "mean" if reduce else "none",
            "delta": delta,
            "use_bias_correction_kl": use_bias_correction_kl,
            "max_completion_length": max_completion_length,
            "num_items_in_batch": items,
            "sapo_temperature_pos": sapo_temperature_pos,
            "sapo_temperature_neg": sapo_temperature_neg,
        }
        if phi_seq is not None:
            return _forward_with_phi(ctx, phi_seq, tensors, options, inplace)
        return _forward(ctx, tensors, options, inplace)

    @staticmethod
    def backward(ctx, dloss, *unused):
        if ctx.phi:
            return (_backward_with_phi(ctx, dloss), *(None,) * 21)
        logits, *others, lse = ctx.saved_tensors
        names = ("target", "advantages", "old_logp", "ref_logp", "mask", "is_ratio")
        dlogits = _place(ctx, logits)
        ops.grpo_loss_backward(
            logits, **dict(zip(names, others)), lse=lse, dloss=dloss.contiguous(), dlogits=dlogits, **ctx.options
        )
        return (dlogits, *(None,) * 21)


def _outputs(ctx, loss, kl, clipped):
    ctx.mark_non_differentiable(*(x for x in (kl, clipped) if x is not None))
    return loss, kl, clipped


def _forward(ctx, tensors, options, inplace):
    logits, ids = tensors["logits"], tensors["target"]
    number = torch.empty(() if options["reduction"] == "mean" else ids.shape, dtype=torch.float32, device=logits.device)
    made = {"loss": number, "clipped": torch.empty_like(number), "lse": like(ids, torch.float32)}
    if options["beta"] != 0:
        made["kl"] = torch.empty_like(number)
    ops.grpo_loss_forward(**tensors, **made, **options)
    ctx.options, ctx.inplace, ctx.phi = options, inplace, False
    ctx.save_for_backward(*tensors.values(), made["lse"])
    return _outputs(ctx, made["loss"], made.get("kl"), made["clipped"])


def _forward_with_phi(ctx, phi, tensors, options, inplace):
    """vespo whose weights phi, one a sequence, the caller has computed: grpo_loss would compute them itself."""
    logits, ids, mask = tensors["logits"], tensors["target"], tensors["mask"]
    logp, lse = like(ids, torch.float32), like(ids, torch.float32)
    ops.selective_log_softmax_forward(logits, ids, mask, logp=logp, lse=lse, temperature=options["temperature"])
    kept = torch.ones_like(logp) if mask is None else mask.float()
    weight = (phi.reshape(-1, 1) * tensors["advantages"].reshape(-1, 1)).float()
    loss, slope, kl = -weight * logp, -weight.expand_as(logp), None
    if options["beta"] != 0:
        kl, kl_slope = _kl(logp, tensors["old_logp"], tensors["ref_logp"], options["use_bias_correction_kl"])
        loss, slope = loss + options["beta"] * kl, slope + options["beta"] * kl_slope
    share = kept
    count = kept.sum().clamp(min=1)
    if options["reduction"] == "mean":
        share = kept / (options["num_items_in_batch"] or count)
    clipped = torch.zeros_like(logp)
    outputs = loss * share, None if kl is None else kl * kept, clipped
    if options["reduction"] == "mean":
        loss, kl, clipped = (x if x is None else x.sum() for x in outputs)
        outputs = loss, None if kl is None else kl / count, clipped
    ctx.temperature, ctx.inplace, ctx.phi = options["temperature"], inplace, True
    ctx.save_for_backward(logits, ids, mask, lse, slope * share)
    return _outputs(ctx, *outputs)


def _kl(logp, old_logp, ref_logp, corrected):
    """The estimate exp(u) - u - 1 of each token, and its derivative by logp; corrected: times the ratio of new and old policy."""
    u = ref_logp.float() - logp
    kl, slope = torch.expm1(u) - u, -torch.expm1(u)
    if not corrected:
        return kl, slope
    ratio = torch.ones_like(logp) if old_logp is None else torch.exp(logp - old_logp.float())
    return ratio * kl, -ratio * u


def _backward_with_phi(ctx, dloss):
    logits, ids, mask, lse, slope = ctx.saved_tensors
    dlogits = _place(ctx, logits)
    return ops.selective_log_softmax_backward(
        logits, ids, mask, lse, dlogp=(slope * dloss).contiguous(), dlogits=dlogits, temperature=ctx.temperature
    )
