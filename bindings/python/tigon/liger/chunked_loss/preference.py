"""The losses of pairs of a chosen and a rejected sequence, under the names of liger_kernel.chunked_loss. compiled and chunk_size are taken
and mean nothing: operators need no compiler, and chunks are cut by the memory of their logits."""
import torch

from tigon.liger.chunked_loss._last_layer import LastLayer, Loss, finish, gradients_of, wanted_of
from tigon.liger.ops._shared import Function
from tigon.liger.ops._traced import ops

BIAS_AT = 3
LOSS_TYPES = (
    "sigmoid", "hinge", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop"
)  # fmt: skip


def of_sequences(logp, target, ignore_index, average):
    """The log-probabilities of sequences [G,n] from those of their tokens, and what each token counts in its sequence's [G,n,1]."""
    share = torch.ones_like(logp[..., :1])
    if average:
        share = share / (target != ignore_index).sum(-1, keepdim=True).clamp(min=1)
    return (logp * share).sum(-1), share


def pairs(target, name):
    """[2,N,S] of targets of chosen sequences and then rejected ones."""
    if target.shape[0] % 2:
        raise ValueError(f"{name} has {target.shape[0]} sequences, expected an even number: the chosen ones and the rejected ones")
    return target.reshape(2, target.shape[0] // 2, *target.shape[1:])


def nll_of(layer, x, nll_target, ignore_index, weight):
    """The loss of other labels of the chosen sequences, whose gradients are added to the layer's."""
    labels = pairs(nll_target, "nll_target")[:1]
    count = (labels != ignore_index).sum().clamp(min=1)
    other = LastLayer(x[: x.shape[0] // 2], *layer.given[1:], wanted=layer.wanted, ignore_index=ignore_index)
    other.sums = layer.sums
    losses = []

    def loss(part, logp):
        losses.append(-logp.sum())
        return torch.full_like(logp, -weight) / count

    other.run(labels, loss)
    if layer.dx is not None:
        layer.dx[:1] += other.dx
    return sum(losses) / count


def paired(
    ctx, _input, weight, target, bias, ignore_index, average, nll, loss_type, options,
    alpha=1.0, nll_target=None, reference=None, further=None,
):  # fmt: skip
    """What forward of a Function returns. reference: hidden states, weight and bias of another model; further: metrics from the margins."""
    targets = pairs(target, "target")
    layer = LastLayer(_input, weight, bias, 2, wanted_of(ctx, BIAS_AT), ignore_index, again=nll_target is not None)
    other = reference and LastLayer(*reference, 2, ignore_index=ignore_index)
    count, labels = max(targets.shape[1], 1), (targets[0] != ignore_index).sum().clamp(min=1)
    of_target = nll and nll_target is None
    losses, rewards, margins, sums, nlls = [], [], [], [], []

    def loss(part, logp):
        of_part = targets[part]
        of_pairs, share = of_sequences(logp, of_part, ignore_index, average)
        ref = of_sequences(other.logp(of_part, part), of_part, ignore_index, average)[0] if other else None
        call = {"loss_type": loss_type, "reduction": "sum", **options}
        found = ops.preference_loss_forward(of_pairs, ref, loss=True, rewards=True, margin=True, **call)
        for kept, value in zip((losses, rewards, margins, sums, nlls), (*found, of_pairs, -logp[0].sum())):
            kept.append(value)
        slope = ops.preference_loss_backward(of_pairs, ref, dlogp=True, **call) / count
        dlogp = slope.unsqueeze(-1) * share.expand_as(logp)
        if of_target:
            dlogp[0] -= alpha / labels
        return dlogp

    layer.run(targets, loss)
    mean_nll = torch.zeros((), device=target.device)
    if of_target:
        mean_nll = sum(nlls) / labels
    elif nll:
        mean_nll = nll_of(layer, _input, nll_target, ignore_index, alpha)
    metrics = (*torch.cat(sums, 1), *layer.mean_logits().mean(1), mean_nll, *torch.cat(rewards, 1))
    if further:
        metrics += further(torch.cat(margins))
    return finish(ctx, layer, sum(losses) / count + alpha * mean_nll, metrics, BIAS_AT)


class LigerFusedLinearCPOFunction(Function):
    @staticmethod
    def forward(
        ctx, _input, weight, target, bias=None, ignore_index=-100, beta=0.1, alpha=1.0, label_smoothing=0.0, compute_nll_loss=True,
        compiled=True, average_log_prob=False, chunk_size=1,
    ):  # fmt: skip
        options = {"beta": beta, "label_smoothing": label_smoothing}
        return paired(ctx, _input, weight, target, bias, ignore_index, average_log_prob, compute_nll_loss, "sigmoid", options, alpha)

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


class LigerFusedLinearSimPOFunction(Function):
    @staticmethod
    def forward(
        ctx, _input, weight, target, bias=None, ignore_index=-100, beta=0.1, alpha=1.0, label_smoothing=0.0, compute_nll_loss=False,
        compiled=True, gamma=0.5, chunk_size=1,
    ):  # fmt: skip
        options = {"beta": beta, "label_smoothing": label_smoothing, "gamma": gamma}
        return paired(ctx, _input, weight, target, bias, ignore_index, True, compute_nll_loss, "sigmoid", options, alpha)

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


def odds(margins):
    return torch.nn.functional.logsigmoid(margins).mean(), margins.mean()


class LigerFusedLinearORPOFunction(Function):
    @staticmethod
    def forward(
        ctx, _input, weight, target, bias=None, ignore_index=-100, beta=0.1, compute_nll_loss=True, nll_target=None, compiled=True,
        chunk_size=1,
    ):  # fmt: skip
        return paired(
            ctx, _input, weight, target, bias, ignore_index, True, compute_nll_loss, "orpo", {"beta": beta},
            nll_target=nll_target, further=odds,
        )  # fmt: skip

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


def check_dpo(loss_type, label_smoothing):
    if loss_type == "ipo":
        raise NotImplementedError("loss_type 'ipo' is not supported: it needs the number of tokens of each sequence")
    if loss_type not in LOSS_TYPES:
        raise ValueError(f"Unsupported loss_type: {loss_type}. Supported types are: {', '.join(LOSS_TYPES)}")
    if loss_type == "exo_pair" and label_smoothing <= 0:
        raise ValueError("label_smoothing must be > 0 for loss_type='exo_pair', for example 1e-3")
    if loss_type == "robust" and not 0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing must lie in [0.0, 0.5) for loss_type='robust'. Got {label_smoothing}.")


class LigerFusedLinearDPOFunction(Function):
    """label_smoothing is that of exo_pair and robust; sigmoid has none, as in Liger."""

    @staticmethod
    def forward(
        ctx, _input, weight, target, bias=None, ref_input=None, ref_weight=None, ref_bias=None, ignore_index=-100, beta=0.1,
        compute_nll_loss=False, compiled=True, use_ref_model=True, average_log_prob=False, chunk_size=1, loss_type="sigmoid",
        label_smoothing=0.0, discopop_tau=0.05, alpha=1.0,
    ):  # fmt: skip
        check_dpo(loss_type, label_smoothing)
        options = {"beta": beta, "discopop_tau": discopop_tau}
        if loss_type in ("exo_pair", "robust"):
            options["label_smoothing"] = label_smoothing
        reference = (ref_input, ref_weight, ref_bias) if use_ref_model else None
        return paired(
            ctx, _input, weight, target, bias, ignore_index, average_log_prob, compute_nll_loss, loss_type, options, alpha,
            reference=reference,
        )  # fmt: skip

    @staticmethod
    def backward(ctx, grad_output, *unused):
        return gradients_of(ctx, grad_output)


class LigerFusedLinearCPOLoss(Loss):
    def __init__(
        self, ignore_index=-100, beta=0.1, alpha=1.0, label_smoothing=0.0, compute_nll_loss=True, compiled=True, average_log_prob=False,
        chunk_size=1,
    ):  # fmt: skip
        super().__init__(locals())

    def forward(self, lin_weight, _input, target, bias=None):
        return LigerFusedLinearCPOFunction.apply(
            _input, lin_weight, target, bias, self.ignore_index, self.beta, self.alpha, self.label_smoothing, self.compute_nll_loss,
            self.compiled, self.average_log_prob, self.chunk_size,
        )  # fmt: skip


class LigerFusedLinearSimPOLoss(Loss):
    def __init__(
        self, ignore_index=-100, beta=0.1, alpha=1.0, label_smoothing=0.0, compute_nll_loss=True, compiled=True, gamma=0.5, chunk_size=1
    ):
        super().__init__(locals())

    def forward(self, lin_weight, _input, target, bias=None):
        return LigerFusedLinearSimPOFunction.apply(
            _input, lin_weight, target, bias, self.ignore_index, self.beta, self.alpha, self.label_smoothing, self.compute_nll_loss,
            self.compiled, self.gamma, self.chunk_size,
        )  # fmt: skip


class LigerFusedLinearORPOLoss(Loss):
    def __init__(self, ignore_index=-100, beta=0.1, compute_nll_loss=True, compiled=True, chunk_size=1):
        super().__init__(locals())

    def forward(self, lin_weight, _input, target, bias=None, nll_target=None):
        return LigerFusedLinearORPOFunction.apply(
            _input, lin_weight, target, bias, self.ignore_index, self.beta, self.compute_nll_loss, nll_target, self.compiled,
            self.chunk_size,
        )  # fmt: skip


class LigerFusedLinearDPOLoss(Loss):
    def __init__(
        self, ignore_index=-100, beta=0.1, alpha=1.0, compute_nll_loss=False, compiled=True, use_ref_model=True, average_log_prob=False,
        chunk_size=1, loss_type="sigmoid", label_smoothing=0.0, discopop_tau=0.05,
    ):  # fmt: skip
        super().__init__(locals())
        check_dpo(loss_type, label_smoothing)

    def forward(self, lin_weight, _input, target, bias=None, ref_input=None, ref_weight=None, ref_bias=None):
        return LigerFusedLinearDPOFunction.apply(
            _input, lin_weight, target, bias, ref_input, ref_weight, ref_bias, self.ignore_index, self.beta, self.compute_nll_loss,
            self.compiled, self.use_ref_model, self.average_log_prob, self.chunk_size, self.loss_type, self.label_smoothing,
            self.discopop_tau, self.alpha,
        )  # fmt: skip
