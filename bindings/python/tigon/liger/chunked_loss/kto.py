"""The loss of single sequences that are preferred or not, under the names of liger_kernel.chunked_loss. compiled and chunk_size are taken and
mean nothing, as in preference.py."""
import torch

from tigon.liger.chunked_loss._last_layer import LastLayer, Loss, finish, gradients_of, wanted_of
from tigon.liger.chunked_loss.preference import of_sequences
from tigon.liger.ops._shared import Function
from tigon.liger.ops._traced import ops

BIAS_AT = 4


class LigerFusedLinearKTOFunction(Function):
    """The loss, and sums over the preferred sequences and over the others: log-probabilities, logits, rewards."""

    @staticmethod
    def forward(
        ctx, _input, weight, target, preference_labels, bias=None, ref_input=None, ref_weight=None, ref_bias=None, kl=None,
        ignore_index=-100, beta=0.1, compiled=True, use_ref_model=True, average_log_prob=False, chunk_size=1,
    ):  # fmt: skip
        assert preference_labels is not None, "preference_labels is None, expected a label of each sequence"
        targets, count = target.unsqueeze(0), max(target.shape[0], 1)
        layer = LastLayer(_input, weight, bias, 1, wanted_of(ctx, BIAS_AT), ignore_index)
        other = LastLayer(ref_input, ref_weight, ref_bias, ignore_index=ignore_index) if use_ref_model else None
        kl = None if kl is None else torch.as_tensor(kl, device=target.device).reshape(-1)
        losses, rewards, sums = [], [], []

        def loss(part, logp):
            of_part = targets[part]
            of_each, share = of_sequences(logp, of_part, ignore_index, average_log_prob)
            ref = of_sequences(other.logp(of_part, part), of_part, ignore_index, average_log_prob)[0] if other else None
            given = of_each, ref, preference_labels[part[1]], kl if kl is None or kl.numel() == 1 else kl[part[1]]
            call = {"loss_type": "kto", "reduction": "sum", "beta": beta}
            found = ops.preference_loss_forward(*given, loss=True, rewards=True, **call)
            for kept, value in zip((losses, rewards, sums), (*found, of_each)):
                kept.append(value)
            slope = ops.preference_loss_backward(*given, dlogp=True, **call) / count
            return slope.unsqueeze(-1) * share.expand_as(logp)

        layer.run(targets, loss)
        chosen = preference_labels.bool()
        of_logits = layer.mean_logits()[0] * (target.shape[1] * weight.shape[0])
        numbers = torch.cat(sums, 1)[0], of_logits, torch.cat(rewards, 1)[0]
        metrics = [(x * which).sum() for x in numbers for which in (chosen, ~chosen)]
        return finish(ctx, layer, sum(losses) / count, metrics, BIAS_AT)

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


class LigerFusedLinearKTOLoss(Loss):
    def __init__(self, ignore_index=-100, beta=0.1, compiled=True, use_ref_model=False, average_log_prob=False, chunk_size=1):
        super().__init__(locals())

    def forward(
        self, _input, lin_weight, target, bias=None, preference_labels=None, ref_input=None, ref_weight=None, ref_bias=None, kl=None
    ):
        return LigerFusedLinearKTOFunction.apply(
            _input, lin_weight, target, preference_labels, bias, ref_input, ref_weight, ref_bias, kl, self.ignore_index, self.beta,
            self.compiled, self.use_ref_model, self.average_log_prob, self.chunk_size,
        )  # fmt: skip
