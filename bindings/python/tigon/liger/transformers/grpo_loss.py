"""The losses of policy gradients, under the name of liger_kernel.transformers.grpo_loss."""
import math

import torch

from tigon.liger import ops


def gamma_weights(advantages, log_ratio, mask, is_ratio, pos, neg):
    """vespo's weight phi of each sequence [B]; pos, neg: (k, lambda) for advantages of 0 or more, and below."""
    least = math.log(1e-8)
    log_weight = (log_ratio.clamp(-20, 20) * mask).sum(-1)
    if is_ratio is not None:
        log_weight = log_weight + is_ratio.expand_as(log_ratio).clamp(min=1e-8).log().clamp(least, 20).sum(-1)
    log_weight = log_weight.clamp(least, 20)
    rising = advantages >= 0
    k, rate = (torch.where(rising, p, n) for p, n in zip(pos, neg))
    rate = rate.clamp(min=1e-4)
    return torch.exp(rate + k * log_weight - rate * log_weight.exp()).nan_to_num(0, 0, 0)


def _phi(logits, old_logp, ids, advantages, mask, temperature, is_ratio, pos, neg):
    logp = ops.fused_selective_log_softmax(logits, ids, temperature, mask)
    log_ratio = torch.zeros_like(logp) if old_logp is None else logp - old_logp
    kept = torch.ones_like(logp) if mask is None else mask
    is_ratio = is_ratio.unsqueeze(-1) if is_ratio is not None and is_ratio.dim() == 1 else is_ratio
    pos, neg = ([torch.as_tensor(float(v), device=logp.device) for v in pair] for pair in (pos, neg))
    return gamma_weights(advantages, log_ratio, kept, is_ratio, pos, neg)


def triton_grpo_loss(
    logits,
    old_logp,
    ref_logp,
    completion_ids,
    advantages,
    completion_mask=None,
    temperature=0.9,
    beta=0.04,
    eps_low=0.2,
    eps_high=0.4,
    inplace=True,
    loss_type="dapo",
    max_completion_length=None,
    importance_sampling_level="token",
    reduce=False,
    sapo_temperature_pos=1.0,
    sapo_temperature_neg=1.05,
    vllm_is_ratio=None,
    delta=None,
    use_bias_correction_kl=False,
    num_items_in_batch=None,
    vespo_k_pos=2.0,
    vespo_lambda_pos=3.0,
    vespo_k_neg=3.0,
    vespo_lambda_neg=2.0,
):
    """(loss, kl or None, clipped) a token; with `reduce` (loss, [kl, clipped]) as means, kl only where beta is not 0."""
    phi = None
    if loss_type == "vespo":
        if importance_sampling_level == "sequence":
            raise ValueError("loss_type='vespo' requires importance_sampling_level='token'")
        pos, neg = (vespo_k_pos, vespo_lambda_pos), (vespo_k_neg, vespo_lambda_neg)
        phi = _phi(logits, old_logp, completion_ids, advantages, completion_mask, temperature, vllm_is_ratio, pos, neg)
        vllm_is_ratio = None
    loss, kl, clipped = ops.GrpoLossFunction.apply(
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
        loss_type,
        max_completion_length,
        reduce,
        importance_sampling_level,
        sapo_temperature_pos,
        sapo_temperature_neg,
        vllm_is_ratio,
        delta,
        use_bias_correction_kl,
        num_items_in_batch,
        phi,
    )
    if not reduce:
        return loss, kl, clipped
    return loss, [clipped] if kl is None else [kl, clipped]
