"""What a module computes is found by running it: a small copy of it, in the memory of the CPU, beside what Tigon would compute in its place.

A class is asked once. The copy has the module's own settings, but small random weights, and runs the forward of its class alone.
"""
import contextlib

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tigon.transformers._plain import behind


def random(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator("cpu").manual_seed(1000 + seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float32, device="cpu").to(dtype)


def twin(module, parameters=(), modules=(), **attributes):
    """An instance of the module's class, with its settings, these parameters and modules, and no hooks."""
    cls = behind(type(module))
    copy = cls.__new__(cls)
    copy.__dict__.update(module.__dict__)
    for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_buffers"):
        copy.__dict__[name] = {}
    copy.__dict__.update(_parameters=dict(parameters), _modules=dict(modules))
    copy.__dict__.update(attributes)
    return copy


@contextlib.contextmanager
def _plainly():
    with torch.no_grad(), unset_fake_temporarily(), torch.autocast("cpu", enabled=False), torch.random.fork_rng(devices=[]):
        yield


def run(function, *args, **kwargs):
    """What the function returns; None where it cannot take these arguments."""
    try:
        with _plainly():
            return function(*args, **kwargs)
    except Exception:
        return None


def tensors_of(y):
    """The tensors of a result, None where it has something else too."""
    if isinstance(y, torch.Tensor):
        return (y,)
    return tuple(y) if isinstance(y, tuple) and y and all(isinstance(t, torch.Tensor) for t in y) else None


def agree(found, expected, tolerance=1e-5):
    """Are these the same tensors, of the same types?"""
    found, expected = tensors_of(found), tensors_of(expected)
    if found is None or expected is None or len(found) != len(expected):
        return False
    for f, e in zip(found, expected):
        if f.shape != e.shape or f.dtype != e.dtype:
            return False
        scale = e.float().abs().amax().clamp(min=1e-30) if e.numel() else 1.0
        if not bool(((f.float() - e.float()).abs() <= tolerance * scale).all()):
            return False
    return True


def differing(found, expected):
    """How many elements of two tensors differ."""
    return int((found != expected).sum())
