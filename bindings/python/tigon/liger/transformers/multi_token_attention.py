"""Multi-token attention as a module, of the name that it has in liger_kernel.transformers."""
import math

import torch
from torch import nn
from torch.nn.modules.utils import _pair

from tigon.liger import ops


class LigerMultiTokenAttention(nn.Module):
    """Probabilities of causal attention, from scores [B,in_channels,L,L], convolved over queries and keys."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, sparse=False):
        super().__init__()
        self.in_channels, self.out_channels, self.groups, self.sparse = in_channels, out_channels, groups, sparse
        self.kernel_size, self.stride, self.padding, self.dilation = map(_pair, (kernel_size, stride, padding, dilation))
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, scores):
        return ops.LigerMultiTokenAttentionFunction.apply(
            scores, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.sparse
        )
