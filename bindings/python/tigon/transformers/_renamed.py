"""Copies of forwards, decorators and all, that ask for some attributes by other names. Their globals stay those of the module that they are
from, where torch.compile looks them up."""
import functools
import types


def _cells_of(forward):
    """(Cells of a decorated function, which of them holds the function that it decorates)."""
    inner = forward.__wrapped__
    return forward.__closure__ or (), [cell.cell_contents is inner for cell in forward.__closure__ or ()]


def can_copy(forward):
    """Do its decorators hold it in a place that a copy of them can fill?"""
    while hasattr(forward, "__wrapped__"):
        if not isinstance(forward, types.FunctionType) or not any(_cells_of(forward)[1]):
            return False
        forward = forward.__wrapped__
    return isinstance(forward, types.FunctionType)


def _copy(function, code, closure):
    copy = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function)


def renamed(forward, names):
    """A copy of forward that says names[n] where it says n."""
    if hasattr(forward, "__wrapped__"):
        cells, holds = _cells_of(forward)
        inner = renamed(forward.__wrapped__, names)
        return _copy(forward, forward.__code__, tuple(types.CellType(inner) if held else c for c, held in zip(cells, holds)))
    code = forward.__code__
    return _copy(forward, code.replace(co_names=tuple(names.get(n, n) for n in code.co_names)), forward.__closure__)
