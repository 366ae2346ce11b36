"""jsd under Liger-Kernel's names."""
import torch

from tigon.liger.ops._shared import Function, labels_of, like, rows, scaled
from tigon.liger.ops._traced import ops


def jsd_forward(_input, target, shift_labels, beta, ignore_index, has_label, jsd_impl=None, jsd_mode=None):
    """The loss, and the gradient of _input for an upstream gradient of 1."""
    loss = torch.empty((), dtype=torch.float32, device=_input.device)
    gradient = like(_input)
    ops.jsd_forward(
        rows(_input), rows(target), shift_labels if has_label else None, loss=loss, dstudent=gradient, beta=beta, ignore_index=ignore_index
    )
    return loss.to(_input.dtype), gradient


def jsd_backward(dX, grad_output):
    return scaled(grad_output, dX)[0]


class LigerJSDFunction(Function):
    @staticmethod
    def forward(ctx, _input, target, shift_labels=None, beta=0.5, ignore_index=-100, jsd_impl=None, jsd_mode=None):
        labels = labels_of(shift_labels, _input)
        loss, gradient = jsd_forward(_input, target, labels, beta, ignore_index, labels is not None)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        return (jsd_backward(*ctx.saved_tensors, grad_output), *(None,) * 6)
