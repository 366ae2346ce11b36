"""Attention whose rotary embeddings are Tigon's: its forward as it is, but for the name of the function that rotates."""
import functools
import inspect
import types

import torch

import tigon.torch
from tigon.transformers._plain import promoted, takes

NAME = "apply_rotary_pos_emb"
OURS = "apply_rotary_pos_emb_of_tigon"

rope = tigon.torch.rope
torch.fx.wrap("rope")


def _rotation(original):
    """The function of a module of transformers that rotates q and k, of heads before positions. With further arguments it is called."""

    @functools.wraps(original)
    def rotate(q, k, cos, sin, *args, **kwargs):
        if args or kwargs or not takes(q, k, cos, sin):
            return original(q, k, cos, sin, *args, **kwargs)
        q, k, cos, sin = promoted(q, k, cos, sin)
        y = rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin, rotary_dim=cos.shape[-1] // 2 * 2)
        return y[0].transpose(1, 2), y[1].transpose(1, 2)

    return rotate


def _cells_of(forward):
    """(Cells of a decorated function, which of them holds the function that it decorates)."""
    inner = forward.__wrapped__
    return forward.__closure__ or (), [cell.cell_contents is inner for cell in forward.__closure__ or ()]


def can_replace(forward):
    """Does it call the function of its own module, of tables as wide as a head's turned part, and do its decorators hold it in a place that
    a copy of them can fill?"""
    while hasattr(forward, "__wrapped__"):
        if not isinstance(forward, types.FunctionType) or not any(_cells_of(forward)[1]):
            return False
        forward = forward.__wrapped__
    function = forward.__globals__.get(NAME)
    if not isinstance(function, types.FunctionType) or function.__module__ != forward.__globals__["__name__"]:
        return False
    return "rotate_half" in inspect.unwrap(function).__code__.co_names


def _copy(function, code, closure):
    copy = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function)


def attention_forward(cls):
    return _replaced(cls.forward)


def _replaced(forward):
    """A copy of forward, decorators and all, that calls the rotation by a name of ours in the module of transformers. Its globals stay that
    module's, where torch.compile looks them up."""
    if hasattr(forward, "__wrapped__"):
        cells, holds = _cells_of(forward)
        inner = _replaced(forward.__wrapped__)
        return _copy(forward, forward.__code__, tuple(types.CellType(inner) if held else c for c, held in zip(cells, holds)))
    names = forward.__globals__
    names.setdefault(OURS, _rotation(names[NAME]))
    code = forward.__code__
    code = code.replace(co_names=tuple(OURS if name == NAME else name for name in code.co_names))
    return _copy(forward, code, forward.__closure__)
