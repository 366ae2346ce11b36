"""Attention whose rotary embeddings are Tigon's: its forward as it is, but for the name of the function that rotates."""
import functools
import inspect
import re
import types

from tigon.transformers import _rotation
from tigon.transformers._classes import Part, makers

NAMES = re.compile(r"apply_.*(rotary|rope)|^_?apply_rot")
SUFFIX = "_of_tigon"


def _innermost(forward):
    return inspect.unwrap(forward)


def _names(forward):
    """Names of the functions that rotate among those that a forward calls."""
    code = getattr(_innermost(forward), "__code__", None)
    return [name for name in (code.co_names if code else ()) if NAMES.search(name) and name in _innermost(forward).__globals__]


def _cells_of(forward):
    """(Cells of a decorated function, which of them holds the function that it decorates)."""
    inner = forward.__wrapped__
    return forward.__closure__ or (), [cell.cell_contents is inner for cell in forward.__closure__ or ()]


def _can_copy(forward):
    """Do its decorators hold it in a place that a copy of them can fill?"""
    while hasattr(forward, "__wrapped__"):
        if not isinstance(forward, types.FunctionType) or not any(_cells_of(forward)[1]):
            return False
        forward = forward.__wrapped__
    return isinstance(forward, types.FunctionType)


def recognise(module):
    """The part that attention is, words where its rotation is not Tigon's, None where it has none."""
    forward = type(module).forward
    names = _names(forward)
    if not names:
        return None
    if not _can_copy(forward):
        return "its forward is decorated by what cannot be copied"
    taken = []
    for name in names:
        function = _innermost(forward).__globals__[name]
        if not isinstance(function, types.FunctionType) or function.__module__ != _innermost(forward).__globals__["__name__"]:
            return f"{name} was put there by something else"
        rotation = _rotation.recognise(function)
        if rotation is None:
            return f"no rotation of Tigon computes what {name} does"
        taken.append((name, tuple(rotation)))
    return Part("rope", "attention", tuple(taken))


def _copy(function, code, closure):
    copy = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function)


def _replaced(forward, rotations):
    """A copy of forward, decorators and all, that calls the rotations by names of ours in the module of transformers. Its globals stay that
    module's, where torch.compile looks them up."""
    if hasattr(forward, "__wrapped__"):
        cells, holds = _cells_of(forward)
        inner = _replaced(forward.__wrapped__, rotations)
        return _copy(forward, forward.__code__, tuple(types.CellType(inner) if held else c for c, held in zip(cells, holds)))
    names = forward.__globals__
    for name, settings in rotations:
        names.setdefault(name + SUFFIX, _rotation.replacement(names[name], _rotation.Rotation(*settings)))
    ours = {name: name + SUFFIX for name, _ in rotations}
    code = forward.__code__
    return _copy(forward, code.replace(co_names=tuple(ours.get(name, name) for name in code.co_names)), forward.__closure__)


def attention_forward(cls, settings):
    return _replaced(cls.forward, settings)


makers.update(attention=attention_forward)
