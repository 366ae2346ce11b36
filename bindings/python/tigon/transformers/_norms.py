"""Norms of Hugging Face's models, and layers whose norm behind attention adds what comes before it.

They return None for what is not Tigon's, and the class's own forward runs (_classes.replacing).
"""
import functools
import inspect
import itertools
from typing import NamedTuple, Optional

import torch
from torch import nn

import tigon.torch
from tigon.transformers import _probe, _shared
from tigon.transformers._classes import Part, makers, parts, replacing
from tigon.transformers._plain import autocast_type, does_nothing, original, promoted, reads, takes

# Calls of these are single nodes for torch.fx.
rms_norm, layer_norm = tigon.torch.rms_norm, tigon.torch.layer_norm
for _name in ("rms_norm", "layer_norm"):
    torch.fx.wrap(_name)

WIDTH = 16  # of the small copies
UNKNOWN = "no norm of Tigon computes what its class does"


class Norm(NamedTuple):
    """What a class of norms computes."""

    operator: str
    casting_mode: Optional[str]
    offset: float
    eps: str  # the name of the attribute
    promotes: bool  # is the result of the wider type of x and the weight, or of that of x?
    gated: bool = False

    def __call__(self, module, x, gate=None):
        """The norm of x; None where that is not Tigon's."""
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)  # once: they may be computed
        known = [t for t in (x, weight, bias, gate) if t is not None]
        if not takes(*known) or self.gated != (gate is not None) or any(isinstance(t, torch.Tensor) and t.dim() != 1 for t in (weight, bias)):
            return None
        eps = getattr(module, self.eps)
        if self.operator == "layer_norm":
            return self._layer_norm(x, weight, bias, eps)
        if self.promotes and weight is not None:
            x, _ = promoted(x, weight)
        if gate is not None and gate.dtype != x.dtype:
            return None
        more = {} if gate is None else {"gate": gate}
        return rms_norm(x, weight, eps=eps, offset=self.offset, casting_mode=self.casting_mode, **more)

    def _layer_norm(self, x, weight, bias, eps):
        if self.promotes and (autocast_type(x) is not None or any(t is not None and t.dtype != x.dtype for t in (weight, bias))):
            return None  # PyTorch's own layer_norm has rules for these
        return layer_norm(x, weight + self.offset if self.offset else weight, bias, eps=eps)


def _settings(module, eps, gated):
    """Every norm that the class could compute."""
    for mode, offset in itertools.product(("llama", "gemma"), (0.0, 1.0)):
        yield Norm("rms_norm", mode, offset, eps, False, gated)
    for offset in (0.0, 1.0) if not gated else ():
        yield Norm("layer_norm", None, offset, eps, False)


def recognise(module):
    """The part that a norm is, words where it is one that Tigon does not have, None for what is no norm."""
    eps = [name for name, value in vars(module).items() if "eps" in name and type(value) is float]
    parameters = {name: p for name, p in module._parameters.items() if p is not None}
    if len(eps) != 1 or module._modules or module._buffers or not set(parameters) <= {"weight", "bias"}:
        return None
    arguments = list(inspect.signature(type(module).forward).parameters)[1:]
    if len(arguments) not in (1, 2) or any(p.dim() == 0 for p in parameters.values()):
        return None
    gated = arguments[1:] == ["gate"]
    found = _fitting(module, eps[0], gated, parameters) if gated or len(arguments) == 1 else None
    return UNKNOWN if found is None else Part("rms_norm", "norm", tuple(found))


def _copy(module, parameters, dtype=torch.float32):
    """The module, so wide as the small inputs."""
    weights = {n: nn.Parameter(1 + _probe.random(WIDTH, seed=i, dtype=dtype), requires_grad=False) for i, n in enumerate(sorted(parameters))}
    widths = {p.shape[-1] for p in parameters.values()}
    own = {n: v for n, v in vars(module).items() if n == "normalized_shape" or (type(v) is int and v in widths)}
    sizes = {n: (WIDTH,) if isinstance(v, tuple) else WIDTH for n, v in own.items()}
    return _probe.twin(module, {**dict.fromkeys(module._parameters), **weights}, **sizes)


def _fitting(module, eps, gated, parameters):
    """The norm that a class computes: in f32 its values, and of those that differ in rounding the nearest."""
    x = (_probe.random(3, 5, WIDTH, seed=7) + 0.5) * torch.tensor([1.0, 1e-3, 30.0], device="cpu")[:, None, None]
    gate = (_probe.random(3, 5, WIDTH, seed=8),) if gated else ()
    forward, copy = type(module).forward, _copy(module, parameters)
    expected = _probe.run(forward, copy, x, *gate)
    fitting = [n for n in _settings(module, eps, gated) if _probe.agree(_probe.run(n, copy, x, *gate), expected)]
    if not fitting:
        return None
    x, gate = x.bfloat16(), tuple(g.bfloat16() for g in gate)
    small = _copy(module, parameters, torch.bfloat16)
    expected = _probe.run(forward, small, x, *gate)
    fitting = [n for n in fitting if _probe.agree(_probe.run(n, small, x, *gate), expected, 2e-2)]
    if not fitting:
        return None
    nearest = min(fitting, key=lambda n: _probe.differing(_probe.run(n, small, x, *gate), expected))
    mixed = _probe.run(forward, copy, x, *gate)
    return nearest._replace(promotes=mixed is None or mixed.dtype != x.dtype or type(module) is nn.LayerNorm)


def forward(cls, settings):
    norm = Norm(*settings)
    return replacing(cls.forward, lambda module, *args: norm(module, *args))


class Layer(NamedTuple):
    """A layer h += a attention(n(h)), h += a mlp(n(h)), by the names of its modules; or one with norms of what is added, too."""

    attention: str
    mlp: str
    norms: tuple  # before attention, before the feed-forward block, and of what these give
    factor: Optional[str]  # the name of a
    of_tuple: bool  # does the feed-forward block return more than what is added?
    dropouts: tuple = ()  # names of modules that do nothing
    unused: tuple = ()  # names of the layer's arguments that its attention is not given
    zeros: tuple = ()  # names of numbers that must be 0

    def __call__(self, layer, hidden, arguments, add):
        before, between, *after = (getattr(layer, name) for name in self.norms)
        arguments = {name: value for name, value in arguments.items() if name not in self.unused}
        normed, hidden = norm(before, hidden)
        attention = getattr(layer, self.attention)
        _shared.products(attention, _shared.hand_to(attention, normed))
        attended = attention(hidden_states=normed, **arguments)[0]
        normed, hidden = add(between, self._scaled(layer, after[0](attended) if after else attended), hidden)
        mlp = getattr(layer, self.mlp)
        y = mlp(_shared.hand_to(mlp, normed))
        y = y[0] if self.of_tuple else y
        return hidden + self._scaled(layer, after[1](y) if after else y).view(hidden.shape)  # Llama 4's has lost the batch

    def _scaled(self, layer, x):
        return x if self.factor is None else x * getattr(layer, self.factor)


def _apart(norm, x, residual):
    s = residual + x
    return norm(s), s


def _rms_settings(norm):
    """What a patched RMSNorm computes, None of another module."""
    part = parts.get(type(norm))
    settings = Norm(*part.settings) if part is not None and part.make == "norm" else None
    return None if settings is None or settings.operator != "rms_norm" or settings.gated else settings


def norm(module, x):
    """(The norm of x, x), whose gradients are one pass."""
    settings = _rms_settings(module)
    if settings is None or not _adds(module, x) or not _shared.is_plain(x):
        return module(x), x
    return _shared.norm(module, x, eps=getattr(module, settings.eps), offset=settings.offset, casting_mode=settings.casting_mode)


def add(norm, x, residual):
    """(The norm of the sum, the sum), in one pass where the types are those that they have apart."""
    settings = _rms_settings(norm)
    if settings is None or not _adds(norm, x, residual):
        return _apart(norm, x, residual)
    x, residual = promoted(x, residual)
    options = {"eps": getattr(norm, settings.eps), "offset": settings.offset, "casting_mode": settings.casting_mode}
    y, s = tigon.torch.fused_add_rms_norm(x, residual, norm.weight, **options)
    _shared.remember(y, s, norm, options)
    return y, s


def _adds(norm, *summands):
    weight = norm._parameters.get("weight")
    return weight is not None and reads(norm, original(type(norm)), *summands) and weight.dtype in {x.dtype for x in summands}


class _Stub(nn.Module):
    """Stands for a module of a layer: computes something of its own, and keeps what it was called with."""

    def __init__(self, factor, more=None):
        super().__init__()
        self.factor, self.more, self.calls = factor, more, []

    def forward(self, *args, **kwargs):
        self.calls.append((len(args), {name: value for name, value in kwargs.items() if name != "hidden_states"}))
        x = args[0] if args else kwargs["hidden_states"]
        y = torch.tanh(x * self.factor) + self.factor
        return y if self.more is None else (y, self.more)


def recognise_layer(module):
    """The part that a layer is whose sum and norm can be one pass, None otherwise."""
    children = dict(module._modules)
    attention = [n for n in children if n in ("self_attn", "attention", "attn")]
    mlp = [n for n in children if n in ("mlp", "feed_forward", "block_sparse_moe")]
    dropouts = [n for n, m in children.items() if type(m) is nn.Dropout]
    norms = [n for n in children if n not in attention + mlp + dropouts]
    if len(attention) != 1 or len(mlp) != 1 or len(norms) not in (2, 4) or module._parameters or module._buffers:
        return None
    if any(getattr(children[n], "weight", None) is None or children[n]._modules for n in norms):
        return None
    zeros = tuple(n for n, v in vars(module).items() if "drop" in n and type(v) in (int, float))
    if any("drop" in n and v for n, v in vars(module).items()) or "hidden_states" not in inspect.signature(type(module).forward).parameters:
        return None
    factors = [n for n, v in vars(module).items() if type(v) in (float, int) and n.endswith("multiplier")] + [None]  # one of 1 may be set later
    for order, factor, of_tuple in itertools.product(itertools.permutations(norms), factors, (False, True)):
        layer = Layer(attention[0], mlp[0], order, factor, of_tuple, tuple(dropouts), zeros=zeros)
        if _is_rms(children[order[1]]):
            layer = _confirmed(module, layer)
            if layer is not None:
                return Part("rms_norm", "layer", tuple(layer))
    return None


def _is_rms(module):
    part = parts.get(type(module)) or recognise(module)
    return isinstance(part, Part) and part.make == "norm" and Norm(*part.settings).operator == "rms_norm"


def _tried(module, forward, layer, arguments):
    """What a layer computes with stubs in it, and what its attention was called with."""
    stubs = {n: _Stub(0.3 + 0.2 * i) for i, n in enumerate(sorted(layer.norms))}
    stubs.update({n: nn.Dropout(0.0).eval() for n in layer.dropouts})  # does_nothing()
    stubs[layer.attention] = _Stub(0.7, more=())
    stubs[layer.mlp] = _Stub(1.3, more=() if layer.of_tuple else None)
    copy = _probe.twin(module, modules=stubs)
    if layer.factor is not None:
        setattr(copy, layer.factor, 0.6)
    return _probe.run(forward, copy, _probe.random(2, 3, WIDTH), **arguments), stubs[layer.attention].calls


def _confirmed(module, layer):
    """The layer, with what its attention is not given, if the module computes that, else None."""
    forward = type(module).forward
    names = [n for n in list(inspect.signature(forward).parameters)[2:] if n not in ("kwargs", "args")]
    arguments = {name: object() for name in names}
    expected, calls = _tried(module, forward, layer, arguments)
    if expected is None or len(calls) != 1:
        return None
    layer = layer._replace(unused=tuple(name for name in names if name not in calls[0][1]))
    found, same_calls = _tried(module, _forward_of(forward, layer), layer, arguments)
    return layer if same_calls == calls and _probe.agree(found, expected) else None


def _forward_of(forward, layer):
    parameters = inspect.signature(forward).parameters
    names = tuple(name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD)[1:]
    defaults = {name: parameters[name].default for name in names[1:] if parameters[name].default is not inspect.Parameter.empty}
    nothing = (*layer.dropouts, *layer.zeros)

    @functools.wraps(forward)
    def replaced(self, *args, **kwargs):
        if len(args) > len(names) or not all(does_nothing(self, name) for name in nothing):
            return forward(self, *args, **kwargs)
        given = {**defaults, **dict(zip(names, args)), **kwargs}
        return layer(self, given[names[0]], {name: value for name, value in given.items() if name != names[0]}, add)

    return replaced


def forward_of_layer(cls, settings):
    return _forward_of(cls.forward, Layer(*settings))


makers.update(norm=forward, layer=forward_of_layer)
