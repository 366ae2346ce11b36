"""The stubs for type checkers: of tigon.torch, whose functions and most of whose modules are made from the library's schema, and of what
tigon.liger makes from its table.
    stubs.py INCLUDE_TIGON PACKAGE_SOURCE FOLDER      writes torch/functional.pyi, torch/modules.pyi, torch/parallel.pyi, torch/ring.pyi,
                                                      torch/experts.pyi, torch/fp8.pyi, liger/ops/__init__.pyi and liger/transformers/functional.pyi into FOLDER
"""
import ast
import os
import re
import runpy
import sys
import types

from generate import operators

HEAD = '''from typing import Any, Literal, Optional, Tuple, Union, overload

import torch
import torch.distributed as dist
from torch import Tensor, nn

'''
KINDS = {"IN": "in", "OPT": "opt", "OUT": "out", "OUT_OPT": "out_opt", "OPT_OVER": "out_opt", "OUT_OVER": "out",
         "INOUT": "out", "INOUT_OPT": "out_opt",
         "F64": "f64", "I64": "i64", "CHOICE": "i64"}
# Flags of results that a function of functional.py keeps to itself, and what it takes instead.
KEPT = {"pre": "recompute"}
# The types of what modules take besides options.
PARAMETERS = {"recompute": "bool", "device": "Union[torch.device, str, None]", "dtype": "Optional[torch.dtype]", "alpha": "float"}


def schema(definitions):
    """What _core.schema() says of each operator, as far as _table.py asks."""
    def argument(kind, name, rest):
        choices = {"CHOICE": {"no": 0, "yes": 1} if rest == "no_yes" else {"by name": 0}}.get(kind)
        return {"name": name, "kind": KINDS[kind], "rule": re.split(r"\W", rest)[0], "required": rest == "TG_REQUIRED", "choices": choices,
                "over": rest.rsplit(",", 1)[1].strip() if kind.endswith("_OVER") else None}
    return {name: [argument(*field) for field in fields] for name, fields in operators(definitions)}


def table(definitions, package):
    """The names of tigon.torch._table, of this list of operators."""
    outputs = types.ModuleType("tigon._outputs")
    outputs.SCHEMA = schema(definitions)
    sys.modules.update({"tigon": types.ModuleType("tigon"), "tigon._outputs": outputs})
    return runpy.run_path(os.path.join(package, "torch", "_table.py"))


def option(argument):
    kind = {"f64": "float", "i64": "int"}[argument["kind"]]
    if argument["choices"]:
        kind = "bool" if "yes" in argument["choices"] else "str"
    return f"{argument['name']}: {kind}" if argument["required"] else f"{argument['name']}: Optional[{kind}] = None"


def inputs(op, left_out=(), given=()):
    """Tensors by position. `given`: optional ones whose type is told."""
    last = max((i for i, n in enumerate(op.inputs) if n not in op.optional), default=-1)
    told = {**dict.fromkeys(op.drawn, "Union[int, Tensor, None]"), **dict(given)}
    kinds = {n: told.get(n, "Optional[Tensor]" if n in op.optional else "Tensor") for n in op.inputs}
    return [f"{n}: {kinds[n]}" + " = None" * (n in op.optional and i > last) for i, n in enumerate(op.inputs) if n not in left_out]


def result(count):
    return "Tensor" if count == 1 else f"Tuple[{', '.join(['Tensor'] * count)}]"


def signatures(op, shown, in_forward=()):
    """(inputs, options, result) of each way to call: results follow from inputs that may be left out, and from flags."""
    flags = [n for n in op.flags if n not in in_forward]
    options = [option(a) for a in op.options] + [f"{KEPT[n]}: bool = False" for n in flags if n in KEPT]
    flags = [n for n in flags if n not in KEPT]
    if op.follows and flags:
        return [(inputs(op), options + [f"{n}: bool = False" for n in flags], "Any")]
    if op.follows:
        (_, source), = op.follows.items()
        return [(inputs(op, given=[(source, "None")]), options, result(len(shown) - 1)),  # first: a checker without PyTorch takes None for a Tensor
                (inputs(op, given=[(source, "Tensor")]), options, result(len(shown)))]
    ways = [(inputs(op), options + [f"{n}: Literal[False] = False" for n in flags], result(len(shown)))] * bool(shown)
    return ways + [(inputs(op), options + [f"{n}: bool = False" for n in flags], "Any")] * bool(flags)


def define(name, ways, first=(), indent=""):
    for tensors, options, kind in ways:
        arguments = [*first, *tensors, *["*"] * bool(options), *options]
        yield f"{indent}@overload\n" * (len(ways) > 1) + f"{indent}def {name}({', '.join(arguments)}) -> {kind}: ..."


def functions(names):
    for name, family in names["FAMILIES"].items():
        yield from define(name, signatures(family.forward, family.shown, family.in_forward))
    for name in names["PRODUCTS"]:
        yield from define(name, signatures(names["Operator"](name), {"c"}))
    for name in names["WHOLE"]:
        op = names["Operator"](name)
        yield from define(name, signatures(op, set(op.outputs) - set(op.flags)))
    yield "def adamw(param: Tensor, grad: Tensor, m: Tensor, v: Tensor, master: Optional[Tensor] = None, *, step: int, " \
          "lr: Union[float, Tensor, None] = None, beta1: Optional[float] = None, beta2: Optional[float] = None, " \
          "eps: Optional[float] = None, weight_decay: Optional[float] = None, grad_scale: Optional[float] = None) -> None: ..."


def initialiser(node, op, flags):
    """__init__ of a class of modules.py, whose **options are those of the family."""
    init = next((n for n in node.body if getattr(n, "name", "") == "__init__"), None) if node else None
    given = [a.arg for a in init.args.args[1:]] if init else []
    defaults = [None] * (len(given) - len(init.args.defaults)) + init.args.defaults if init else []
    head = [f"{n}: {PARAMETERS.get(n, 'int')}" + ("" if d is None else f" = {ast.unparse(d)}") for n, d in zip(given, defaults)]
    options = [option(a) for a in op.options if a["name"] not in given] + [f"{n}: bool = False" for n in flags]
    options = options if not init or init.args.kwarg else []
    return f"    def __init__({', '.join(['self', *head, *['*'] * bool(options), *options])}) -> None: ..."


def module(name, base, node, family, takes):
    op, shown = family.forward, family.shown
    flags = [n for n in op.flags if n not in family.in_forward and n not in KEPT]
    yield f"class {name}({base}):"
    yield from (f"    {n}: nn.Parameter" for n in takes)
    yield initialiser(node, op, flags)
    kind = "Any" if flags or op.follows else result(len(shown))
    for method in ("forward", "__call__"):
        yield f"    def {method}({', '.join(['self', *inputs(op, takes)])}) -> {kind}: ..."


def constant(node, name, default):
    for n in node.body:
        if isinstance(n, ast.Assign) and n.targets[0].id == name:
            return ast.literal_eval(n.value)
    return default


def annotated(nodes, indent=""):
    """Functions whose source has the types, and classes of such."""
    for n in nodes:
        if isinstance(n, ast.FunctionDef) and n.returns and not (n.name.startswith("_") and n.name != "__init__"):
            yield f"{indent}def {n.name}({ast.unparse(n.args)}) -> {ast.unparse(n.returns)}: ..."
        elif isinstance(n, ast.AnnAssign) and indent:
            yield indent + ast.unparse(n)
        elif isinstance(n, ast.ClassDef) and not n.name.startswith("_"):
            yield f"{indent}class {n.name}({', '.join(ast.unparse(b) for b in n.bases)}):"
            yield from annotated(n.body, indent + "    ")


def classes(names, tree):
    """The classes of modules.py."""
    nodes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    takes = {}
    yield "class Module(nn.Module):\n    family: str\n    takes: Tuple[str, ...]\n    options: dict[str, Any]"
    for name, node in nodes.items():
        base = ast.unparse(node.bases[0])
        takes[name] = constant(node, "takes", takes.get(base, ()))
        family = constant(node, "family", None)
        if family:
            init = node if any(getattr(n, "name", "") == "__init__" for n in node.body) else nodes[base]
            yield from module(name, "Module", init, names["FAMILIES"][family], takes[name])
    for name, family in constant(tree, "_CLASSES", {}).items():
        yield from module(name, "Module", None, names["FAMILIES"][family], ())
    yield "class Linear(nn.Linear):\n    def __call__(self, x: Tensor) -> Tensor: ..."
    for name in ("AdamW", "Muon"):
        yield f"class {name}(torch.optim.Optimizer):"
        yield from annotated(nodes[name].body, "    ")


def liger_ops(names):
    for family in names["FAMILIES"]:
        for name in names["exports"](family):
            yield f"from tigon.liger.ops.{family} import {name} as {name}"


def liger_functions(names, tree):
    """What functional.py defines itself, and the functions that it makes."""
    yield from (ast.unparse(n) for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)))
    yield from (f"def {function}: ..." for family in names["FAMILIES"] for function in names["functions"](family))


def main(include, package, folder):
    def tree(name):
        with open(os.path.join(package, name), encoding="utf-8") as file:
            return ast.parse(file.read())

    with open(os.path.join(include, "ops.def"), encoding="utf-8") as file:
        names = table(file.read(), package)
    liger = runpy.run_path(os.path.join(package, "liger", "_table.py"))
    stubs = {
        "torch/functional": (HEAD, functions(names)),
        "torch/modules": (HEAD, classes(names, tree("torch/modules.py"))),
        "torch/parallel": (HEAD, annotated(tree("torch/parallel.py").body)),
        "torch/experts": (HEAD + "from typing import Sequence\n\nfrom tigon.torch.modules import FusedMoE\n\n", annotated(tree("torch/experts.py").body)),
        "torch/fp8": (HEAD, annotated(tree("torch/fp8.py").body)),
        "torch/ring": (HEAD, annotated(tree("torch/ring.py").body)),
        "liger/ops/__init__": ("", liger_ops(liger)),
        "liger/transformers/functional": ("", liger_functions(liger, tree("liger/transformers/functional.py"))),
    }
    for name, (head, text) in stubs.items():
        with open(os.path.join(folder, f"{name}.pyi"), "w", encoding="utf-8") as stub:
            stub.write(head + "\n".join(text) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
