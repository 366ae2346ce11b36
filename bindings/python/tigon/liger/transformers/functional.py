"""The functions of liger_kernel.transformers.functional for Tigon's families: the same names, arguments and defaults. They are made from
the entries of tigon/liger/_table.py."""
from dataclasses import dataclass
from typing import Optional

import torch

from tigon.liger import _table, ops  # noqa: F401 (what is made calls ops)


@dataclass
class CrossEntropyOutput:
    loss: torch.Tensor
    z_loss: Optional[torch.Tensor] = None
    token_accuracy: Optional[torch.Tensor] = None
    predicted_tokens: Optional[torch.Tensor] = None


def losses(results, *asked):
    """The loss alone, unless more was asked for."""
    return CrossEntropyOutput(*results) if any(asked) else results[0]


def liger_mhc_apply(x, f_out, h_pre, h_post, h_res, *, return_x_in: bool = False):
    x_out = liger_mhc_post_res(x, f_out, h_post, h_res)  # noqa: F821 (made below, as liger_mhc_pre and liger_mhc_coeffs are)
    return (x_out, liger_mhc_pre(x, h_pre)) if return_x_in else x_out  # noqa: F821


def liger_mhc_forward(x, layer, phi, b, alpha_pre, alpha_post, alpha_res, *, allow_fp32=False, tmax=20, rms_eps=1e-6, pre_eps=0.0,
                      sinkhorn_eps=1e-6, post_mult=2.0, return_coeffs=False):
    """The layer between the streams of x: its input is of the type of its parameters, if it has some."""
    coeffs = liger_mhc_coeffs(x, phi, b, alpha_pre, alpha_post, alpha_res, allow_fp32=allow_fp32, tmax=tmax,  # noqa: F821
                              rms_eps=rms_eps, pre_eps=pre_eps, sinkhorn_eps=sinkhorn_eps, post_mult=post_mult)
    x_in = liger_mhc_pre(x, coeffs[0])  # noqa: F821
    parameter = next(layer.parameters(), None) if hasattr(layer, "parameters") else None
    f_out = layer(x_in if parameter is None else x_in.to(parameter.dtype))
    x_out = liger_mhc_post_res(x, f_out, *coeffs[1:])  # noqa: F821
    return (x_out, coeffs) if return_coeffs else x_out


for _family in _table.FAMILIES:
    exec(_table.definitions(_family))
