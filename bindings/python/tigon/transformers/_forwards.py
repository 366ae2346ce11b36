"""Feed-forward blocks and products of Hugging Face's models on Tigon: forwards in the place of a class's own.

They return None for what is not Tigon's, and the class's own forward runs (_classes.replacing).
"""
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.fx import Proxy
from transformers.activations import ACT2CLS

import tigon.torch
from tigon._once import differentiable_once
from tigon.torch._direct import eager
from tigon.torch._library import direct_calls
from tigon.torch._table import FAMILIES
from tigon.transformers import _experts, _shared
from tigon.transformers._classes import makers, replacing
from tigon.transformers._plain import autocast_type, does_nothing, is_untouched, promoted, reads, takes

# Calls of these are single nodes for torch.fx.
swiglu, geglu, relu_squared = tigon.torch.swiglu, tigon.torch.geglu, tigon.torch.relu_squared
for _name in ("swiglu", "geglu", "relu_squared"):
    torch.fx.wrap(_name)


_gemm = direct_calls["gemm"]


def _torch_product(a, b, trans_a=False, trans_b=False):
    return torch.mm(a.T if trans_a else a, b.T if trans_b else b)


def _product_for(module):
    """The product that this nn.Linear computes with."""
    return _torch_product if type(module) is nn.Linear else _gemm


def _rows(x):
    return x.flatten(0, -2) if x.dim() > 1 else x[None]


def _in_rows_of(x, y):
    """The rows of y in the dimensions of x. A view of y, which functions of one's own return too, could not be changed in place by hooks
    and adapters; this is none to PyTorch."""
    return torch.ops.aten._unsafe_view(y, (*x.shape[:-1], y.shape[-1]))


def _weight_gradient(product, dy, x):
    return product(_rows(dy), _rows(x), trans_a=True)


class Projections(torch.autograd.Function):
    """x @ weight.T of each weight, of which there are one to three. The gradient of x is summed up in the products, and not by additions
    behind them. Where x is known to be the norm of something that is kept anyway (_shared.py), that is kept alone, and backward computes x
    again. (A compiler asks for a number of arguments that is fixed.)"""

    generate_vmap_rule = True

    @staticmethod
    def forward(product, norm, x, first, second, third):
        rows, weights = _rows(x), [w for w in (first, second, third) if w is not None]
        return tuple([_in_rows_of(x, product(rows, weight, trans_b=True)) for weight in weights])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.product, norm, x, *weights = inputs
        trained = any(weight is not None and weight.requires_grad for weight in weights)
        ctx.options, kept = (None, (x,)) if norm is None else (norm.options, norm.inputs)
        ctx.save_for_backward(*weights, *(kept if trained else ()))

    @staticmethod
    @differentiable_once("gemm of a patched model")
    def backward(ctx, *upstream):
        first, second, third, *kept = ctx.saved_tensors  # asked for once: checkpoints compute them anew
        _, _, needs_x, *needed = ctx.needs_input_grad
        dx = None
        given = [(dy, weight) for dy, weight in zip(upstream, (first, second, third)) if dy is not None]
        for dy, weight in given if needs_x else ():
            rows = _rows(dy)
            dx = ctx.product(rows, weight) if dx is None else dx.addmm_(rows, weight)
        if dx is not None:
            dx = _in_rows_of(given[0][0], dx)
        needed = [need and dy is not None for dy, need in zip(upstream, needed)]
        if any(needed):
            x = kept[0] if ctx.options is None else _shared.normed(*kept, ctx.options)
        gradients = [_weight_gradient(ctx.product, dy, x) if need else None for dy, need in zip(upstream, needed)]
        return None, None, dx, *gradients, *[None] * (3 - len(gradients))


class ActivatedLinear(torch.autograd.Function):
    """act(gate, up) @ weight.T, plus a bias. Its backward computes act(gate, up) again, and so only gate and up are kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(product, activation, gate, up, weight, bias):
        rows = _rows(activation.forward(gate, up, **activation.options))
        return _in_rows_of(gate, product(rows, weight, trans_b=True) if bias is None else torch.addmm(bias, rows, weight.T))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.product, ctx.activation, *tensors, bias = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @differentiable_once("the feed-forward block of a patched model")
    def backward(ctx, dy):
        gate, up, weight = ctx.saved_tensors
        dact = _in_rows_of(dy, ctx.product(_rows(dy), weight))
        dgate, dup, y = ctx.activation.gradients(dact, gate, up)
        dweight = _weight_gradient(ctx.product, dy, y) if ctx.needs_input_grad[4] else None
        return None, None, dgate, dup, dweight, _rows(dy).sum(0) if ctx.needs_input_grad[5] else None


projections, activated_linear = eager(Projections), eager(ActivatedLinear)


class Activation:
    """act(gate, up), alone and with the product that follows it."""

    def __init__(self, family, **options):
        self.family = family
        self.forward = direct_calls[f"{family}_forward"]
        self.backward = direct_calls[f"{family}_backward"]
        self.gives_y = "y" in FAMILIES[family].backward.flags
        self.options = options

    def gradients(self, dy, gate, up):
        """dgate, dup and act(gate, up) again."""
        if self.gives_y:
            return self.backward(dy, gate, up, y=True, **self.options)
        return *self.backward(dy, gate, up, **self.options), self.forward(gate, up, **self.options)


SWIGLU, GEGLU, EXACT_GEGLU = Activation("swiglu"), Activation("geglu"), Activation("geglu", exact=True)
SILU = tuple(cls for cls, name in _experts.ACTIVATIONS.items() if name == "swiglu")
# Classes of activations of transformers.
ACTIVATIONS = {cls: {"swiglu": SWIGLU, "geglu": GEGLU, "geglu_exact": EXACT_GEGLU}[name] for cls, name in _experts.ACTIVATIONS.items()}


def _activated(act_fn, gate, up):
    """act_fn(gate) * up"""
    activation = ACTIVATIONS.get(type(act_fn)) if is_untouched(act_fn) else None
    if activation is None or not takes(gate, up):
        return act_fn(gate) * up
    gate, up = promoted(gate, up)
    return swiglu(gate, up) if activation is SWIGLU else geglu(gate, up, **activation.options)


def _down(down, act_fn, gate, up):
    """down(act_fn(gate) * up)"""
    together = type(act_fn) in ACTIVATIONS and is_untouched(act_fn) and _is_product(down, gate, up)
    if not together or autocast_type(gate) not in (None, gate.dtype) or gate.dtype != up.dtype:
        return down(_activated(act_fn, gate, up))
    return activated_linear(_product_for(down), ACTIVATIONS[type(act_fn)], gate, up, down.weight.to(gate.dtype), None)


# ---- an activation alone: act(x) * 1 ----

ALONE = {**ACTIVATIONS, ACT2CLS["gelu_fast"]: GEGLU, ACT2CLS["gelu_accurate"]: GEGLU, ACT2CLS["quick_gelu"]: Activation("swiglu", alpha=1.702)}
# Those that PyTorch writes as several operators; of the others it has one kernel on a card, which reads less than act(x) * 1 does.
SEVERAL = {ACT2CLS[name] for name in ("gelu_new", "gelu_fast", "gelu_accurate", "quick_gelu")}


def alone(act_fn):
    """The activation that this module is, None if Tigon has it not alone."""
    if isinstance(act_fn, nn.GELU):
        return EXACT_GEGLU if act_fn.approximate == "none" else GEGLU
    return ALONE.get(type(act_fn))


def is_where_alone(device, act_fn):
    """Is it faster there?"""
    return device.type == "cpu" or type(act_fn) in SEVERAL


def _ones(x):
    """A row of ones, which stands for as many as x has."""
    return x.new_ones(x.shape[-1]).expand(x.shape)


def _down_alone(down, act_fn, x):
    """down(act_fn(x))"""
    activation = alone(act_fn) if is_untouched(act_fn) else None
    if activation is None or not takes(x) or type(x) is Proxy or not is_where_alone(x.device, act_fn) or autocast_type(x) not in (None, x.dtype):
        return down(act_fn(x))
    if reads(down, nn.Linear, x) and (down.bias is None or takes(down.bias, x)):
        bias = None if down.bias is None else down.bias.to(x.dtype)
        return activated_linear(_product_for(down), activation, x, _ones(x), down.weight.to(x.dtype), bias)
    together = swiglu if activation.family == "swiglu" else geglu
    return down(together(x, _ones(x), **activation.options))


def _is_product(module, *inputs):
    """Is a product with its weight all that this module computes?"""
    return reads(module, nn.Linear, *inputs) and module.bias is None


def project(product, x, *weights):
    """x @ weight.T of each weight, of which there are one to three."""
    lowered = autocast_type(x)
    norm = _shared.norm_of(x) if len(weights) > 1 and lowered in (None, x.dtype) else None
    norm = None if norm is None or norm.is_kept else norm
    if lowered is not None:
        x = x.to(lowered)
    weights = [weight.to(x.dtype) for weight in weights]
    return projections(product, norm, x, *weights, *[None] * (3 - len(weights)))


def _projections(x, first, second):
    """first(x), second(x)"""
    if _is_product(first, x) and _is_product(second, x):
        return project(_product_for(first), x, first.weight, second.weight)
    return first(x), second(x)


def linear(cls, settings):
    """Of an nn.Linear without bias."""

    def compute(self, x):
        y = _shared.product_of(self, x)
        if y is not None:
            return y
        weight = self.weight  # once: it may be computed
        if self.bias is not None or not takes(x, weight) or (x.dtype != weight.dtype and autocast_type(x) is None):
            return None
        return project(_gemm, x, weight)[0]

    return replacing(cls.forward, compute)


def squared(cls, settings):
    """Of an activation, relu(x)^2."""
    return replacing(cls.forward, lambda self, x: relu_squared(x) if takes(x) else None)


class Mlp(NamedTuple):
    """What a class of gated feed-forward blocks computes, by the names of its modules: down(act(gate(x)) * up(x))."""

    gate: str
    up: Optional[str]  # None: gate(x) has both, one half behind the other
    down: str
    act: str
    gate_factor: Optional[str] = None  # names of factors of gate(x) and of the result
    down_factor: Optional[str] = None
    limit: Optional[str] = None  # of gate(x) from above and of up(x) on both sides
    zeros: tuple = ()  # names of numbers, such as dropout, that must be 0, and of modules of dropout
    plain: bool = False  # nothing is multiplied: down(act(gate(x)))
    last: Optional[str] = None  # the name of dropout of such a block's result

    def __call__(self, module, x):
        """The result; None where it is not Tigon's."""
        if not all(does_nothing(module, name) for name in self.zeros):
            return None
        if any(getattr(module, name)._forward_pre_hooks for name in (self.gate, self.up) if name is not None):
            return None  # they may change what both are given, and classes differ in which of these comes first
        act, down = getattr(module, self.act), getattr(module, self.down)
        if self.plain:
            y = _down_alone(down, act, getattr(module, self.gate)(x))
            return y if self.last is None else getattr(module, self.last)(y)
        if self.up is None:
            gate, up = getattr(module, self.gate)(x).chunk(2, dim=-1)
        else:
            gate, up = _projections(x, getattr(module, self.gate), getattr(module, self.up))
        y = self._down(module, down, act, gate, up)
        return y if self.down_factor is None else y * getattr(module, self.down_factor)

    def _down(self, module, down, act, gate, up):
        factor = 1.0 if self.gate_factor is None else getattr(module, self.gate_factor)
        limit = None if self.limit is None else getattr(module, self.limit)
        if factor == 1.0 and limit is None:
            return _down(down, act, gate, up)
        if isinstance(act, SILU) and is_untouched(act) and takes(gate, up):
            return down(swiglu(*promoted(gate, up), gate_multiplier=factor, limit=limit))
        if limit is not None:
            gate, up = gate.clamp(max=limit), up.clamp(min=-limit, max=limit)
        return down(act(gate * factor) * up)


def gated_mlp(cls, settings):
    mlp = Mlp(*settings)
    return replacing(cls.forward, lambda self, x: mlp(self, x))


makers.update(linear=linear, squared=squared, mlp=gated_mlp)
