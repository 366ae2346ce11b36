"""Every operator of Tigon as a function on tensors, made from the library's schema.

    y = tigon.ops.rms_norm_forward(x, weight, eps=1e-6)
    y, rstd = tigon.ops.rms_norm_forward(x, weight, rstd=True)
    dx, dweight = tigon.ops.rms_norm_backward(dy, x, weight, rstd, dweight=True)

Inputs are given by position or by name, outputs and options by name. An output that is not given is made, of the kind of the inputs; an
optional one is left out unless it is a tensor or True. All outputs that were computed are returned, in the order of the schema.
"""
from tigon import _core

globals().update(_core.operators)
__all__ = list(_core.operators)
