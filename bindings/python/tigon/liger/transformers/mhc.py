"""LigerMHC: a layer between the residual streams of hyper-connections."""
import warnings

import torch
from torch import nn

from tigon.liger.transformers.functional import liger_mhc_forward


class LigerMHC(nn.Module):
    """x [..,hc,c] becomes h_res x + h_post layer(h_pre x)."""

    def __init__(self, layer, *, hc, c, tmax=20, rms_eps=1e-6, pre_eps=0.0, sinkhorn_eps=1e-6, post_mult=2.0, phi_dtype=torch.float16,
                 allow_fp32=False):
        super().__init__()
        if hc > 16:
            warnings.warn(f"hc={hc} is more than the 16 streams that the operators take.", stacklevel=2)
        self.layer = layer
        self.hc, self.c, self.tmax = int(hc), int(c), int(tmax)
        self.rms_eps, self.pre_eps, self.sinkhorn_eps = float(rms_eps), float(pre_eps), float(sinkhorn_eps)
        self.post_mult, self.allow_fp32 = float(post_mult), bool(allow_fp32)
        device = next((p.device for p in layer.parameters()), torch.device("cpu"))
        columns = hc * hc + 2 * hc
        self.phi = nn.Parameter(torch.randn(hc * c, columns, dtype=phi_dtype, device=device) * 0.02)
        self.b = nn.Parameter(torch.zeros(columns, dtype=torch.float32, device=device))
        self.alpha_pre, self.alpha_post, self.alpha_res = (
            nn.Parameter(torch.tensor(1.0, dtype=torch.float32, device=device)) for _ in range(3))

    def forward(self, x):
        if x.shape[-2] != self.hc or x.shape[-1] != self.c:
            raise ValueError(f"Expected x.shape[-2:]=[{self.hc}, {self.c}], got {list(x.shape[-2:])}")
        return liger_mhc_forward(
            x, self.layer, self.phi, self.b, self.alpha_pre, self.alpha_post, self.alpha_res, allow_fp32=self.allow_fp32, tmax=self.tmax,
            rms_eps=self.rms_eps, pre_eps=self.pre_eps, sinkhorn_eps=self.sinkhorn_eps, post_mult=self.post_mult)

    def extra_repr(self):
        return f"hc={self.hc}, c={self.c}, tmax={self.tmax}"
