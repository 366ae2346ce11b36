"""Operators on tensors that have no memory: torch.compile traces with such ones. There a call is a node of its graph, an operator of
torch.library under the name tigon_ops, of the arguments of tigon.ops, which writes to its outputs."""
import functools
import string

import torch

from tigon import _core
from tigon._devices import KEYS
from tigon._outputs import SCHEMA, make, traced_shapes

library = torch.library.Library("tigon_ops", "DEF")


# How many look on at what is computed, of which torch.compile has no values.
traced = torch._C._len_torch_dispatch_stack


def _chosen(op):
    function = _core.operators[op]
    return property(lambda ops: _node(op) if traced() else function)


ops = type("Operators", (), {op: _chosen(op) for op in _core.operators})()


def _names(op, *kinds):
    return [a["name"] for a in SCHEMA[op] if a["kind"] in kinds]


def _option(argument):
    kind = {"f64": "float", "i64": "SymInt"}[argument["kind"]]
    return f"{'str' if argument['choices'] else kind}? {argument['name']}=None"


def _define(op, inputs, outputs):
    """The operator in torch.library."""
    tensors = [f"Tensor? {n}=None" for n in inputs]
    tensors += [f"Tensor({letter}!)? {n}=None" for letter, n in zip(string.ascii_lowercase, outputs)]
    options = [_option(a) for a in SCHEMA[op] if a["kind"] in ("f64", "i64")]
    library.define(f"{op}({', '.join(tensors + ['*'] * bool(options) + options)}) -> ()")
    function = _core.operators[op]

    def kernel(*tensors, **options):
        function(**dict(zip(inputs + outputs, tensors)), **options)

    for key in KEYS.values():
        library.impl(op, kernel, key)
    torch.library.register_fake(f"tigon_ops::{op}", lambda *tensors, **options: None, lib=library)
    return getattr(torch.ops.tigon_ops, op)


@functools.cache
def _node(op):
    """The function of tigon.ops as a node of a graph."""
    inputs, outputs = _names(op, "in", "opt"), _names(op, "out", "out_opt")
    required, choices = _names(op, "out"), {a["name"]: a["choices"] for a in SCHEMA[op] if a["choices"]}
    target = _define(op, inputs, outputs)

    def call(*args, **named):
        given = {n: v for n, v in (*zip(inputs, args), *named.items()) if v is not None and not (v is False and n in outputs)}
        asked = [n for n in outputs if given.get(n, n in required) is True]
        tensors = {n: given[n] for n in inputs + outputs if n in given and n not in asked}
        options = {n: v for n, v in given.items() if n not in inputs + outputs}
        tensors.update(zip(asked, make(op, tensors, traced_shapes(op, tensors, options, asked))))
        for n in choices.keys() & options.keys():
            options[n] = next((word for word, number in choices[n].items() if number == options[n]), options[n])
        target(**tensors, **options)
        results = tuple(tensors[n] for n in outputs if n in tensors)
        return results[0] if len(results) == 1 else results

    return call
