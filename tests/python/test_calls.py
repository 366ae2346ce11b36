"""What tigon.torch does with tensors that are not plain ones of one device: on `meta`, fake, of an empty batch, torch.fx's proxies, of sizes
that torch.compile does not know."""
import copy
import inspect
import operator
from functools import reduce

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import tigon.torch as tt
from problems import problems

PROBLEMS = problems()
each = pytest.mark.parametrize("name", PROBLEMS)
several = pytest.mark.parametrize("name", [n for n, p in PROBLEMS.items() if len(p.tensors) > 1])


def call(name, tensors):
    results = getattr(tt, name)(**tensors, **PROBLEMS[name].options)
    return results if isinstance(results, tuple) else (results,)


def total(results):
    return reduce(operator.add, (r.square().sum() for r in results))


def refused(name, here, there, words):
    """Each tensor there, and all but that one."""
    first, *others = here
    for n in others:
        with pytest.raises(ValueError, match=f": {n} is on {words}, expected cpu, the device of {first}"):
            call(name, {**here, n: there[n]})
    with pytest.raises(ValueError, match=f": {others[0]} is on cpu, expected {words}, the device of {first}"):
        call(name, {**here, first: there[first]})


@several
def test_tensors_of_several_devices(name):
    tensors = {n: t.detach() for n, t in PROBLEMS[name].copy().items()}
    meta = {n: t.to("meta") for n, t in tensors.items()}
    refused(name, tensors, meta, "meta")
    mode = FakeTensorMode()
    fakes = [{n: FakeTensor(mode, t, torch.device(device)) for n, t in meta.items()} for device in ("cpu", "cuda:0")]
    with mode:
        refused(name, *fakes, "cuda:0")


@each
def test_all_on_meta(name):
    tensors = PROBLEMS[name].copy()
    for m, r in zip(call(name, {n: t.to("meta") for n, t in tensors.items()}), call(name, tensors), strict=True):
        assert m.is_meta and m.shape == r.shape and m.dtype == r.dtype


def test_adamw_of_several_devices():
    param, grad, m, v = (torch.ones(4) for _ in range(4))
    for n, i in {"grad": 1, "m": 2, "v": 3}.items():
        tensors = [param, grad, m, v]
        tensors[i] = tensors[i].to("meta")
        with pytest.raises(ValueError, match=f"adamw: {n} is on meta, expected cpu, the device of param"):
            tt.adamw(*tensors, step=1)
    assert torch.equal(param, torch.ones(4))


MODULES = {"RMSNorm": (lambda: tt.RMSNorm(4), torch.randn(3, 4)), "LayerNorm": (lambda: tt.LayerNorm(4), torch.randn(3, 4)),
           "GroupNorm": (lambda: tt.GroupNorm(2, 4), torch.randn(3, 4, 5)), "DyT": (lambda: tt.DyT(4), torch.randn(3, 4)),
           "PolyNorm": (lambda: tt.PolyNorm(), torch.randn(3, 4)), "Embedding": (lambda: tt.Embedding(7, 4), torch.tensor([[1, 6]])),
           "Linear": (lambda: tt.Linear(4, 5), torch.randn(2, 3, 4))}


@pytest.mark.parametrize("name", MODULES)
def test_a_parameter_on_meta(name):
    make, x = MODULES[name]
    for parameter in dict(make().named_parameters()):
        module = make()
        setattr(module, parameter, nn.Parameter(getattr(module, parameter).to("meta")))
        with pytest.raises((ValueError, RuntimeError), match="meta.* cpu|cpu.* meta"):
            module(x)


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("name", MODULES)
def test_a_parameter_that_is_computed(name):
    make, x = MODULES[name]
    module = make()
    parameter = next(iter(dict(module.named_parameters())))
    expected = copy.deepcopy(module)
    getattr(expected, parameter).data.mul_(2)
    nn.utils.parametrize.register_parametrization(module, parameter, Twice())
    assert torch.equal(module(x), expected(x))


def test_linear_has_the_type_of_autocast():
    x, linear = torch.randn(3, 4), tt.Linear(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x).dtype == nn.functional.linear(x, linear.weight, linear.bias).dtype


@each
def test_vmap_over_an_empty_batch(name):
    problem = PROBLEMS[name]
    constant = {n: t.detach() for n, t in problem.copy().items()}
    leaves = {n: t.new_empty(0, *t.shape) for n, t in constant.items() if t.is_floating_point() and n not in problem.constant}
    mapped = torch.vmap(lambda t: call(name, {**constant, **t}))(leaves)
    for m, r in zip(mapped, call(name, constant), strict=True):
        assert m.shape == (0, *r.shape) and m.dtype == r.dtype
    gradients = torch.vmap(torch.func.grad(lambda t: total(call(name, {**constant, **t}))))(leaves)
    assert all(gradients[n].shape == t.shape for n, t in leaves.items())


def traced(function, names):
    """torch.fx.symbolic_trace of a function of these arguments."""
    scope = {"function": function}
    exec(f"def called({', '.join(names)}):\n    return function({', '.join(f'{n}={n}' for n in names)})", scope)
    return torch.fx.symbolic_trace(scope["called"])


@each
def test_fx(name):
    tensors = PROBLEMS[name].copy()
    graph = traced(lambda **given: getattr(tt, name)(**given, **PROBLEMS[name].options), list(tensors))
    found = graph(**tensors)
    assert torch.equal(found[0] if isinstance(found, tuple) else found, call(name, tensors)[0])
    assert getattr(tt, name) in [node.target for node in graph.graph.nodes]


@pytest.mark.parametrize("name", MODULES)
def test_fx_of_a_module(name):
    make, x = MODULES[name]
    module = make()
    assert torch.equal(torch.fx.symbolic_trace(module)(x), module(x))
    assert torch.equal(torch.fx.symbolic_trace(nn.Sequential(module, nn.Identity()))(x), module(x))


def test_a_module_says_what_it_takes():
    assert str(inspect.signature(tt.RMSNorm(4).forward)) == "(x, gate=None, scale=None, shift=None)"
    assert str(inspect.signature(tt.CrossEntropyLoss().forward)) == "(logits, target, batch_target=None, class_weight=None)"


# Tensors whose first size is that of the batch, or here another dimension of it; those of the others stay as they are.
BATCH = {"gemm": {"a": 1, "b": 0}, "qwen2vl_mrope": {"q": 0, "k": 0, "cos": 1, "sin": 1}, "rope": {"q": 0, "k": 0},
         "attn_res": {"v": 1}, "llama4_rope": {"q": 0, "k": 0}, "embedding": {"indices": 0}, "layer_norm": {"x": 0}, "poly_norm": {"x": 0},
         "fused_linear_cross_entropy": {"x": 0, "target": 0}, "fused_linear_jsd": {"x": 0, "teacher_x": 0},
         "fused_linear_logp": {"x": 0, "target": 0}, "fused_linear_kl_div": {"x": 0, "target": 0},
         "preference_loss": {"logp": 1, "ref_logp": 1}}


def larger(name, factor, device):
    problem = PROBLEMS[name]
    size = next(iter(problem.tensors.values())).shape[0]
    along = BATCH.get(name, {n: 0 for n, t in problem.tensors.items() if t.dim() and t.shape[0] == size})
    grown = {n: t.repeat_interleave(factor, along[n]) if n in along else t for n, t in problem.tensors.items()}
    return {n: t.to(device, copy=True).requires_grad_(t.is_floating_point() and n not in problem.constant) for n, t in grown.items()}


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
@each
def test_compiled_in_one_graph(name, device):
    """For sizes that grow, with the bits of eager calls, gradients as well."""
    torch.compiler.reset()
    counters.clear()
    compiled = torch.compile(lambda t: call(name, t), fullgraph=True, dynamic=True, backend="aot_eager")
    for factor in (5, 7):
        tensors = larger(name, factor, device)
        wanted = [t for t in tensors.values() if t.requires_grad]
        found, expected = compiled(tensors), call(name, tensors)
        assert all(map(torch.equal, found, expected))
        found, expected = (torch.autograd.grad(total(results), wanted) for results in (found, expected))
        assert all(map(torch.equal, found, expected))
    assert counters["stats"]["unique_graphs"] == 1
