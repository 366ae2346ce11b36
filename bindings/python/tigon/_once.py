"""Operators have first gradients, of reverse mode. What they do not have is an error that names the operator: PyTorch by itself would take
what it does not see for constant."""
import functools

import torch


def no_second_gradient(name):
    return NotImplementedError(f"{name}: there is no gradient of its gradient; of Tigon's operators gemm and batched_gemm alone have one")


def no_forward_mode(name):
    return NotImplementedError(f"{name}: there is no derivative in forward mode (jvp); gradients are of reverse mode")


class _Final(torch.autograd.Function):
    """Some tensors as they are, which depend on others in a way that is not known here."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name, count, *tensors):
        return tuple(t.detach() for t in tensors[:count])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *gradients):
        raise no_second_gradient(ctx.name)


def final(name, gradients, causes):
    """Gradients that an operator's backward has computed from `causes`, ready to be refused where they are differentiated (create_graph)."""
    given = [g for g in gradients if g is not None]
    if not given or not torch.is_grad_enabled():
        return gradients
    results = iter(_Final.apply(name, len(given), *given, *(c for c in causes if c is not None)))
    return tuple(None if g is None else next(results) for g in gradients)


def differentiable_once(name):
    """Decorates backward(ctx, *gradients) of an autograd.Function: what it depends on are these, ctx.saved_tensors and ctx.links, if there
    are some. (PyTorch's once_differentiable looks at the first alone, and so lets a loss pass whose gradient is 1.)"""
    def decorate(backward):
        @functools.wraps(backward)
        def once(ctx, *upstream):
            if not torch.is_grad_enabled():
                return backward(ctx, *upstream)
            with torch.no_grad():
                gradients = backward(ctx, *upstream)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            return final(name, gradients, (*upstream, *ctx.saved_tensors, *getattr(ctx, "links", ())))
        return once
    return decorate
