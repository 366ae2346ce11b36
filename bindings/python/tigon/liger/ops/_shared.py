"""What the families share: tensors as operators take them, gradients scaled by what comes from above, Liger's launch settings."""
import functools

import torch

from tigon._devices import rows
from tigon._once import differentiable_once, no_forward_mode
from tigon.liger.ops._traced import traced

try:
    from torch.distributed.tensor import DTensor
except ImportError:
    DTensor = ()


def _link(x):
    """An empty tensor that depends on x and keeps nothing of it in memory."""
    x = x.to_local() if isinstance(x, DTensor) else x
    return (x if x.dim() else x.unsqueeze(0)).narrow(0, 0, 0).clone()


def _linked(forward):
    """Decorates forward(ctx, *args) of a Function: what is saved for backward need not tell what the gradient depends on (a view of an
    input does not), and so a call whose gradient is taken leaves links to its inputs."""
    @functools.wraps(forward)
    def call(ctx, *args):
        results = forward(ctx, *args)
        if ctx.next_functions:
            with torch.enable_grad():
                ctx.links = tuple(_link(x) for x in args if isinstance(x, torch.Tensor) and x.requires_grad)
        return results
    return call


class Function(torch.autograd.Function):
    """One whose gradient has no gradient, nor a derivative in forward mode: errors that name the family."""

    def __init_subclass__(cls):
        cls.name = f"{cls.__module__.rpartition('.')[2]} ({cls.__name__})"
        cls.forward = staticmethod(_linked(cls.forward))
        cls.backward = staticmethod(differentiable_once(cls.name)(cls.backward))

    @classmethod
    def jvp(cls, ctx, *tangents):
        raise no_forward_mode(cls.name)


def gathered(x):
    """The whole tensor where x is spread over processes."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def matrix(x):
    """x as a matrix of its rows."""
    return rows(x).reshape(-1, x.shape[-1])


def like(x, dtype=None):
    """An output of x's shape, compact, not yet written."""
    return torch.empty(x.shape, dtype=dtype or x.dtype, device=x.device)


def launch_settings(n):
    """Block size and warps of a row of n, as Liger's forward functions return them for its backward functions. Tigon needs neither:
    under torch.compile there are none, so that a graph holds for rows of any size."""
    if traced():
        return None, None
    block = 1 << max(n - 1, 0).bit_length()
    warps = next(w for least, w in ((32768, 32), (8192, 16), (2048, 8), (0, 4)) if block >= least)
    return block, warps


def is_one(upstream):
    return upstream.dim() == 0 and not traced() and upstream.item() == 1


def scaled(upstream, *gradients):
    """Gradients, computed for an upstream gradient of 1, times the one that came. New tensors, so that a backward can run again."""
    if is_one(upstream):
        return gradients
    return tuple(None if g is None else g * upstream.to(g.dtype) for g in gradients)


def labels_of(shift_labels, x):
    """Labels of the rows of x, or None."""
    assert shift_labels is None or shift_labels.shape == (x.shape[0],), (
        f"shift_labels is {tuple(shift_labels.shape)}, expected ({x.shape[0]},), one label a row"
    )
    return shift_labels


def check_targets(target, ignore_index, classes):
    """Asserts that host targets are classes, as Liger does. Where their values are not there the kernel looks: on another device, of which
    tigon.sync() tells, and under torch.compile."""
    if target.device.type != "cpu" or traced():
        return
    kept = target[target != ignore_index]
    if kept.numel():
        low, high = kept.min().item(), kept.max().item()
        assert 0 <= low and high < classes, f"target {high if high >= classes else low} is out of bounds: there are {classes} classes"


def check_class_weight(weight, classes):
    if weight is not None:
        assert weight.shape == (classes,), f"class weights are {tuple(weight.shape)}, expected ({classes},)"
        assert weight.is_floating_point(), f"class weights are {weight.dtype}, expected a floating-point type"
