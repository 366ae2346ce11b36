"""torch.compile takes functions, modules and losses of tigon.liger whole, and gives what they give without it."""
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from liger_calls import FUNCTIONS, LIGER
from tigon.liger import ops, transformers
from tigon.liger.transformers import functional


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, **{"fullgraph": True, "backend": "aot_eager", **options})


def results_of(function, tensors):
    """The tensors that a function returns, and the gradients of what it is given, for an upstream gradient that is not 1."""
    given = [t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in tensors]
    results = function(*given)
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r is not None]
    sum((torch.linspace(0.5, 2, r.numel()).view(r.shape) * r).sum() for r in results if r.requires_grad).backward()
    return results + [t.grad for t in given if isinstance(t, torch.Tensor)]


def same(function, *tensors, **options):
    expected, found = results_of(function, tensors), results_of(compiled(function, **options), tensors)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        torch.testing.assert_close(f, e, rtol=0, atol=0)


def hidden():
    torch.manual_seed(0)
    return torch.randn(6, 8, requires_grad=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LIGER)
def test_functions(name, dynamic):
    same(lambda *args: FUNCTIONS[name].apply(*args), *LIGER[name](hidden()), dynamic=dynamic)


def test_one_graph_for_all_sizes():
    function = compiled(lambda x: ops.LigerRMSNormFunction.apply(x, None, 1e-6), dynamic=True)
    function(torch.randn(4, 8))
    with torch.compiler.set_stance("fail_on_recompile"):
        for shape in ((4, 9), (7, 32), (3, 1000)):
            x = torch.randn(shape)
            assert torch.equal(function(x), ops.LigerRMSNormFunction.apply(x, None, 1e-6))


def test_inductor():
    def function(x, weight, target):
        x = ops.LigerRMSNormFunction.apply(x, None, 1e-6)
        x = ops.LigerSiLUMulFunction.apply(2 * x, x)
        return ops.LigerFusedLinearCrossEntropyFunction.apply(x, weight, target)[0]
    same(function, hidden(), torch.randn(11, 8, requires_grad=True), torch.arange(6), backend="inductor")


def test_what_is_saved_is_not_overwritten():
    """Under the two flags that ask for it: PyTorch traces no backward that writes to an input."""
    same(lambda x: ops.LigerFusedGateUpSiLUMulFunction.apply(x, True), hidden())
    same(lambda x: transformers.triton_grpo_loss(
        x.view(2, 3, 8), None, None, torch.ones(2, 2, dtype=torch.int64), torch.ones(2), beta=0.0, inplace=True), hidden())


def grpo(x, items):
    return transformers.triton_grpo_loss(
        x.view(2, 3, 8), None, torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.int64), torch.ones(2), torch.ones(2, 2),
        loss_type="vespo", reduce=True, num_items_in_batch=items)[0]


def test_grpo():
    same(lambda x: grpo(x, 3), hidden())
    same(grpo, hidden(), torch.tensor(3.0), fullgraph=False)


def test_functional_losses():
    same(lambda x: tuple(vars(functional.liger_cross_entropy(x, torch.arange(6), return_z_loss=True, lse_square_scale=0.1)).values()),
         hidden())
    same(lambda x, w: functional.liger_fused_linear_cross_entropy(x, w, torch.arange(6), reduction="none"),
         hidden(), torch.randn(11, 8, requires_grad=True))


CONFIG = SimpleNamespace(hidden_size=8, intermediate_size=16, hidden_act="silu", num_experts=3)


@pytest.mark.parametrize("name", ["LigerSwiGLUMLP", "LigerGEGLUMLP", "LigerPhi3SwiGLUMLP"])
def test_modules(name):
    same(getattr(transformers, name)(CONFIG), hidden())


@pytest.mark.parametrize("fullgraph", [False, True])
def test_experts(fullgraph):
    experts = transformers.LigerExperts(CONFIG)
    for p in experts.parameters():
        torch.nn.init.normal_(p)
    same(experts, hidden(), torch.tensor([[0, 1], [1, 2], [2, 0]] * 2), torch.full((6, 2), 0.5, requires_grad=True), fullgraph=fullgraph)


def test_plain_functions_break_the_graph():
    same(lambda x, w: (ops.swiglu_forward(2 * x.detach(), x.detach())[2] * x, ops.rms_norm_forward(w, None, 1e-6, 0.0, "llama", None)[0]),
         hidden(), torch.randn(6, 8), fullgraph=False)


def test_the_compiler_may_come_later():
    """It is not loaded with the package, which would take as long as PyTorch itself."""
    program = "import sys, torch, tigon.liger.ops as ops; assert 'torch._dynamo' not in sys.modules;" \
              "torch.compile(lambda x: ops.LigerSoftmaxFunction.apply(x), fullgraph=True, backend='eager')(torch.randn(2, 8))"
    subprocess.run([sys.executable, "-c", program], check=True)
