"""Logits that are not computed: hidden states and the last layer, in place of their product.

A model's own forward scales and caps them, takes rows of them and gives them to cross_entropy, which is fused_linear_cross_entropy then.
Whatever else is done with them is done with the product.
"""
import inspect

import torch
import torch.nn.functional as F
from torch import nn

import tigon.torch
from tigon import _core
from tigon.transformers._plain import autocast_type, reads, takes

_CROSS_ENTROPY = tuple(inspect.signature(F.cross_entropy).parameters)
_DEFAULTS = {"weight": None, "size_average": None, "ignore_index": -100, "reduce": None, "reduction": "mean", "label_smoothing": 0.0}


def is_product(head, *inputs):
    """Is a product, with a bias at most, all that the last layer computes?"""
    return reads(head, nn.Linear, *inputs) and (head.bias is None or takes(head.bias, head.weight))


def _of_rows(index, dims):
    """Does an index of so many dimensions take whole rows of logits?"""
    if isinstance(index, torch.Tensor):
        return index.dtype == torch.bool and index.dim() < dims
    if not isinstance(index, tuple) or not all(i is Ellipsis or isinstance(i, (slice, int)) for i in index):
        return False
    last = index[-1]
    return isinstance(last, slice) and last == slice(None) and (len(index) == dims or index[0] is Ellipsis)


def _scale_and_cap(steps):
    """(scale, cap) with which the steps are cap * tanh(scale * x / cap), or scale * x where cap is 0; None where they are something else."""
    ups, downs, before = 1.0, 1.0, None
    for name, number in steps:
        if name == "tanh" and before is None:
            before, ups, downs = (ups, downs), 1.0, 1.0
        elif name == "tanh":
            return None
        else:
            ups, downs = (ups * number, downs) if name == "mul" else (ups, downs * number)
    if before is None:
        return ups / downs, 0.0
    return before[0] * ups / (before[1] * downs), ups / downs


def _give_back(hidden):
    """The workspace of the loss, a GiB or two on a card, to PyTorch's allocator: backward, which comes next, needs the most memory."""
    if hidden.device.type == "cuda" and not torch.compiler.is_compiling() and not torch.cuda.is_current_stream_capturing():
        _core.workspace_trim()


class Logits:
    def __init__(self, head, hidden, steps=(), dtype=None):
        self.head, self.hidden, self.steps = head, hidden, steps
        self.dtype = dtype or autocast_type(hidden) or hidden.dtype
        self.tensor = None

    def computed(self):
        """The product, with what was done to it: once, as it may be changed in its place."""
        if self.tensor is None or torch.is_grad_enabled() and self.hidden.requires_grad and not self.tensor.requires_grad:
            logits = self.head(self.hidden)
            for name, number in self.steps:
                logits = logits.tanh() if name == "tanh" else logits * number if name == "mul" else logits / number
            self.tensor = logits.to(self.dtype)
        return self.tensor

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.computed(), name)

    @property
    def device(self):
        return self.hidden.device

    @property
    def shape(self):
        return torch.Size((*self.hidden.shape[:-1], self.head.weight.shape[0]))

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def _with(self, name, number=None):
        return Logits(self.head, self.hidden, (*self.steps, (name, number)), self.dtype)

    def __mul__(self, other):
        return self._with("mul", other) if self.tensor is None and isinstance(other, (int, float)) else self.computed() * other

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._with("div", other) if self.tensor is None and isinstance(other, (int, float)) else self.computed() / other

    def tanh(self):
        return self._with("tanh") if self.tensor is None else self.tensor.tanh()

    def float(self):
        if self.tensor is not None:
            return self.tensor.float()
        return Logits(self.head, self.hidden, self.steps, torch.float32)

    def contiguous(self):
        return self

    def to(self, to):
        return self if to in (self.device, self.dtype) else self.float() if to == torch.float32 else self.computed().to(to)

    def view(self, *sizes):
        if self.tensor is not None or sizes[-1] != self.shape[-1]:
            return self.computed().view(*sizes)
        return Logits(self.head, self.hidden.reshape(*sizes[:-1], self.hidden.shape[-1]), self.steps, self.dtype)

    reshape = view

    def __getitem__(self, index):
        if self.tensor is not None or not _of_rows(index, self.hidden.dim()):
            return self.computed()[index]
        return Logits(self.head, self.hidden[index], self.steps, self.dtype)

    def cross_entropy(self, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing):
        """The loss, None where the operator is not for it."""
        how = _scale_and_cap(self.steps)
        if self.tensor is not None or not isinstance(target, torch.Tensor) or target.dtype != torch.int64:
            return None
        if target.dim() != 1 or self.hidden.dim() != 2:
            return None
        if how is None or how[0] <= 0 or how[1] < 0 or weight is not None or size_average is not None or reduce is not None:
            return None
        scale, cap = how
        hidden, bias = self.hidden, self.head.bias
        if cap and scale != 1.0:
            hidden, bias = hidden * scale, None if bias is None else bias * scale
        loss = tigon.torch.fused_linear_cross_entropy(hidden, self.head.weight, target, bias=bias, ignore_index=ignore_index, softcap=cap,
                                                      temperature=1.0 if cap else 1.0 / scale, reduction=reduction,
                                                      label_smoothing=label_smoothing)
        _give_back(hidden)
        if reduction == "mean":  # over no token it is NaN in PyTorch, without a gradient
            loss = torch.where((target != ignore_index).any(), loss, torch.nan)
        return loss if autocast_type(hidden) is not None else loss.to(self.dtype)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.tanh:
            return args[0].tanh()
        if function is F.cross_entropy and isinstance(args[0], cls):
            given = {**_DEFAULTS, **dict(zip(_CROSS_ENTROPY[1:], args[1:])), **kwargs}
            loss = args[0].cross_entropy(**given)
            if loss is not None:
                return loss
        return function(*(_computed(a) for a in args), **{name: _computed(a) for name, a in kwargs.items()})


def _computed(argument):
    return argument.computed() if isinstance(argument, Logits) else argument


def _of_the_product(name):
    return lambda self, *others: getattr(self.computed(), name)(*map(_computed, others))


for _name in ("add", "radd", "sub", "rsub", "rtruediv", "neg", "pow", "matmul", "eq", "ne", "lt", "le", "gt", "ge", "len", "iter", "setitem"):
    setattr(Logits, f"__{_name}__", _of_the_product(f"__{_name}__"))


class Head:
    """The last layer as a model calls it that asks for no logits."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def __call__(self, hidden):
        return Logits(self.module, hidden) if is_product(self.module, hidden) else self.module(hidden)
