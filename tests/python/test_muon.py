"""tigon.torch.Muon beside torch.optim.Muon, and of parameters that are spread over processes."""
import copy
import math

import pytest
import torch
import torch.distributed as dist
from torch import nn

import tigon.torch as tt
from processes import gloo_group
from test_modules import tiny

torch_muon = getattr(torch.optim, "Muon", None)
needs_torch_muon = pytest.mark.skipif(torch_muon is None, reason="torch.optim.Muon came with PyTorch 2.9")
SHAPES = (6, 20), (20, 6), (6, 20), (16, 16), (1, 9)


def orthogonal(u, steps=5):
    """Newton and Schulz, in f64."""
    a, b, c = 3.4445, -4.775, 2.0315
    x = u.double() / u.double().norm()
    x = x.T if x.shape[0] > x.shape[1] else x
    for _ in range(steps):
        g = x @ x.T
        x = a * x + (b * g + c * g @ g) @ x
    return x.T if u.shape[0] > u.shape[1] else x


class Exact:
    """What one step of Muon is, in f64."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn=None):
        self.params, self.momenta = params, [torch.zeros_like(p) for p in params]
        self.lr, self.weight_decay, self.momentum, self.nesterov, self.adjust = lr, weight_decay, momentum, nesterov, adjust_lr_fn

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.momenta):
            m.mul_(self.momentum).add_(p.grad, alpha=1 - self.momentum)
            u = m * self.momentum + p.grad * (1 - self.momentum) if self.nesterov else m
            rows, columns = p.shape
            factor = 0.2 * math.sqrt(max(rows, columns)) if self.adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
            p.mul_(1 - self.lr * self.weight_decay).sub_(orthogonal(u), alpha=self.lr * factor)


def parameters(dtype):
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]


def gradients(count):
    torch.manual_seed(1)
    return [[torch.randn(shape) for shape in SHAPES] for _ in range(count)]


def take(optimizer, params, given, dtype=None):
    for grads in given:
        for p, g in zip(params, grads):
            p.grad = g.to(dtype or p.dtype).to(p.dtype)
        optimizer.step()


@needs_torch_muon
@pytest.mark.parametrize("options", [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False, "momentum": 0.8, "weight_decay": 0}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_as_near_to_muon_as_torch_is(dtype, options):
    """Both round to bf16 within, and so the same directions are known to some digits alone."""
    lists = [parameters(dtype) for _ in range(2)]
    exact = [nn.Parameter(p.detach().double()) for p in lists[0]]
    given = gradients(6)
    for optimizer, params in zip((tt.Muon, torch_muon), lists):
        take(optimizer(params, lr=0.05, **options), params, given)
    take(Exact(exact, lr=0.05, **options), exact, given, dtype)
    start = parameters(dtype)
    for ours, theirs, truth, before in zip(*lists, exact, start):
        moved = (truth - before.double()).norm()
        mine, other = ((p.double() - truth).norm() / moved for p in (ours, theirs))
        assert mine < 1.5 * other + 0.01, (ours.shape, mine, other)


@needs_torch_muon
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_load_both_ways(dtype):
    params = parameters(dtype)
    first, given = gradients(2), gradients(3)
    for begin, go_on in ((tt.Muon, torch_muon), (torch_muon, tt.Muon)):
        ones, others = copy.deepcopy(params), copy.deepcopy(params)
        before = begin(ones, lr=0.02, momentum=0.9)
        take(before, ones, first)
        after = go_on(others)
        after.load_state_dict(copy.deepcopy(before.state_dict()))
        for one, other in zip(ones, others):
            other.data.copy_(one.data)
            buffer = after.state[other]["momentum_buffer"]
            assert buffer.dtype == dtype and torch.equal(buffer, before.state[one]["momentum_buffer"])
        assert after.param_groups[0]["lr"] == 0.02 and set(after.param_groups[0]) == set(before.param_groups[0])
        take(before, ones, given)
        take(after, others, given)
        for one, other in zip(ones, others):
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


def test_it_goes_on_where_it_was():
    params = parameters(torch.bfloat16)
    copies, given = copy.deepcopy(params), gradients(6)
    first = tt.Muon(params, lr=0.02)
    take(first, params, given[:3])
    second = tt.Muon(copies)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for p, c in zip(params, copies):
        c.data.copy_(p.data)
    take(first, params, given[3:])
    take(second, copies, given[3:])
    assert all(map(torch.equal, params, copies))


def test_compiled_it_gives_the_same_bits():
    def run(rate, compiled):
        params = parameters(torch.float32)
        optimizer = tt.Muon(params, lr=rate)
        torch.compiler.reset()
        if compiled:
            optimizer.step = torch.compile(optimizer.step, fullgraph=True, backend="aot_eager")
        take(optimizer, params, gradients(3))
        return params
    expected = run(0.01, False)
    for rate in (0.01, torch.tensor(0.01, dtype=torch.float64)):
        assert all(map(torch.equal, run(rate, True), expected))


def test_what_it_refuses():
    with pytest.raises(ValueError, match=r"Muon: a parameter is \[5\], expected a matrix"):
        tt.Muon([nn.Parameter(torch.ones(5))])
    with pytest.raises(ValueError, match="Muon: lr is -1, expected 0 or more"):
        tt.Muon(parameters(torch.float32), lr=-1)
    with pytest.raises(ValueError, match="Muon: adjust_lr_fn is none, expected original or match_rms_adamw"):
        tt.Muon(parameters(torch.float32), adjust_lr_fn="none")


def test_newton_schulz():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 12, 40)
    y = tt.newton_schulz(x)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(y[i, j].double(), orthogonal(x[i, j]), rtol=1e-4, atol=1e-5)
    assert tt.newton_schulz(x, steps=1).shape == x.shape
    with pytest.raises(NotImplementedError, match="newton_schulz: there is no gradient"):
        tt.newton_schulz(x.requires_grad_()).sum().backward()


def courses(model, count=4):
    """Muon for the matrices of layers, AdamW for the rest."""
    matrices = [p for n, p in model.named_parameters() if n.split(".")[0] in ("up", "gate", "down")]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = tt.Muon(matrices, lr=0.05), tt.AdamW(rest, lr=0.01)
    torch.manual_seed(1)
    losses = []
    for _ in range(count):
        ids = torch.randint(0, 11, (4, 6))
        loss = model(ids, ids.roll(-1, 1))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def spread(rank, folder):
    from torch.distributed.fsdp import fully_shard

    with gloo_group(rank, 2, folder):
        model = tiny()
        mesh = dist.init_device_mesh("cpu", (2,))
        for layer in (model.norm, model.up, model.gate, model.down):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        losses = courses(model)
        if rank == 0:
            torch.save(losses, f"{folder}/losses.pt")


def test_two_processes_orthogonalise_whole_matrices(tmp_path):
    torch.multiprocessing.spawn(spread, (str(tmp_path),), nprocs=2)
    alone = courses(tiny())
    assert torch.load(tmp_path / "losses.pt") == pytest.approx(alone, rel=1e-3)
    assert alone[-1] < alone[0]
