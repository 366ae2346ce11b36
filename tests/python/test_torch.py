"""tigon.torch: results and gradients of all families, and that they go through what PyTorch does with operators."""
from functools import partial

import pytest
import torch

import tigon
import tigon.torch
from problems import problems
from tigon.torch._table import FAMILIES, PRODUCTS

PROBLEMS = problems()
each = pytest.mark.parametrize("name", PROBLEMS)


@pytest.fixture(params=["cpu"] + ["cuda"] * torch.cuda.is_available())
def device(request):
    return request.param


def call(name, tensors):
    return getattr(tigon.torch, name)(**tensors, **PROBLEMS[name].options)


def scalar(results):
    """A number that depends on each element in its own way."""
    results = results if isinstance(results, tuple) else (results,)
    return sum((r * torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype, device=r.device).reshape(r.shape)).sum() for r in results)


def gradients(function, tensors):
    wanted = {n: t for n, t in tensors.items() if t.requires_grad}
    return dict(zip(wanted, torch.autograd.grad(scalar(function(tensors)), list(wanted.values()))))


def near(found, expected, tolerance):
    expected = expected.to("cpu", torch.float64)
    assert found.shape == expected.shape
    torch.testing.assert_close(found.to("cpu", torch.float64), expected, rtol=tolerance, atol=tolerance * max(1.0, expected.abs().max().item()))


def both(name, device, dtype, function=None):
    """Results and gradients of a family and of its reference in f64 on the CPU, from the same numbers."""
    problem = PROBLEMS[name]
    tensors = problem.copy(device, dtype)
    exact = {n: t.detach().to("cpu", torch.float64).requires_grad_(t.requires_grad) if t.is_floating_point() else t.cpu()
             for n, t in tensors.items()}
    expected = problem.reference(**exact, **problem.options)
    function = function or (lambda t: call(name, t))
    return function(tensors), expected, gradients(function, tensors), gradients(lambda t: problem.reference(**t, **problem.options), exact)


def test_every_family_has_a_problem():
    assert set(PROBLEMS) == set(FAMILIES) | set(PRODUCTS)


@each
@pytest.mark.parametrize("dtype,tolerance", [(torch.float32, 2e-5), (torch.bfloat16, 2e-2), (torch.float64, 1e-9)])
def test_results_and_gradients(name, device, dtype, tolerance):
    if device != "cpu" and dtype == torch.float64:
        pytest.skip("f64 is the reference's, which runs on the CPU")
    found, expected, got, wanted = both(name, device, dtype)
    found, expected = (r if isinstance(r, tuple) else (r,) for r in (found, expected))
    for f, e in zip(found, expected, strict=True):
        near(f, e, tolerance)
    assert set(got) == set(wanted)
    for n in wanted:
        near(got[n], wanted[n], tolerance)


@each
def test_torch_func(name, device):
    tensors = PROBLEMS[name].copy(device)
    expected = gradients(lambda t: call(name, t), tensors)
    constant = {n: t.detach() for n, t in tensors.items()}
    got = torch.func.grad(lambda leaves: scalar(call(name, {**constant, **leaves})))({n: constant[n] for n in expected})
    for n in expected:
        near(got[n], expected[n], 1e-6)
    twice = {n: torch.stack((constant[n], 2 * constant[n])) for n in expected}
    mapped = torch.vmap(lambda leaves: call(name, {**constant, **leaves}))(twice)
    for i, factor in enumerate((1, 2)):
        one = call(name, {**constant, **{n: factor * constant[n] for n in expected}})
        for m, o in zip(*((r if isinstance(r, tuple) else (r,)) for r in (mapped, one))):
            near(m[i], o, 1e-6)


@each
def test_autocast(name, device):
    tensors = PROBLEMS[name].copy(device)
    first = next(n for n, t in tensors.items() if t.is_floating_point())
    with torch.autocast(device, torch.bfloat16):
        mixed = {n: t.to(torch.bfloat16) if n == first else t for n, t in tensors.items()}
        result = call(name, mixed)
    grad = torch.autograd.grad(scalar(result), tensors[first])[0]
    assert grad.dtype == torch.float32 and grad.isfinite().all()


@each
def test_checkpoint(name, device):
    tensors = PROBLEMS[name].copy(device)
    expected = gradients(lambda t: call(name, t), tensors)
    got = gradients(lambda t: torch.utils.checkpoint.checkpoint(lambda: call(name, t), use_reentrant=False), tensors)
    for n in expected:
        assert torch.equal(got[n], expected[n])


@each
def test_opcheck(name, device):
    """PyTorch's own checks of a custom operator: its schema, its shapes for tracing, its gradients."""
    problem = PROBLEMS[name]
    forward = getattr(torch.ops.tigon, name if name in PRODUCTS else f"{name}_forward").default
    tensors = problem.copy(device)
    order = [a.name for a in forward._schema.arguments if not a.kwarg_only]
    # (What it compiles adds up all results, into the first one's type: of integers none is of floating point.)
    some = {"test_utils": ("test_schema", "test_autograd_registration", "test_faketensor")} if name == "moe_router" else {}
    torch.library.opcheck(forward, tuple(tensors.get(n) for n in order), problem.options, **some)


def test_only_what_is_needed_has_a_gradient():
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8)
    y = tigon.torch.rms_norm(x, weight)
    y.sum().backward()
    assert x.grad is not None and weight.grad is None


def test_results_beside_the_one_that_has_a_gradient_have_none():
    x = torch.randn(4, 8, requires_grad=True)
    y, rstd = torch.ops.tigon.rms_norm_forward(x, torch.ones(8), eps=1e-6)
    assert y.requires_grad and not rstd.requires_grad
    results = torch.ops.tigon.cross_entropy_forward(x, torch.arange(4))
    assert [r.requires_grad for r in results] == [True] + [False] * (len(results) - 1)


def test_optional_results_are_returned_where_they_are_asked_for():
    logits, target = torch.randn(4, 8), torch.tensor([0, 1, 2, 3])
    loss, accuracy = tigon.torch.cross_entropy(logits, target, accuracy=True, reduction="none")
    assert loss.shape == accuracy.shape == (4,)


def test_fused_linear_without_reduction_takes_a_gradient_for_each_row():
    x, weight, target = torch.randn(6, 16, requires_grad=True), torch.randn(5, 16, requires_grad=True), torch.arange(6) % 5
    def run(function):
        return torch.autograd.grad(scalar(function()), (x, weight))
    got = run(lambda: tigon.torch.fused_linear_cross_entropy(x, weight, target, reduction="none"))
    expected = run(lambda: torch.nn.functional.cross_entropy(x @ weight.T, target, reduction="none"))
    for g, e in zip(got, expected):
        near(g, e, 2e-5)


@pytest.mark.parametrize("rows, kept", [(6, {}), (6, {"logits": True}), (6, {"logits": False}), (6, {"chunk_bytes": 60})])
def test_fused_linear_without_reduction_keeps_the_logits_of_few_rows(rows, kept):
    """Or those that are asked for: as much as a chunk has; a saved tensor of that shape shows it."""
    x, weight, target = torch.randn(rows, 16, requires_grad=True), torch.randn(5, 16, requires_grad=True), torch.arange(rows) % 5
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        result = tigon.torch.fused_linear_cross_entropy(x, weight, target, reduction="none", softcap=3.0, temperature=0.7, **kept)
    assert ((rows, 5) in saved) == (kept.get("logits", True) and "chunk_bytes" not in kept)
    loss, logits = result if kept.get("logits") else (result, None)
    capped = 3 * torch.tanh((x @ weight.T) / 3) / 0.7
    if logits is not None:
        near(logits, x @ weight.T / 0.7, 2e-5)
    expected = torch.autograd.grad(scalar(torch.nn.functional.cross_entropy(capped, target, reduction="none")), (x, weight))
    for g, e in zip(torch.autograd.grad(scalar(loss), (x, weight)), expected):
        near(g, e, 2e-5)


def test_fused_linear_scales_its_gradients_once_for_each_backward():
    """They are scaled in place when the graph is let go, and stay as they were while it is kept."""
    x, weight, target = torch.randn(6, 16, requires_grad=True), torch.randn(5, 16, requires_grad=True), torch.arange(6) % 5
    (6 * torch.nn.functional.cross_entropy(x @ weight.T, target)).backward()
    expected, x.grad, weight.grad = (x.grad, weight.grad), None, None
    loss = 2 * tigon.torch.fused_linear_cross_entropy(x, weight, target)
    for kept in (True, True, False):
        loss.backward(retain_graph=kept)
    near(x.grad, expected[0], 2e-5)
    near(weight.grad, expected[1], 2e-5)


@pytest.mark.parametrize("factor", [None, 0.25])
def test_the_gradient_of_sum_rows_is_a_view(factor):
    x, dy = torch.randn(5, 3, 8, requires_grad=True), torch.randn(3, 8)
    y = tigon.torch.sum_rows(x, None if factor is None else torch.tensor([factor]), scale=0.5)
    dx, = torch.autograd.grad(y, x, dy, retain_graph=True)
    assert dx.stride() == (0, 8, 1)
    assert torch.equal(dx, (dy * 0.5 * (factor or 1)).expand(5, 3, 8))
    y.backward(dy)
    assert x.grad.is_contiguous()  # a leaf's own is memory of its own
    assert torch.equal(x.grad, dx)


def test_rope_without_keys_and_with_unused_ones():
    problem = PROBLEMS["rope"].copy()
    q, k, cos, sin = problem.values()
    alone = tigon.torch.rope(q, None, cos, sin)
    both_rotated = tigon.torch.rope(q, k, cos, sin)
    assert torch.equal(alone, both_rotated[0])
    assert torch.autograd.grad(both_rotated[0].sum(), (q, k), allow_unused=True)[1] is None
    assert torch.autograd.grad(tigon.torch.rope(q, k, cos, sin)[1].sum(), (q, k))[0].abs().max() == 0


def test_an_error_is_an_exception_with_the_librarys_words():
    with pytest.raises(ValueError, match=r"rms_norm_forward: weight is \[7\], expected \[8\], the last dimension of x"):
        tigon.torch.rms_norm(torch.randn(4, 8), torch.randn(7))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_streams_and_graphs():
    """Calls follow PyTorch's current stream, and a graph records them."""
    x, weight = torch.randn(64, 256, device="cuda"), torch.ones(256, device="cuda")
    expected = tigon.torch.rms_norm(x, weight)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = tigon.torch.rms_norm(x, weight)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(y, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = tigon.torch.rms_norm(x, weight)
    x.mul_(-1)
    graph.replay()
    assert torch.equal(recorded, -expected)


def record(function):
    """A graph of a call that nothing was called before, on a stream of its own, and what the call returned."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        recorded = function()
    return graph, recorded


@each
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_graph_records_the_first_call(name):
    tensors = PROBLEMS[name].copy("cuda")
    graph, recorded = record(lambda: gradients(lambda t: call(name, t), tensors))
    graph.replay()
    expected = gradients(lambda t: call(name, t), tensors)
    for n in expected:
        near(recorded[n], expected[n], 1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_graphs_keep_their_scratch_memory():
    """The second call needs more of it than the first, and what is allocated afterwards does not lie there."""
    graphs = []
    for rows in 64, 2048:
        tensors = {"x": torch.randn(rows, 256, device="cuda", requires_grad=True), "weight": torch.randn(999, 256, device="cuda", requires_grad=True),
                   "target": torch.arange(rows, device="cuda") % 999}
        step = partial(gradients, lambda t: tigon.torch.fused_linear_cross_entropy(**t), tensors)
        graphs.append((*record(step), step))
    others = [torch.full((1 << n,), float("nan"), device="cuda") for n in range(10, 24)]
    for graph, recorded, step in graphs * 2:
        graph.replay()
        for n, expected in step().items():
            near(recorded[n], expected, 1e-6)
    assert all(t.isnan().all() for t in others)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_an_index_out_of_range_on_a_card():
    tigon.torch.embedding(torch.randn(4, 8, device="cuda"), torch.tensor([9], device="cuda"))
    with pytest.raises(ValueError, match="embedding_forward: indices"):
        tigon.sync()
