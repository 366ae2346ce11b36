"""Which feed-forward blocks of transformers are Tigon's."""
import inspect
import itertools

import torch
from torch import nn
from transformers.activations import ACT2CLS
from transformers.pytorch_utils import Conv1D

from tigon.transformers import _forwards, _probe
from tigon.transformers._classes import Part
from tigon.transformers._plain import does_nothing

SQUARED = tuple(ACT2CLS[name] if isinstance(ACT2CLS[name], type) else ACT2CLS[name][0] for name in ("relu2",) if name in ACT2CLS)
WIDTH, INNER = 6, 10  # of the small copies


def _product(module):
    """The nn.Linear, or Conv1D of GPT-2, that a module is, or that an adapter is around; None if there is none."""
    while hasattr(module, "base_layer"):
        module = module.base_layer
    return module if isinstance(module, (nn.Linear, Conv1D)) else None


def _children(module):
    """(Names of products, name of the activation); None where there is something else."""
    products = [n for n, m in module._modules.items() if _product(m) is not None]
    others = [n for n, m in module._modules.items() if n not in products and not isinstance(m, nn.Dropout)]
    if len(others) != 1 or module._modules[others[0]]._modules:
        return None
    return products, others[0]


def looks_like(module):
    return type(module).__name__.lower().endswith(("mlp", "feedforward"))


def recognise(module):
    """The part that a feed-forward block is, words where it is one that Tigon does not have, None for what is none."""
    if type(module) in SQUARED:
        return Part("mlp", "squared")
    children = _children(module)
    if children is None or len(inspect.signature(type(module).forward).parameters) != 2:
        return _words(module)
    products, act = children
    if len(products) not in (2, 3) or module._parameters:
        return _words(module)
    found = _fitting(module, products, act)
    return _words(module) if found is None else Part("mlp", "mlp", tuple(found))


def _is_activation(module):
    return type(module).__module__ in ("transformers.activations", "torch.nn.modules.activation")


def _words(module):
    if not looks_like(module) or "experts" in module._modules or any(isinstance(m, SQUARED) for m in module._modules.values()):
        return None  # its experts, or its activation, are modules of their own
    activations = [type(m).__name__ for m in module._modules.values() if _is_activation(m)]
    if not activations or any("gate" in n for n in module._modules):
        return "no feed-forward block of Tigon computes what its class does"
    return f"it has no gate, and Tigon has no {activations[0]} alone"


def words_of(module, part):
    """Why this module, of a class that is Tigon's, does not run there; None if it does."""
    if part.make != "mlp":
        return None
    mlp = _forwards.Mlp(*part.settings)
    act = getattr(module, mlp.act)
    if mlp.plain and _forwards.alone(act) is None:
        return f"it has no gate, and Tigon has no {type(act).__name__} alone"
    if mlp.plain and not all(_forwards.is_where_alone(p.device, act) for p in module.parameters()):
        return "it has no gate, and PyTorch has its activation in one kernel there"
    if not mlp.plain and type(act) not in _forwards.ACTIVATIONS:
        return f"its activation is {type(act).__name__}, and only its products run on Tigon"
    zeros = [n for n in mlp.zeros if not does_nothing(module, n)]
    return f"its {zeros[0]} is not 0" if zeros else None


class _Shifted(nn.Module):
    """Stands for dropout, where it is to be found."""

    def forward(self, x):
        return x + 1


def _mlps(module, products, act):
    """Every block that it could be."""
    factors = [n for n, v in vars(module).items() if type(v) is float and "multiplier" in n]
    limits = [n for n, v in vars(module).items() if type(v) in (float, int) and "limit" in n]
    for order in itertools.permutations(products):
        gate, up, down = order if len(order) == 3 else (order[0], None, order[1])
        yield _forwards.Mlp(gate, up, down, act)
        for first, second in itertools.permutations(factors, 2):
            yield _forwards.Mlp(gate, up, down, act, first, second)
        for limit in limits:
            yield _forwards.Mlp(gate, up, down, act, limit=limit)
    if len(products) == 2 and not isinstance(module._modules[act], SQUARED):
        for first, second in itertools.permutations(products):
            yield _forwards.Mlp(first, None, second, act, plain=True)


def _linear(mlp, name, module, seed):
    """A small product in the place of one of the module's."""
    shape = {mlp.down: (WIDTH, INNER)}.get(name, (INNER * (2 if mlp.up is None and not mlp.plain else 1), WIDTH))
    weight = nn.Parameter(_probe.random(*shape, seed=seed), requires_grad=False)
    has_bias = getattr(module, "bias", None) is not None
    bias = nn.Parameter(_probe.random(shape[0], seed=seed + 10), requires_grad=False) if has_bias else None
    small = nn.Linear(1, 1, device="meta")
    small._parameters.update(weight=weight, bias=bias)
    return small


def _copy(module, mlp, **numbers):
    modules = dict(module._modules)
    for seed, name in enumerate(sorted(modules)):
        if _product(modules[name]) is not None:
            modules[name] = _linear(mlp, name, _product(modules[name]), seed)
        elif isinstance(modules[name], nn.Dropout):
            modules[name] = _Shifted() if name == mlp.last else nn.Identity()
    modules[mlp.act] = nn.SiLU()
    return _probe.twin(module, modules=modules, **numbers)


def _fits(module, mlp, **numbers):
    copy, x = _copy(module, mlp, **numbers), 2 * _probe.random(4, 3, WIDTH, seed=20)
    expected = _probe.run(type(module).forward, copy, x)
    if expected is None or not bool(torch.isfinite(expected).all()):
        return False
    return _probe.agree(_probe.run(mlp, copy, x), expected)


def _fitting(module, products, act):
    dropouts = [n for n, m in module._modules.items() if isinstance(m, nn.Dropout)]
    others = {n: 0.0 for n, v in vars(module).items() if type(v) is float}
    for mlp in _mlps(module, products, act):
        used = {n: 0.75 for n in (mlp.gate_factor, mlp.down_factor, mlp.limit) if n is not None}
        if _fits(module, mlp, training=True, **{**others, **used}):
            unused = [n for n in others if n not in used]
            zeros = [n for n in unused if not _fits(module, mlp, training=True, **{**others, **used, n: 0.5})]
            last = [n for n in dropouts if mlp.plain and _fits(module, mlp._replace(last=n), training=True, **{**others, **used})]
            return mlp._replace(zeros=(*zeros, *(n for n in dropouts if n not in last[:1])), last=last[0] if last else None)
    return None
