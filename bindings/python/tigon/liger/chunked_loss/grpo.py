"""The losses of policies, under the names of liger_kernel.chunked_loss. compiled and chunk_size are taken and mean nothing, as in
preference.py."""
import warnings

import torch
import torch.distributed as dist

from tigon.liger.chunked_loss._last_layer import LastLayer, Loss, finish, gradients_of, wanted_of
from tigon.liger.ops._shared import Function
from tigon.liger.ops._traced import ops
from tigon.liger.ops.grpo_loss import LOSS_TYPES, OVER_ITEMS, TOKEN_LEVEL_ALONE

BIAS_AT = 5
IGNORED = -100  # the target of a token that is left out


def items_of(mask, num_items_in_batch=None):
    """What losses that are averaged over all items of a step are divided by: a process's share of the items of all, at least 1."""
    processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if num_items_in_batch is None:
        items = mask.float().sum()
        if processes > 1:
            dist.all_reduce(items)
    else:
        items = torch.as_tensor(num_items_in_batch, dtype=torch.float32, device=mask.device)
    return (items / processes).clamp(min=1)


def weights_of(loss_type, kept, max_completion_length, num_items_in_batch):
    """What each token counts in the loss [B,S]."""
    batch, length = kept.shape
    mask, own = kept.float(), kept.sum(-1, keepdim=True).clamp(min=1)
    if loss_type in OVER_ITEMS:
        return mask / items_of(mask, num_items_in_batch)
    if loss_type == "bnpo":
        return mask / mask.sum().clamp(min=1)
    if loss_type == "dr_grpo":
        return mask / (batch * max_completion_length)
    if loss_type == "luspo":  # as in TRL and Liger also tokens that the mask leaves out, whose divergence so counts
        return (mask.sum(-1, keepdim=True) / (batch * length)).expand_as(mask)
    return mask / (batch * own)


def check(loss_type, level, max_completion_length, use_ref_model, ref_logps, ref_input, is_ratio, mask):
    if loss_type not in LOSS_TYPES:
        raise ValueError(f"Unknown loss type: {loss_type}. Possible values are {', '.join(LOSS_TYPES)}")
    if level not in ("token", "sequence"):
        raise ValueError(f"Unknown importance sampling level: {level}. Possible values are 'token' and 'sequence'.")
    if level == "sequence" and loss_type in TOKEN_LEVEL_ALONE:
        raise ValueError(f"Sequence-level importance sampling is not supported for loss_type='{loss_type}'")
    assert loss_type != "dr_grpo" or max_completion_length is not None, "loss_type is 'dr_grpo', which needs max_completion_length"
    if use_ref_model:
        assert ref_logps is not None or ref_input is not None, "use_ref_model needs ref_per_token_logps or ref_input"
        if ref_logps is not None and ref_input is not None:
            warnings.warn("Both ref_per_token_logps and ref_input are provided. Using ref_per_token_logps.")
    shapes = mask.shape[:1], (mask.shape[0], 1), mask.shape
    assert is_ratio is None or is_ratio.shape in shapes, f"vllm_is_ratio is {tuple(is_ratio.shape)}, expected one of {shapes}"


class Policy:
    """policy_loss of some sequences, each token counted by `weights` in what is added up."""

    def __init__(self, kept, advantages, old_logp, ref_logp, is_ratio, weights, options):
        self.kept, self.weights, self.options = kept, weights, options
        self.tensors = {"advantages": advantages, "old_logp": old_logp, "ref_logp": ref_logp, "is_ratio": is_ratio}
        self.loss, self.kl, self.clipped = [], [], []

    def arguments(self, logp, part, ref_logp):
        """Of luspo all tokens count in the loss, and the kept ones in the ratio. Of vespo the sampler's ratios of all tokens count in the
        ratio, and of the policy's those of kept tokens."""
        given = {n: t if t is None else t[part[: t.dim()]] if t.shape[1:] != (1,) else t[part[0]] for n, t in self.tensors.items()}
        given["mask"] = kept = self.kept[part]
        if ref_logp is not None:
            given["ref_logp"] = ref_logp
        if self.options["beta"] != 0 and given["ref_logp"] is None:
            given["ref_logp"] = logp
        if self.options["loss_type"] == "luspo":
            given["mask"], given["ratio_mask"] = None, kept
        elif self.options["loss_type"] == "vespo" and given["is_ratio"] is not None and given["is_ratio"].shape == kept.shape:
            given["ratio_mask"] = torch.ones_like(kept)
            if given["old_logp"] is not None:
                given["old_logp"] = torch.where(kept, given["old_logp"], logp)
        return given

    def __call__(self, logp, part, ref_logp):
        """The derivatives of the sum by logp [n,S]."""
        given = self.arguments(logp, part, ref_logp)
        wanted = {"loss": True, "clipped": True, "kl": self.options["beta"] != 0}
        loss, *found = ops.policy_loss_forward(logp, **given, **wanted, reduction="none", **self.options)
        self.loss.append((self.weights[part] * loss).sum())
        for kept, value in zip((self.kl, self.clipped)[2 - len(found) :], found):
            kept.append((self.kept[part] * value).sum())
        return ops.policy_loss_backward(
            logp, **given, dloss=self.weights[part], dlogp=True, reduction="none", **self.options
        )  # fmt: skip

    def metrics(self):
        """Means over the kept tokens: the divergence, if it is in the loss, and how many were clipped."""
        count = self.kept.sum().clamp(min=1)
        return [sum(x) / count for x in (self.kl, self.clipped) if x]


class LigerFusedLinearGRPOFunction(Function):
    """The loss, and the means over kept tokens of the divergence, if beta is not 0, and of what was clipped."""

    @staticmethod
    def forward(
        ctx, _input, weight, selected_token_ids, attention_mask, advantages, bias=None, ref_per_token_logps=None, old_per_token_logps=None,
        ref_input=None, ref_weight=None, ref_bias=None, beta=0.04, epsilon_low=0.2, epsilon_high=0.2, loss_type="dapo",
        max_completion_length=None, importance_sampling_level="token", sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
        temperature=1.0, compiled=True, use_ref_model=True, chunk_size=1, vllm_is_ratio=None, delta=None, use_bias_correction_kl=False,
        vespo_k_pos=2.0, vespo_lambda_pos=3.0, vespo_k_neg=3.0, vespo_lambda_neg=2.0, num_items_in_batch=None,
    ):  # fmt: skip
        check(
            loss_type, importance_sampling_level, max_completion_length, use_ref_model, ref_per_token_logps, ref_input, vllm_is_ratio,
            attention_mask,
        )  # fmt: skip
        options = {"loss_type": loss_type, "importance_sampling_level": importance_sampling_level, "beta": float(beta)}
        options.update(eps_low=float(epsilon_low), eps_high=float(epsilon_high), use_bias_correction_kl=int(use_bias_correction_kl))
        if loss_type == "sapo":
            options.update(sapo_temperature_pos=sapo_temperature_pos, sapo_temperature_neg=sapo_temperature_neg)
        if loss_type == "vespo":
            options.update(vespo_k_pos=vespo_k_pos, vespo_lambda_pos=vespo_lambda_pos)
            options.update(vespo_k_neg=vespo_k_neg, vespo_lambda_neg=vespo_lambda_neg)
        if delta is not None and loss_type not in TOKEN_LEVEL_ALONE:
            options["delta"] = delta
        kept = attention_mask != 0
        targets = selected_token_ids if loss_type == "luspo" else selected_token_ids.masked_fill(~kept, IGNORED)
        layer = LastLayer(_input, weight, bias, 1, wanted_of(ctx, BIAS_AT), IGNORED, temperature)
        other, ref_logps = None, ref_per_token_logps if use_ref_model else None
        if use_ref_model and ref_logps is None and beta != 0:
            other = LastLayer(ref_input, ref_weight, ref_bias, ignore_index=IGNORED, temperature=temperature)
        weights = weights_of(loss_type, kept, max_completion_length, num_items_in_batch)
        policy = Policy(kept, advantages, old_per_token_logps, ref_logps, vllm_is_ratio, weights, options)

        def loss(part, logp):
            of_other = other.logp(targets[None][part], part)[0] if other else None
            return policy(logp[0], part[1:], of_other)[None]

        layer.run(targets[None], loss, of_tokens=importance_sampling_level == "token" and loss_type != "vespo")
        return finish(ctx, layer, sum(policy.loss), policy.metrics(), BIAS_AT)

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


class LigerFusedLinearPPOBase:
    """What stands under this name in Liger and is of use by itself."""

    _compute_dapo_normalizer = staticmethod(items_of)

    @staticmethod
    def chunk_forward(input_chunk, weight, selected_token_ids, bias=None, temperature=1.0):
        """Log-probabilities of the tokens [B,S], with gradients."""
        from tigon.torch import fused_linear_logp

        return fused_linear_logp(input_chunk, weight, selected_token_ids, bias, temperature=float(temperature))


class LigerFusedLinearGRPOLoss(Loss):
    def __init__(
        self, beta=0.04, compiled=True, use_ref_model=True, chunk_size=1, epsilon_low=0.2, epsilon_high=0.2, loss_type="dapo",
        max_completion_length=None, importance_sampling_level="token", sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
        temperature=1.0, delta=None, use_bias_correction_kl=False, vespo_k_pos=2.0, vespo_lambda_pos=3.0, vespo_k_neg=3.0,
        vespo_lambda_neg=2.0,
    ):  # fmt: skip
        super().__init__(locals())
        for name in ("sapo_temperature_pos", "sapo_temperature_neg", "delta"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def forward(
        self, _input, lin_weight, selected_token_ids, attention_mask, advantages, bias=None, ref_per_token_logps=None,
        old_per_token_logps=None, ref_input=None, ref_weight=None, ref_bias=None, vllm_is_ratio=None, num_items_in_batch=None,
    ):  # fmt: skip
        return LigerFusedLinearGRPOFunction.apply(
            _input, lin_weight, selected_token_ids, attention_mask, advantages, bias, ref_per_token_logps, old_per_token_logps,
            ref_input, ref_weight, ref_bias, self.beta, self.epsilon_low, self.epsilon_high, self.loss_type, self.max_completion_length,
            self.importance_sampling_level, self.sapo_temperature_pos, self.sapo_temperature_neg, self.temperature, self.compiled,
            self.use_ref_model, self.chunk_size, vllm_is_ratio, self.delta, self.use_bias_correction_kl, self.vespo_k_pos,
            self.vespo_lambda_pos, self.vespo_k_neg, self.vespo_lambda_neg, num_items_in_batch,
        )  # fmt: skip
