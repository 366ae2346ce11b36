"""tiled_mlp under Liger-Kernel's names: a feed-forward block over a part of the sequence after the other, which is computed again in
backward, so that its intermediate results are those of one part."""
import math

import torch


class LigerTiledMLPFunction(torch.autograd.Function):
    """fn(mlp_module, x) for x [..,S,H] in `shards` parts of the sequence. Backward adds the parameters' gradients to them itself."""

    @staticmethod
    def forward(ctx, fn, mlp_module, x, shards, compute_params=None):
        ctx.fn, ctx.mlp_module, ctx.shards = fn, mlp_module, shards
        device = x.device.type
        ctx.autocast = dict(device_type=device, enabled=torch.is_autocast_enabled(device), dtype=torch.get_autocast_dtype(device))
        ctx.save_for_backward(x)
        with torch.no_grad():
            return torch.cat([fn(mlp_module, part) for part in x.chunk(shards, -2)], -2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradients = []
        for part, upstream in zip(x.chunk(ctx.shards, -2), grad.chunk(ctx.shards, -2)):
            part = part.detach().requires_grad_()
            with torch.enable_grad(), torch.autocast(**ctx.autocast):
                y = ctx.fn(ctx.mlp_module, part)
            torch.autograd.backward(y, upstream)
            gradients.append(part.grad)
        return None, None, torch.cat(gradients, -2), None, None


def apply_tiled_mlp(fn, mlp_module, x, num_shards=None, compute_params=None):
    """fn(mlp_module, x) in num_shards parts of the sequence; None: as many as keep a part no longer than a row is wide."""
    if num_shards is None:
        num_shards = math.ceil(x.shape[-2] / x.shape[-1])
    params = mlp_module.parameters() if compute_params is None else compute_params
    if torch.is_grad_enabled() and not x.requires_grad and any(p.requires_grad for p in params):
        x = x.detach().requires_grad_()  # backward is what gives parameters their gradients
    return LigerTiledMLPFunction.apply(fn, mlp_module, x, max(1, num_shards), compute_params)
