"""Losses as modules, of the names that they have in liger_kernel.transformers."""
from torch import nn

from tigon import _groups
from tigon.liger import ops
from tigon.liger.ops.vocab_parallel_cross_entropy import processes_of, validate_formula_and_mode
from tigon.liger.transformers.functional import losses


class _TokenLoss(nn.Module):
    """What the losses over a vocabulary are given alike, and the further results that they are asked for."""

    def __init__(self, ignore_index, lse_square_scale, label_smoothing, reduction, softcap, *asked):
        super().__init__()
        assert 0 <= label_smoothing <= 1, f"label_smoothing is {label_smoothing}, expected 0 to 1"
        assert reduction in ("mean", "sum", "none"), f"reduction is {reduction!r}, expected 'mean', 'sum' or 'none'"
        assert softcap is None or softcap > 0, f"softcap is {softcap}, expected None or more than 0"
        self.options = ignore_index, lse_square_scale, label_smoothing, reduction, softcap
        self.asked = asked


class LigerCrossEntropyLoss(_TokenLoss):
    def __init__(
        self,
        weight=None,
        ignore_index=-100,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
        return_z_loss=False,
        return_token_accuracy=False,
        return_predicted_tokens=False,
    ):
        options = ignore_index, lse_square_scale, label_smoothing, reduction, softcap
        super().__init__(*options, return_z_loss, return_token_accuracy, return_predicted_tokens)
        self.weight = weight

    def forward(self, _input, target):
        results = ops.LigerCrossEntropyFunction.apply(_input, target, self.weight, *self.options, *self.asked)
        return losses(results, *self.asked)


class LigerFusedLinearCrossEntropyLoss(_TokenLoss):
    def __init__(
        self,
        ce_weight=None,
        ignore_index=-100,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
        return_z_loss=False,
        accum_dtype=None,
        use_token_scaling=False,
        return_token_accuracy=False,
        return_predicted_tokens=False,
    ):
        options = ignore_index, lse_square_scale, label_smoothing, reduction, softcap
        super().__init__(*options, return_z_loss, return_token_accuracy, return_predicted_tokens)
        self.ce_weight = ce_weight
        self.accum_dtype, self.use_token_scaling = accum_dtype, use_token_scaling

    def forward(self, lin_weight, _input, target, bias=None):
        return_z_loss, *further = self.asked
        results = ops.LigerFusedLinearCrossEntropyFunction.apply(
            _input,
            lin_weight,
            target,
            bias,
            self.ce_weight,
            *self.options,
            return_z_loss,
            self.accum_dtype,
            self.use_token_scaling,
            *further,
        )
        return losses(results, *self.asked)


class LigerFusedCETVDLoss(nn.Module):
    def __init__(self, ignore_index=-100):
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, student_logits, teacher_logits, target):
        return ops.LigerFusedCETVDFunction.apply(student_logits, teacher_logits, target, self.ignore_index)


class LigerFusedLinearJSD(nn.Module):
    def __init__(self, jsd_beta=0.5, ignore_index=-100, temperature=1.0, accum_dtype=None):
        super().__init__()
        assert temperature != 0, "temperature is 0"
        self.options = jsd_beta, ignore_index, temperature, accum_dtype

    def forward(self, student_input, student_weight, teacher_input, teacher_weight, shift_labels=None):
        return ops.LigerFusedLinearJSDFunction.apply(
            student_input, student_weight, teacher_input, teacher_weight, shift_labels, *self.options
        )


class LigerFusedLinearKLDivLoss(nn.Module):
    def __init__(self, reduction="batchmean", ignore_index=-100, temperature=1.0, eps=1e-10, accum_dtype=None):
        super().__init__()
        assert temperature != 0, "temperature is 0"
        self.options = reduction, ignore_index, temperature, eps, accum_dtype

    def forward(self, student_input, student_weight, target, shift_labels=None):
        return ops.LigerFusedLinearKLDivFunction.apply(student_input, student_weight, target, shift_labels, *self.options)


class LigerJSD(nn.Module):
    def __init__(self, beta=0.5, ignore_index=-100):
        super().__init__()
        self.beta, self.ignore_index = beta, ignore_index

    def forward(self, log_q, log_p, shift_labels=None):
        return ops.LigerJSDFunction.apply(log_q, log_p, shift_labels, self.beta, self.ignore_index)


class LigerKLDIVLoss(nn.KLDivLoss):
    def __init__(self, eps=1e-10, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.eps = eps

    def forward(self, y_pred, y_true):
        return ops.LigerKLDivLossFunction.apply(y_pred, y_true, self.reduction, self.log_target, self.eps)


class LigerTVDLoss(nn.Module):
    def __init__(self, reduction="batchmean", ignore_index=-100):
        super().__init__()
        self.reduction, self.ignore_index = reduction, ignore_index

    def forward(self, p, q, shift_labels=None):
        return ops.LigerTVDLossFunction.apply(p, q, shift_labels, self.reduction, self.ignore_index)


class LigerVocabParallelCrossEntropy(nn.Module):
    """Losses [seq, batch] of logits [seq, batch, vocab], of which each process of tp_group has a slice."""

    def __init__(
        self,
        ignore_index=-100,
        label_smoothing=0.0,
        reduction="none",
        label_smoothing_formula="pytorch",
        label_smoothing_mode="global",
    ):
        super().__init__()
        if reduction != "none":
            raise ValueError(f"reduction must be 'none', since there is a loss a token; it is {reduction!r}")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1); it is {label_smoothing}")
        validate_formula_and_mode(label_smoothing_formula, label_smoothing_mode)
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, label_smoothing, reduction
        self.label_smoothing_formula, self.label_smoothing_mode = label_smoothing_formula, label_smoothing_mode

    def forward(self, vocab_parallel_logits, target, tp_group=None):
        function = ops.LigerVocabParallelCEFunction.apply
        options = self.ignore_index, self.label_smoothing, self.label_smoothing_formula, self.label_smoothing_mode
        if processes_of(tp_group) > 1:
            return _groups.across(function, vocab_parallel_logits, target, tp_group, *options)
        return function(vocab_parallel_logits, target, tp_group, *options)

    def extra_repr(self):
        names = "ignore_index", "label_smoothing", "reduction", "label_smoothing_formula", "label_smoothing_mode"
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
