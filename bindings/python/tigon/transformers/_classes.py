"""How a module gets another forward: it becomes an instance of a subclass of its class.

The subclass has the name of the class, and its forward the signature of the one in whose place it stands. Whatever PyTorch and others ask of
a class, or put around the forward of a module, finds what it looks for: hooks, replicas, tracers, compilers, copies. A pickled module
names its original class and its part, and gets its patch again as it is loaded.
"""
import functools
import inspect
import types
from typing import NamedTuple

from tigon.transformers._plain import behind, originals


class Part(NamedTuple):
    """What a class is to Tigon: which option of apply_to() it belongs to, who makes its forward, and with which settings."""

    option: str
    make: str
    settings: tuple = ()


makers = {}  # a name: make(cls, settings) returns the forward
parts = {}  # a class of a patch: its part
_patches = {}  # (a class, a part): its patch


def replacing(forward, compute):
    """`compute` as a forward with the signature, name and docstring of `forward`; where it returns None that is called."""
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def replaced(self, *args, **kwargs):
        positional = signature.bind(self, *args, **kwargs).args[1:] if kwargs else args
        y = compute(self, *positional)
        return forward(self, *args, **kwargs) if y is None else y

    return replaced


def patch(cls, part):
    """The subclass of cls whose forward is that of this part."""
    if (cls, part) not in _patches:
        subclass = _subclass(cls, part, makers[part.make](cls, part.settings))
        _patches[cls, part] = subclass
        originals[subclass], parts[subclass] = cls, part
    return _patches[cls, part]


def _subclass(cls, part, forward):
    def reduce_ex(self, protocol):
        reduced = super(subclass, self).__reduce_ex__(max(protocol, 2))
        # A class that something else made of this one is its own business.
        return (_again, (cls, *part), *reduced[2:]) if type(self) is subclass else reduced

    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    subclass = type(cls)(cls.__name__, (cls,), {**names, "forward": forward, "__reduce_ex__": reduce_ex})
    return subclass


def _again(cls, option, make, settings):
    """An instance, without attributes yet, of the patch of cls."""
    from tigon.transformers import _models  # noqa: F401 - who makes forwards

    subclass = patch(cls, Part(option, make, settings))
    return subclass.__new__(subclass)


@functools.lru_cache(maxsize=None)
def _sharded(old, cls):
    """The class that fully_shard() would have made of cls, after the one that it has made of another."""
    own = {name: value for name, value in vars(old).items() if name not in ("__dict__", "__weakref__")}
    return type(old)(old.__name__, (old.__bases__[0], cls), own)


def put(module, cls):
    """Makes module an instance of cls, a patch or the original of one, in front of which fully_shard()'s stays. A forward of the old class
    that accelerate keeps is exchanged."""
    old, before = type(module), type(module).forward
    if behind(old) is cls:
        return
    module.__class__ = cls if behind(old) is old else _sharded(old, cls)
    for name in ("_old_forward", "forward"):
        if getattr(module.__dict__.get(name), "__func__", None) is before:
            setattr(module, name, types.MethodType(cls.forward, module))
