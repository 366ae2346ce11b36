"""Normalisations as modules, of the names that they have in liger_kernel.transformers."""
import torch
from torch import nn

from tigon.liger import ops

INITIAL = {"ones": torch.ones, "zeros": torch.zeros}


def parameter(size, init_fn):
    assert init_fn in INITIAL, f"init_fn is {init_fn!r}, expected 'ones' or 'zeros'"
    return nn.Parameter(INITIAL[init_fn](size))


def shift(size, random):
    """The bias of Liger's modules, which is always there: `bias` tells whether it begins random or as zeros."""
    return nn.Parameter(torch.randn(size) if random else torch.zeros(size))


class LigerRMSNorm(nn.Module):
    def __init__(
        self,
        hidden_size,
        eps=1e-6,
        offset=0.0,
        casting_mode="llama",
        init_fn="ones",
        in_place=True,
        row_mode=None,
        elementwise_affine=True,
    ):
        super().__init__()
        self.elementwise_affine = elementwise_affine
        weight = parameter(hidden_size, init_fn)
        self.register_parameter("weight", weight if elementwise_affine else None)
        self.variance_epsilon, self.offset, self.casting_mode = eps, offset, casting_mode
        self.in_place, self.row_mode = in_place, row_mode

    def forward(self, hidden_states):
        return ops.LigerRMSNormFunction.apply(
            hidden_states, self.weight, self.variance_epsilon, self.offset, self.casting_mode, self.in_place, self.row_mode
        )

    def extra_repr(self):
        size = None if self.weight is None else tuple(self.weight.shape)
        return f"{size}, eps={self.variance_epsilon}, offset={self.offset}, casting_mode={self.casting_mode}"


class _CentredRMSNorm(LigerRMSNorm):
    """Gemma's: weights lie around 0, and the factor is 1 + weight."""

    def __init__(self, hidden_size, eps=1e-6, offset=1.0, casting_mode="gemma", init_fn="zeros", in_place=False, row_mode=None):
        super().__init__(hidden_size, eps, offset, casting_mode, init_fn, in_place, row_mode)


class LigerRMSNormForGemma(_CentredRMSNorm):
    def __init__(self, hidden_size, eps=1e-6, offset=1.0, casting_mode="gemma", init_fn="zeros", in_place=True, row_mode=None):
        super().__init__(hidden_size, eps, offset, casting_mode, init_fn, in_place, row_mode)


class LigerRMSNormForGemma2(_CentredRMSNorm):
    pass


class LigerRMSNormForGemma3(_CentredRMSNorm):
    def __init__(self, dim, eps=1e-6, offset=1.0, casting_mode="gemma", init_fn="zeros", in_place=False):
        super().__init__(dim, eps, offset, casting_mode, init_fn, in_place)


class LigerRMSNormForQwen3Next(_CentredRMSNorm):
    pass


class LigerRMSNormForGemma4(LigerRMSNorm):
    def __init__(self, dim, eps=1e-6, offset=0.0, casting_mode="gemma", init_fn="ones", in_place=False, with_scale=True):
        super().__init__(dim, eps, offset, casting_mode, init_fn, in_place, elementwise_affine=with_scale)
        self.with_scale = with_scale


class LigerRMSNormForOlmo2(LigerRMSNorm):
    def __init__(self, hidden_size, eps=1e-6, offset=0.0, casting_mode="llama", init_fn="ones", in_place=False, row_mode=None):
        super().__init__(hidden_size, eps, offset, casting_mode, init_fn, in_place, row_mode)


class LigerRMSNormForGlm4(LigerRMSNormForOlmo2):
    pass


class LigerModulatedRMSNorm(nn.Module):
    """(1 + scale) times the norm plus shift, both given with the hidden states."""

    def __init__(
        self, hidden_size, eps=1e-6, offset=0.0, casting_mode="llama", init_fn="ones", in_place=True, elementwise_affine=True
    ):
        super().__init__()
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", parameter(hidden_size, init_fn) if elementwise_affine else None)
        self.variance_epsilon, self.offset, self.casting_mode, self.in_place = eps, offset, casting_mode, in_place

    def forward(self, hidden_states, scale, shift=None):
        return ops.LigerModulatedRMSNormFunction.apply(
            hidden_states, self.weight, scale, shift, self.variance_epsilon, self.offset, self.casting_mode, self.in_place
        )


class LigerFusedAddRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6, offset=0.0, casting_mode="llama", init_fn="ones", in_place=False):
        super().__init__()
        self.weight = parameter(hidden_size, init_fn)
        self.variance_epsilon, self.offset, self.casting_mode, self.in_place = eps, offset, casting_mode, in_place

    def forward(self, hidden_states, residual):
        return ops.LigerFusedAddRMSNormFunction.apply(
            hidden_states, residual, self.weight, self.variance_epsilon, self.offset, self.casting_mode, self.in_place
        )


class LigerLayerNorm(nn.Module):
    """impl, mode and backend, another name of impl, choose between Liger's kernels; here they are taken and have no effect."""

    def __init__(self, hidden_size, eps=1e-6, bias=False, init_fn="ones", impl=None, mode=None, backend=None):
        super().__init__()
        self.hidden_size = hidden_size
        self.impl = self.backend = backend if impl is None else impl
        self.mode = mode
        self.eps = self.variance_epsilon = eps
        self.weight = parameter(hidden_size, init_fn)
        self.bias = shift(hidden_size, bias)

    def forward(self, hidden_states):
        return ops.LigerLayerNormFunction.apply(hidden_states, self.weight, self.bias, self.variance_epsilon)


class LigerGroupNorm(nn.Module):
    def __init__(self, num_channels, num_groups, eps=1e-6, bias=False, init_fn="ones"):
        super().__init__()
        assert num_channels % num_groups == 0, f"{num_channels} channels are not divisible by {num_groups} groups"
        self.num_channels, self.num_groups = num_channels, num_groups
        self.eps = self.variance_epsilon = eps
        self.weight = parameter(num_channels, init_fn)
        self.bias = shift(num_channels, bias)

    def forward(self, hidden_states):
        assert hidden_states.size(1) == self.num_channels, f"{hidden_states.size(1)} channels, expected {self.num_channels}"
        return ops.LigerGroupNormFunction.apply(
            hidden_states, self.weight, self.bias, self.num_channels, self.num_groups, self.variance_epsilon
        )


class LigerPolyNorm(nn.Module):
    def __init__(self, eps=1e-6, in_place=True):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 1 / 3))
        self.bias = nn.Parameter(torch.tensor(1.0))
        self.variance_epsilon, self.in_place = eps, in_place

    def forward(self, hidden_states):
        return ops.LigerPolyNormFunction.apply(hidden_states, self.weight, self.bias, self.variance_epsilon, self.in_place)


class LigerDyT(nn.Module):
    def __init__(self, hidden_size, beta=True, init_alpha=0.5):
        super().__init__()
        self.hidden_size, self.init_alpha = hidden_size, init_alpha
        self.alpha = nn.Parameter(torch.full((1,), init_alpha))
        self.gamma = parameter(hidden_size, "ones")
        self.beta = parameter(hidden_size, "zeros") if beta else None

    def forward(self, x):
        return ops.LigerDyTFunction.apply(x, self.alpha, self.gamma, self.beta)


class LigerSoftmax(nn.Module):
    def forward(self, x):
        return ops.LigerSoftmaxFunction.apply(x)


class LigerSparsemax(nn.Module):
    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return ops.LigerSparsemaxFunction.apply(x, self.dim)


class LigerReLUSquared(nn.Module):
    def forward(self, x):
        return ops.LigerReLUSquaredFunction.apply(x)
