"""Layers whose forward `kernels` puts into modules of a model. They have no state: what they read is the module's own. What Tigon does not
take, of another type or class of tensors, runs as the module's class has it."""
import torch
from torch import nn

from tigon import torch as operators
from tigon.transformers._plain import takes

__all__ = ["GeGLUMLP", "GemmaRMSNorm", "RMSNorm", "SwiGLUMLP"]


def _eps(module):
    return module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps


def _is_plain(x, weight):
    return takes(x, weight) and x.dtype == weight.dtype


class RMSNorm(nn.Module):
    """x / rms(x), rounded to the type of x, times weight."""

    can_torch_compile = True
    has_backward = True

    def forward(self, hidden_states):
        if not _is_plain(hidden_states, self.weight):
            return type(self).forward(self, hidden_states)
        return operators.rms_norm(hidden_states, self.weight, eps=_eps(self), casting_mode="llama")


class GemmaRMSNorm(nn.Module):
    """x / rms(x) times 1 + weight."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x):
        if not _is_plain(x, self.weight):
            return type(self).forward(self, x)
        return operators.rms_norm(x, self.weight, eps=_eps(self), casting_mode="gemma", offset=1.0)


class SwiGLUMLP(nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)). The projections are called as they are, adapters and hooks with them."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        if not _is_plain(gate, up):
            return self.down_proj(torch.nn.functional.silu(gate) * up)
        return self.down_proj(operators.swiglu(gate, up))


class GeGLUMLP(nn.Module):
    """down_proj(gelu(gate_proj(x)) * up_proj(x)) with the approximation by tanh."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        if not _is_plain(gate, up):
            return self.down_proj(torch.nn.functional.gelu(gate, approximate="tanh") * up)
        return self.down_proj(operators.geglu(gate, up))
