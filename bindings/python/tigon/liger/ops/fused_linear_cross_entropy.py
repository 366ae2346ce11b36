"""fused_linear_cross_entropy under Liger-Kernel's names. Sums over chunks are in f32, whatever accum_dtype says."""
import torch

from tigon._devices import keeps_logits
from tigon.liger.ops._shared import Function, check_class_weight, check_targets, like, rows, scaled
from tigon.liger.ops._traced import ops
from tigon.liger.ops.cross_entropy import asked, options_of, outputs_of, results


def operands(*tensors):
    """Factors of a linear layer in the type that it has under autocast, else in their common one. None stays None."""
    given = [t for t in tensors if t is not None]
    device = given[0].device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    else:
        dtype = given[0].dtype
        for t in given[1:]:
            dtype = torch.promote_types(dtype, t.dtype)
    return tuple(None if t is None else rows(t.to(dtype)) for t in tensors)


def as_given(gradients, tensors):
    """Gradients in the types of what they are gradients of."""
    return tuple(None if g is None else g.to(t.dtype) for g, t in zip(gradients, tensors))


NAMES = ("dx", "dweight", "dbias")


def _gradients(wanted, tensors):
    """Tensors to write the gradients to that are wanted of x, weight and bias."""
    return {name: like(t) for name, t, want in zip(NAMES, tensors, wanted) if want and t is not None}


def _in_order(gradients):
    return tuple(gradients.get(name) for name in NAMES)


def _call(op, tensors, target, ce_weight, outputs, options):
    x, weight, bias = tensors
    op(x, weight, target, bias=bias, class_weight=ce_weight, **outputs, **options)


def _forward(tensors, target, ce_weight, names, wanted, options, lse=False, **others):
    """The losses by name, and the gradients that are wanted."""
    classes = tensors[1].shape[0]
    check_targets(target, options["ignore_index"], classes)
    check_class_weight(ce_weight, classes)
    made = outputs_of(names, target, options["reduction"], lse=lse)
    gradients = _gradients(wanted, tensors)
    _call(ops.fused_linear_cross_entropy_forward, tensors, target, ce_weight, {**made, **gradients, **others}, options)
    return made, gradients


def _results(made, dtype):
    """The losses in Liger's order and types: the z-loss has that of the hidden states."""
    loss, z_loss, *others = results(made, torch.float32)
    return (loss, None if z_loss is None else z_loss.to(dtype), *others)


def fused_linear_cross_entropy_forward(
    _input,
    weight,
    target,
    ce_weight=None,
    bias=None,
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
    ce_impl=None,
    ce_mode=None,
    token_grad_output=None,
    compute_gradients=None,
    weight_requires_grad=None,
    chunk_mem_const=1,
):
    """The four results, and the gradients of _input, weight and bias for an upstream gradient of 1, or token_grad_output a row."""
    if isinstance(chunk_mem_const, bool) or not isinstance(chunk_mem_const, int) or chunk_mem_const < 1:
        raise ValueError(f"chunk_mem_const must be a positive integer. Got: {chunk_mem_const!r}")
    given = _input, weight, bias
    needed = _input.requires_grad if compute_gradients is None else compute_gradients
    weight_needed = weight.requires_grad if weight_requires_grad is None else weight_requires_grad
    names = asked(return_z_loss, return_token_accuracy, return_predicted_tokens)
    options = options_of(ignore_index, lse_square_scale, label_smoothing, reduction, softcap)
    options["token_scaling"] = use_token_scaling
    upstream = {} if token_grad_output is None else {"dloss": token_grad_output.contiguous()}
    wanted = needed, needed and weight_needed, needed
    made, gradients = _forward(operands(*given), target, ce_weight, names, wanted, options, **upstream)
    return (*_results(made, _input.dtype), *as_given(_in_order(gradients), given))


def fused_linear_cross_entropy_backward(grad_output, grad_input, grad_weight, grad_bias):
    return scaled(grad_output, grad_input, grad_weight, grad_bias)


class LigerFusedLinearCrossEntropyFunction(Function):
    """Gradients of a mean or a sum are computed in the forward pass, with the logits at hand; those of single losses in backward."""

    supports_inner_impl_dispatch = True

    @staticmethod
    def forward(
        ctx,
        _input,
        weight,
        target,
        bias=None,
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
        ce_impl=None,
        ce_mode=None,
        chunk_mem_const=1,
    ):
        ctx.wanted = tuple(i < len(ctx.needs_input_grad) and ctx.needs_input_grad[i] for i in (0, 1, 3))
        ctx.types = tuple(None if t is None else t.dtype for t in (_input, weight, bias))
        ctx.later = reduction == "none" and any(ctx.wanted)
        tensors = operands(_input, weight, bias)
        names = asked(return_z_loss, return_token_accuracy, return_predicted_tokens)
        ctx.options = options_of(ignore_index, lse_square_scale, label_smoothing, reduction, softcap)
        ctx.options["token_scaling"] = use_token_scaling
        wanted = () if ctx.later else ctx.wanted
        x, head, _ = tensors
        kept = ctx.later and keeps_logits(head, target)
        logits = {"logits": x.new_empty(*x.shape[:-1], head.shape[0], dtype=torch.float32)} if kept else {}
        made, gradients = _forward(tensors, target, ce_weight, names, wanted, ctx.options, lse=ctx.later, **logits)
        ctx.save_for_backward(*((*tensors, target, ce_weight, made["lse"], logits.get("logits")) if ctx.later else _in_order(gradients)))
        outputs = _results(made, _input.dtype)
        ctx.mark_non_differentiable(*(x for x in outputs[1:] if x is not None))
        return outputs

    @staticmethod
    def backward(ctx, grad_output, *unused):
        if ctx.later:
            *tensors, target, ce_weight, lse, logits = ctx.saved_tensors
            gradients = _gradients(ctx.wanted, tensors)
            upstream = {"lse": lse, "logits": logits, "dloss": grad_output.contiguous()}
            _call(ops.fused_linear_cross_entropy_backward, tensors, target, ce_weight, {**upstream, **gradients}, ctx.options)
            dx, dweight, dbias = _in_order(gradients)
        else:
            dx, dweight, dbias = scaled(grad_output, *ctx.saved_tensors)
        dx, dweight, dbias = (None if g is None else g.to(t) for g, t in zip((dx, dweight, dbias), ctx.types))
        return (dx, dweight, None, dbias, *(None,) * 14)
