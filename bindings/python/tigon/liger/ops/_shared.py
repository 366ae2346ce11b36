"""What the families share: tensors as operators take them, gradients scaled by what comes from above, Liger's launch settings."""
import torch

try:
    from torch.distributed.tensor import DTensor
except ImportError:
    DTensor = ()


def gathered(x):
    """The whole tensor where x is spread over processes."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def rows(x):
    """x, if its rows follow each other evenly and each is contiguous; else a copy of which that holds. None stays None."""
    if x is None or x.is_contiguous():
        return x
    if x.dim() and x.stride(-1) == 1:
        try:
            x.view(-1, x.shape[-1])
            return x
        except RuntimeError:
            pass
    return x.contiguous()


def matrix(x):
    """x as a matrix of its rows."""
    return rows(x).reshape(-1, x.shape[-1])


def like(x, dtype=None):
    """An output of x's shape, compact, not yet written."""
    return torch.empty(x.shape, dtype=dtype or x.dtype, device=x.device)


def launch_settings(n):
    """Block size and warps of a row of n, as Liger's forward functions return them for its backward functions. Tigon needs neither."""
    block = 1 << max(n - 1, 0).bit_length()
    warps = next(w for least, w in ((32768, 32), (8192, 16), (2048, 8), (0, 4)) if block >= least)
    return block, warps


def is_one(upstream):
    return upstream.dim() == 0 and upstream.item() == 1


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
    """Asserts that host targets are classes, as Liger does. On another device the kernel looks, and tigon.sync() tells."""
    if target.device.type != "cpu":
        return
    kept = target[target != ignore_index]
    if kept.numel():
        low, high = kept.min().item(), kept.max().item()
        assert 0 <= low and high < classes, f"target {high if high >= classes else low} is out of bounds: there are {classes} classes"


def check_class_weight(weight, classes):
    if weight is not None:
        assert weight.shape == (classes,), f"class weights are {tuple(weight.shape)}, expected ({classes},)"
        assert weight.is_floating_point(), f"class weights are {weight.dtype}, expected a floating-point type"
