"""What is compared: one operator at one size and type, in PyTorch's words and as calls of Tigon. Tensors are made on the device that is
current: `with torch.device(...)`."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Tensor = torch.Tensor


@dataclass
class Problem:
    """Buffers and both sides of a comparison.

    `function` is what a PyTorch user writes; its floating inputs may come in another type. Tigon reads the
    same inputs and writes `outputs` and `grads`, which lie in the order of function's results and inputs (None:
    no gradient). Calls are pairs of an operator's name and its arguments.
    """

    function: Callable
    inputs: list[Tensor]
    forward: list[tuple[str, dict]]
    backward: list[tuple[str, dict]]
    outputs: list[Tensor]
    grads: list[Tensor | None]
    upstream: list[Tensor] | None = None  # gradients of function's results; None: of a scalar, 1
    fused: list[tuple[str, dict]] | None = None  # the gradient in forward's own pass, where there is such a call
    with_out: Callable | None = None  # function, into a buffer by out=, where PyTorch's API has it
    others: dict[str, Callable] = field(default_factory=dict)  # of names.OTHERS: the same by another function of PyTorch
    flops: dict[str, float] = field(default_factory=dict)  # of a mode, where a page is to tell the rate
    bytes: float = 0  # or of memory, each once


@dataclass
class Step:
    """An update in place, in place of a Problem: nothing to differentiate, the mode `full` alone."""

    eager: Callable
    function: Callable
    state: dict[str, list[Tensor]]  # of each provider: eager, compile, tigon
    calls: list[tuple[str, dict]]


class Make:
    """Makes the buffers of one problem, of type `dtype` unless said otherwise."""

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype
        self.generator = torch.Generator(torch.get_default_device()).manual_seed(1)

    def normal(self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0, mean: float = 0.0) -> Tensor:
        values = torch.empty(shape).normal_(mean, scale, generator=self.generator)
        return values.to(dtype or self.dtype)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, dtype=dtype or self.dtype)  # written, so that no call faults its pages in

    def f32(self, *shape: int) -> Tensor:
        return self.empty(*shape, dtype=torch.float32)

    def labels(self, classes: int, *shape: int) -> Tensor:
        return torch.randint(classes, shape, generator=self.generator)


@dataclass
class Operator:
    name: str
    build: Callable
    sizes: dict[str, dict[str, dict[str, int]]]  # by device and name
    memory_bound: bool = True  # counts in the geometric means
    note: str = ""


OPERATORS: dict[str, Operator] = {}


def operator(*, small: dict, medium: dict, large: dict, cuda: dict[str, dict] | None = None, memory_bound: bool = True, note: str = "",
             more: dict[str, dict] | None = None):
    """Enters the decorated function, build(make, **size), into the table under its own name. cuda: sizes on a GPU other than the small
    and the large one of the processor; medium there is only what this has. more: large problems for a GPU alone, each under a name that
    begins with the function's."""

    def enter(build: Callable) -> Callable:
        sizes = {"cpu": dict(small=small, medium=medium, large=large), "cuda": dict(small=small, large=large) | (cuda or {})}
        OPERATORS[build.__name__] = Operator(build.__name__, build, sizes, memory_bound, note)
        for name, size in (more or {}).items():
            OPERATORS[name] = Operator(name, build, {"cpu": {}, "cuda": dict(large=size)}, memory_bound)
        return build

    return enter


def pair(name: str, forward: dict, backward: dict, **options) -> dict:
    """The calls <name>_forward and <name>_backward, with the options of both."""
    return {"forward": [(name + "_forward", forward | options)], "backward": [(name + "_backward", backward | options)]}
