"""The families as functions of tensors with gradients: tigon.torch.rms_norm(x, weight, eps=1e-6)."""
import functools
import inspect

import torch
from torch.overrides import handle_torch_function, has_torch_function

from tigon import _core
from tigon._devices import keeps_logits
from tigon.torch import _spread
from tigon.torch._library import argument, functions
from tigon.torch._table import FAMILIES, PRODUCTS, WHOLE, Operator


def overridable(function):
    """Decorates a function of tensors which others may stand in for: torch.fx's proxies, subclasses with __torch_function__."""
    @functools.wraps(function)
    def call(*args, **options):
        given = (*args, *options.values())
        if has_torch_function(given):
            return handle_torch_function(call, given, *args, **options)
        return function(*args, **options)
    return call


def _for_backward(op, in_forward, args, options):
    """What forward computes of such a family for its gradients: these or, where each row has an upstream gradient of its own, the
    logits."""
    given = {n: argument(op, n[1:], args, options) for n in in_forward}
    needed = {n: t is not None and t.requires_grad for n, t in given.items()}
    if options.get("reduction") != "none":
        return needed
    if "logits" in options or not any(needed.values()):
        return {}
    return {"logits": keeps_logits(*(argument(op, n, args, options) for n in ("weight", "target")), options.get("chunk_bytes"))}


def _function(name, op, shown, in_forward=()):
    """shown: results that are always returned; optional ones follow where they are asked for, accuracy=True."""
    target = functions[op.name]
    extra = [n for n in op.flags if n not in in_forward]

    def function(*args, **options):
        unasked = _for_backward(op, in_forward, args, options) if in_forward and torch.is_grad_enabled() else {}
        results = target(*args, **{**options, **unasked})
        if not isinstance(results, tuple):
            return results
        results = dict(zip(op.outputs, results))
        asked = [n for n in op.outputs if n in shown or n in extra and options.get(n)]
        asked = [n for n in asked if n not in op.follows or argument(op, op.follows[n], args, options) is not None]
        return results[asked[0]] if len(asked) == 1 else tuple(results[n] for n in asked)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "tigon.torch"
    function.__doc__ = _core.operators[op.name].__doc__
    function.__signature__ = _signature(op, extra)
    return overridable(function)


def _signature(op, extra):
    kinds = inspect.Parameter
    last = max((i for i, n in enumerate(op.inputs) if n not in op.optional), default=-1)
    tensors = [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None if n in op.optional and i > last else kinds.empty)
               for i, n in enumerate(op.inputs)]
    named = [kinds(a["name"], kinds.KEYWORD_ONLY, default=kinds.empty if a["required"] else None) for a in op.options]
    flags = [kinds(n, kinds.KEYWORD_ONLY, default=False) for n in extra]
    return inspect.Signature(tensors + named + flags)


def _bias(q, k, bias):
    """What is added to the scores of flash_attention, for every batch, head and query, by strides where they share it. A mask of bool says
    which keys a query sees."""
    if bias.requires_grad and torch.is_grad_enabled():
        raise ValueError("flash_attention: bias needs a gradient, which is not computed; expected one without, such as bias.detach()")
    if bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=q.dtype).masked_fill(bias.logical_not(), -torch.inf)
    return bias.expand(q.shape[0], q.shape[2], q.shape[1], k.shape[1])


def _seed(dropout, seed):
    """A tensor of one number on the CPU: a number that is given, or else one of PyTorch's generator."""
    if not dropout:
        return None
    if seed is None:
        return torch.randint(2**63 - 1, (), device="cpu")
    return seed if isinstance(seed, torch.Tensor) else torch.tensor(seed, dtype=torch.int64, device="cpu")


def _attention(function):
    @functools.wraps(function)
    def call(q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, bias=None, sinks=None, seed=None, *, dropout=None, **options):
        if bias is not None:
            bias = _bias(q, k, bias)
        return function(q, k, v, cu_seqlens_q, cu_seqlens_k, bias, sinks, _seed(dropout, seed), dropout=dropout, **options)
    return overridable(call)


def _router(function):
    """Both losses need counts for their gradient."""
    @functools.wraps(function)
    def call(logits, bias=None, mask=None, *, counts=False, balance=False, z_loss=False, **options):
        results = function(logits, bias, mask, counts=counts or balance or z_loss, balance=balance, z_loss=z_loss, **options)
        return results if counts or not (balance or z_loss) else results[:2] + results[3:]
    return overridable(call)


def _route(function):
    """slot in one dimension, as rows of slots are."""
    @functools.wraps(function)
    def call(index, **options):
        slot, *others = function(index, **options)
        return slot.flatten(), *others
    return overridable(call)


def _moe(function):
    """x, index and weights of any leading dimensions; recompute=True keeps no activations for backward, which computes them again."""
    signature = inspect.signature(function)
    kept = [p for n, p in signature.parameters.items() if n != "pre"]
    recomputed = inspect.Parameter("recompute", inspect.Parameter.KEYWORD_ONLY, default=False)

    @functools.wraps(function)
    def call(x, gate_up, down, index, weights, gate_up_bias=None, down_bias=None, addend=None, *, recompute=False, **options):
        tensors = (x, gate_up, down, weights, gate_up_bias, down_bias)
        keep = not recompute and torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
        hidden, shape = x.shape[-1], x.shape
        x, addend = (t if t is None or t.dim() == 2 else t.reshape(-1, hidden) for t in (x, addend))
        index, weights = (t if t.dim() == 2 else t.reshape(-1, t.shape[-1]) for t in (index, weights))
        y = function(x, gate_up, down, index, weights, gate_up_bias, down_bias, addend, pre=keep, **options)
        y = y[0] if keep else y
        return y if y.shape == shape else y.reshape(shape)
    call.__signature__ = signature.replace(parameters=[*kept, recomputed])
    return overridable(call)


__all__ = list(FAMILIES) + list(PRODUCTS) + list(WHOLE) + ["adamw"]
for _name, _family in FAMILIES.items():
    globals()[_name] = _function(_name, _family.forward, _family.shown, _family.in_forward)
flash_attention = _attention(globals()["flash_attention"])
moe_router = _router(globals()["moe_router"])
fused_moe = _moe(globals()["fused_moe"])
for _name in PRODUCTS:
    globals()[_name] = _function(_name, Operator(_name), {"c"})
for _name in WHOLE:
    _op = Operator(_name)
    globals()[_name] = _function(_name, _op, set(_op.outputs) - set(_op.flags))
moe_route = _route(globals()["moe_route"])


@overridable
def adamw(param, grad, m, v, master=None, *, step, lr=None, **options):
    """One step of AdamW with decoupled weight decay, in place: see tigon.ops.adamw. lr is a number or a tensor of one."""
    if type(param) not in (torch.Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling():
        _spread.register()
    torch.ops.tigon.adamw(param, grad, m, v, master, step=step, **rate(lr), **options)


def rate(lr):
    """A learning rate as the operators take it."""
    if torch.compiler.is_compiling() and lr is not None and not isinstance(lr, torch.Tensor):
        lr = torch.ones((), dtype=torch.float64) * lr
    return {"lr_tensor" if isinstance(lr, torch.Tensor) else "lr": lr}
