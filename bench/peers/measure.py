"""Contestants of one cell, how their results are compared, and how they are timed."""

import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from problem import Problem, Step, Tensor
from tigon import ops

# Largest relative error, in the 2-norm, of a result against PyTorch in f32 on the same inputs.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


@dataclass
class Contestant:
    name: str
    run: Callable  # what is timed; returns what it allocated for its caller
    results: Callable  # runs once and returns what is compared
    prepare: Callable = lambda: None  # before each run, not timed


def tuple_of(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def leaves(problem: Problem, dtype: torch.dtype | None = None) -> list[Tensor]:
    """The inputs, those with a gradient as leaves of a graph; dtype: in that type, if floating."""
    copies = [x.to(dtype) if dtype and x.is_floating_point() else x.detach() for x in problem.inputs]
    return [x.requires_grad_() if g is not None else x for x, g in zip(copies, problem.grads)]


def torch_contestant(name: str, problem: Problem, function: Callable, mode: str, inputs: list, upstream) -> Contestant:
    wanted = [x for x, g in zip(inputs, problem.grads) if g is not None]
    plain = [x.detach() for x in inputs]
    graph = []

    def forward():
        with torch.no_grad():
            return tuple_of(function(*plain))

    def build():
        graph[:] = [tuple_of(function(*inputs))]

    def backward():
        return torch.autograd.grad(graph.pop(), wanted, upstream)

    def full():
        outputs = tuple_of(function(*inputs))
        return tuple(y.detach() for y in outputs) + torch.autograd.grad(outputs, wanted, upstream)

    if mode != "backward":
        run = forward if mode == "forward" else full
        return Contestant(name, run, run)
    return Contestant(name, backward, lambda: (build(), backward())[1], build)


def prepare(op: str, args: dict) -> Callable:
    """The call of an operator of Tigon as a function without arguments."""
    return partial(getattr(ops, op), **args)


def tigon_contestant(problem: Problem, mode: str) -> Contestant:
    full = problem.fused or problem.forward + problem.backward
    calls = {"forward": problem.forward, "backward": problem.backward, "full": full}[mode]
    prepared = [prepare(*call) for call in calls]
    written = ([] if mode == "backward" else problem.outputs) + ([] if mode == "forward" else gradients(problem))

    def run():
        for call in prepared:
            call()

    def results():
        if mode == "backward":
            for call in problem.forward:  # what it saves for backward
                prepare(*call)()
        for tensor in written:
            tensor.fill_(float("nan"))
        run()
        return written

    return Contestant("tigon", run, results)


def gradients(problem: Problem) -> list[Tensor]:
    return [g for g in problem.grads if g is not None]


def truth(problem: Problem) -> dict[str, tuple]:
    """Results of PyTorch's function in f32, by mode."""
    upstream = problem.upstream and [g.float() for g in problem.upstream]
    exact = torch_contestant("", problem, problem.function, "full", leaves(problem, torch.float32), upstream).run()
    count = len(problem.outputs)
    return {"forward": exact[:count], "backward": exact[count:], "full": exact}


def contestants(problem: Problem, mode: str, kept: bool, compiled: Callable) -> list[Contestant]:
    """Tigon, eager, compiled, and other functions of PyTorch; `kept`: eager forward goes through out=, where PyTorch has it."""
    eager = problem.with_out if kept and mode == "forward" and problem.with_out else problem.function
    inputs = leaves(problem)
    return [tigon_contestant(problem, mode)] + [
        torch_contestant(name, problem, function, mode, inputs, problem.upstream)
        for name, function in (("eager", eager), ("compile", compiled), *problem.others.items())]


def step_contestants(step: Step, compiled: Callable) -> list[Contestant]:
    calls = [prepare(*call) for call in step.calls]
    runs = {"tigon": calls[0], "eager": step.eager, "compile": compiled}
    return [Contestant(name, run, lambda name=name, run=run: (run(), step.state[name])[1]) for name, run in runs.items()]


def error(results, expected) -> float:
    """The largest relative error of any tensor; infinite where something is missing, of another size or not a number."""
    results = list(results)
    if len(results) != len(expected):
        return float("inf")
    worst = 0.0
    for found, wanted in zip(results, expected):
        if found.numel() != wanted.numel():
            return float("inf")
        wanted = wanted.reshape(-1).float()
        difference = (found.reshape(-1).float() - wanted).norm().item()
        relative = difference / max(wanted.norm().item(), 1e-30)
        worst = max(worst, relative) if relative == relative else float("inf")
    return worst


def interleave(cell: list[Contestant], clock, cold: bool, seconds: float, least: int) -> dict[str, list[float]]:
    """Milliseconds of each, in rounds: everybody once, in rotating order."""
    times: dict[str, list[float]] = {c.name: [] for c in cell}
    gc.collect()
    gc.disable()
    begin, rounds = time.perf_counter(), 0
    while rounds < least or time.perf_counter() - begin < seconds:
        for i in range(len(cell)):
            c = cell[(i + rounds) % len(cell)]
            times[c.name].append(clock.milliseconds(c.prepare, c.run, cold))
        rounds += 1
    gc.enable()
    return times


def extra_memory(c: Contestant, clock) -> int:
    """Bytes that one run takes at its peak, beyond what it hands to its caller."""
    c.prepare()
    grown, handed = clock.peak(c.run)
    results = [handed] if isinstance(handed, torch.Tensor) else handed or []
    return max(grown - sum(t.numel() * t.element_size() for t in results), 0)


def compiled(function: Callable) -> Callable:
    """torch.compile with inductor, for this very shape."""
    torch._dynamo.reset()
    warnings.filterwarnings("ignore", module="torch")
    return torch.compile(function, dynamic=False)
