"""cross_entropy under Liger-Kernel's names. The logits stay as they are."""
import torch

from tigon.liger.ops._shared import Function, check_class_weight, check_targets, like, rows, scaled
from tigon.liger.ops._traced import ops


def options_of(ignore_index, lse_square_scale, label_smoothing, reduction, softcap):
    return {
        "ignore_index": ignore_index,
        "lse_square_scale": lse_square_scale,
        "label_smoothing": label_smoothing,
        "reduction": reduction,
        "softcap": softcap or 0.0,
    }


def asked(return_z_loss, return_token_accuracy, return_predicted_tokens):
    """The further outputs of the losses that a call asks for."""
    flags = {"z_loss": return_z_loss, "accuracy": return_token_accuracy, "predicted": return_predicted_tokens}
    for name, flag in flags.items():
        assert isinstance(flag, bool), f"whether to return {name} is {flag!r}, expected True or False"
    return [name for name, flag in flags.items() if flag]


def outputs_of(losses, rows_of, reduction, lse=False):
    """Tensors to write the losses to, one number each or one a row."""
    made = {
        name: torch.empty(rows_of.shape if reduction == "none" else (), dtype=torch.float32, device=rows_of.device)
        for name in ("loss", *losses)
        if name != "predicted"
    }
    if "predicted" in losses:
        made["predicted"] = like(rows_of, torch.int64)
    if lse:
        made["lse"] = like(rows_of, torch.float32)
    return made


def results(made, dtype):
    """(loss, z_loss, accuracy, predicted) with losses in the type of the logits."""
    z_loss = made.get("z_loss")
    return made["loss"].to(dtype), z_loss if z_loss is None else z_loss.to(dtype), made.get("accuracy"), made.get("predicted")


def cross_entropy_forward(
    _input,
    target,
    weight,
    ignore_index,
    lse_square_scale,
    label_smoothing,
    reduction,
    softcap,
    return_z_loss,
    return_token_accuracy=False,
    return_predicted_tokens=False,
):
    """The four results, and the gradient of the logits for an upstream gradient of 1 (the logits themselves, if none is needed)."""
    check_targets(target, ignore_index, _input.shape[-1])
    check_class_weight(weight, _input.shape[-1])
    made = outputs_of(asked(return_z_loss, return_token_accuracy, return_predicted_tokens), target, reduction)
    gradient = {"dlogits": like(_input)} if _input.requires_grad else {}
    options = options_of(ignore_index, lse_square_scale, label_smoothing, reduction, softcap)
    ops.cross_entropy_forward(rows(_input), target, class_weight=weight, **made, **gradient, **options)
    return (*results(made, _input.dtype), gradient.get("dlogits", _input))


def cross_entropy_backward(_input, grad_output):
    """_input: the gradient that forward returned."""
    return scaled(grad_output.unsqueeze(-1) if grad_output.dim() else grad_output, _input)[0]


class LigerCrossEntropyFunction(Function):
    @staticmethod
    def forward(
        ctx,
        _input,
        target,
        weight,
        ignore_index=-100,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
        return_z_loss=False,
        return_token_accuracy=False,
        return_predicted_tokens=False,
    ):
        check_targets(target, ignore_index, _input.shape[-1])
        check_class_weight(weight, _input.shape[-1])
        needs = ctx.needs_input_grad[0]
        made = outputs_of(asked(return_z_loss, return_token_accuracy, return_predicted_tokens), target, reduction, lse=needs)
        ctx.options = options_of(ignore_index, lse_square_scale, label_smoothing, reduction, softcap)
        logits = rows(_input)
        ops.cross_entropy_forward(logits, target, class_weight=weight, **made, **ctx.options)
        if needs:
            ctx.save_for_backward(logits, target, weight, made["lse"])
        outputs = results(made, _input.dtype)
        ctx.mark_non_differentiable(*(x for x in outputs[1:] if x is not None))
        return outputs

    @staticmethod
    def backward(ctx, grad_output, *unused):
        logits, target, weight, lse = ctx.saved_tensors
        dlogits = ops.cross_entropy_backward(
            logits, target, class_weight=weight, lse=lse, dloss=grad_output.contiguous(), dlogits=like(logits), **ctx.options
        )
        return (dlogits, *(None,) * 10)
