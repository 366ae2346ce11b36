"""Attention whose rotary embeddings are Tigon's: its forward as it is, but for the name of the function that rotates."""
import inspect
import re
import types

from torch import nn

from tigon.transformers import _rotation
from tigon.transformers._classes import Part, makers
from tigon.transformers._renamed import can_copy, renamed

NAMES = re.compile(r"apply_.*(rotary|rope)|^_?apply_rot")
SUFFIX = "_of_tigon"


def _innermost(forward):
    return inspect.unwrap(forward)


def _names(forward):
    """Names of the functions that rotate among those that a forward calls."""
    code = getattr(_innermost(forward), "__code__", None)
    return [name for name in (code.co_names if code else ()) if NAMES.search(name) and name in _innermost(forward).__globals__]


def _behind(given):
    """The function that a name stands for: where Hugging Face's `kernels` is installed, transformers makes it a module that calls it."""
    if not isinstance(given, nn.Module) or given._modules or given._parameters:
        return given
    called = [c.cell_contents for c in type(given).forward.__closure__ or () if isinstance(c.cell_contents, types.FunctionType)]
    return called[0] if len(called) == 1 else given


def recognise(module):
    """The part that attention is, words where its rotation is not Tigon's, None where it has none."""
    forward = type(module).forward
    names = _names(forward)
    if not names:
        return None
    if not can_copy(forward):
        return "its forward is decorated by what cannot be copied"
    taken = []
    for name in names:
        function = _behind(_innermost(forward).__globals__[name])
        if not isinstance(function, types.FunctionType) or function.__module__ != _innermost(forward).__globals__["__name__"]:
            return f"{name} was put there by something else"
        rotation = _rotation.recognise(function)
        if rotation is None:
            return f"no rotation of Tigon computes what {name} does"
        taken.append((name, tuple(rotation)))
    return Part("rope", "attention", tuple(taken))


def attention_forward(cls, settings):
    """A copy of the forward that calls the rotations by names of ours in the module of transformers."""
    names = _innermost(cls.forward).__globals__
    for name, rotation in settings:
        function = _behind(names[name])
        names.setdefault(name + SUFFIX, _rotation.replacement(function, _rotation.Rotation(*rotation), names[name]))
    return renamed(cls.forward, {name: name + SUFFIX for name, _ in settings})


makers.update(attention=attention_forward)
