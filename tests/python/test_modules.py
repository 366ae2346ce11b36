"""tigon.torch's modules and its optimizer, and the ways of training that are built on them."""
import copy
import io
from functools import partial

import pytest
import torch
import torch.distributed as dist
from processes import gloo_group
from torch import nn

import tigon.torch as tt


def test_modules_are_what_torch_has():
    torch.manual_seed(0)
    x = torch.randn(3, 4, 16)
    for ours, theirs in ((tt.RMSNorm(16, eps=1e-6), nn.RMSNorm(16, 1e-6)), (tt.LayerNorm(16), nn.LayerNorm(16, 1e-6)),
                         (tt.GroupNorm(2, 4), nn.GroupNorm(2, 4, 1e-6)), (tt.Softmax(), nn.Softmax(-1))):
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    linear = tt.Linear(16, 5)
    torch.testing.assert_close(linear(x), nn.functional.linear(x, linear.weight, linear.bias), rtol=1e-5, atol=1e-5)
    embedding = tt.Embedding(7, 16)
    ids = torch.tensor([[1, 6], [0, 1]])
    assert torch.equal(embedding(ids), embedding.weight[ids])


def test_every_family_has_a_module():
    classes = {c.family for c in vars(tt).values() if isinstance(c, type) and issubclass(c, tt.modules.Module) and c.family}
    assert classes == set(tt._table.FAMILIES)


def test_an_option_that_is_not_there():
    with pytest.raises(TypeError, match="RMSNorm: there is no option epsilon; there are casting_mode, eps, offset"):
        tt.RMSNorm(8, epsilon=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adamw_follows_torch(dtype):
    torch.manual_seed(0)
    start = torch.randn(5, 7)
    ours, theirs = nn.Parameter(start.to(dtype)), nn.Parameter(start.to(dtype).float())
    options = {"lr": 1e-2, "betas": (0.8, 0.9), "weight_decay": 0.1}
    a, b = tt.AdamW([ours], **options, master=True), torch.optim.AdamW([theirs], **options)
    for _ in range(10):
        grad = torch.randn(5, 7).to(dtype)
        ours.grad, theirs.grad = grad, grad.float()
        a.step()
        b.step()
    torch.testing.assert_close(ours, theirs.to(dtype), rtol=1e-5, atol=1e-6)


def adamw_steps(optimizer, params, gradients, step=None):
    for given in gradients:
        for param, gradient in zip(params, given):
            param.grad = gradient.to(param.dtype)
        (step or optimizer.step)()


def leaves(dtype):
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((5, 7), (3,))], [[torch.randn(5, 7), torch.randn(3)] for _ in range(6)]


@pytest.mark.parametrize("master", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_adamw_goes_on_where_it_was(dtype, master):
    """The bits of a run that was not stopped, from a state that was written to a file."""
    params, gradients = leaves(dtype)
    options = {"lr": 1e-2, "weight_decay": 0.1, "master": master}
    first = tt.AdamW(params, **options)
    adamw_steps(first, params, gradients[:3])
    file = io.BytesIO()
    torch.save((params, first.state_dict()), file)
    file.seek(0)
    others, state = torch.load(file, weights_only=False)
    second = tt.AdamW(others, **options)
    second.load_state_dict(state)
    assert all(t.dtype == torch.promote_types(dtype, torch.float32) for s in second.state.values() for t in s.values() if torch.is_tensor(t))
    adamw_steps(first, params, gradients[3:])
    adamw_steps(second, others, gradients[3:])
    assert all(map(torch.equal, params, others))


def test_adamw_takes_the_state_of_torch_optim():
    params, gradients = leaves(torch.float64)
    copies = copy.deepcopy(params)
    theirs, ours = torch.optim.AdamW(params, lr=1e-2), tt.AdamW(copies)
    adamw_steps(theirs, params, gradients[:3])
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    for p, c in zip(params, copies):
        c.data.copy_(p.data)
    adamw_steps(theirs, params, gradients[3:])
    adamw_steps(ours, copies, gradients[3:])
    for p, c in zip(params, copies):
        torch.testing.assert_close(c, p)
    with pytest.raises(ValueError, match="AdamW: the state that is loaded has amsgrad=True, expected False"):
        ours.load_state_dict(torch.optim.AdamW(params, amsgrad=True).state_dict())


def test_adamw_gets_a_master_that_its_state_had_not():
    params, gradients = leaves(torch.bfloat16)
    state = tt.AdamW(params).state_dict()
    optimizer = tt.AdamW(params, master=True)
    optimizer.load_state_dict({"state": {}, "param_groups": [{k: v for k, v in g.items() if k != "master"} for g in state["param_groups"]]})
    adamw_steps(optimizer, params, gradients)
    assert all(torch.equal(s["master"].bfloat16(), p) for p, s in optimizer.state.items())


def test_adamw_compiles_whole():
    """With a rate that changes at each step, as a number and as a tensor; and the bits of a run that is not compiled."""
    def run(compiled, rate, master=False):
        params, gradients = leaves(torch.bfloat16)
        optimizer = tt.AdamW(params, lr=rate, master=master)
        torch.compiler.reset()
        step = torch.compile(optimizer.step, fullgraph=True, backend="aot_eager") if compiled else optimizer.step
        for given in gradients * 2:
            adamw_steps(optimizer, params, [given], step)
            optimizer.param_groups[0]["lr"] *= 0.8
        return params
    expected = run(False, 0.01, True)
    for rate in (0.01, torch.tensor(0.01, dtype=torch.float64)):
        assert all(map(torch.equal, run(True, rate, True), expected))
    assert all(map(torch.equal, run(False, torch.tensor(0.01, dtype=torch.float64), True), expected))


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = tt.Embedding(11, 16)
        self.norm = tt.RMSNorm(16)
        self.up, self.gate, self.down = tt.Linear(16, 32, bias=False), tt.Linear(16, 32, bias=False), tt.Linear(32, 16, bias=False)
        self.act = tt.SwiGLU()
        self.head = nn.Parameter(torch.randn(11, 16) * 0.1)

    def forward(self, ids, target):
        x = self.embedding(ids)
        h = self.norm(x)
        x = x + self.down(self.act(self.gate(h), self.up(h)))
        return tt.fused_linear_cross_entropy(x.flatten(0, -2), self.head, target.flatten())


def steps(model, count=3, optimizer=partial(torch.optim.SGD, lr=0.1)):
    torch.manual_seed(1)
    optimizer = optimizer(model.parameters())
    losses = []
    for _ in range(count):
        ids = torch.randint(0, 11, (4, 6))
        loss = model(ids, ids.roll(-1, 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def tiny():
    torch.manual_seed(0)
    return Tiny()


def test_an_update_in_place_is_known_to_autograd():
    """What a graph has kept of a parameter is no longer there."""
    p = nn.Parameter(torch.randn(8))
    loss = (p * p).sum()
    p.grad = torch.ones(8)
    tt.AdamW([p]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inductor_compiles_a_model_in_one_graph():
    assert steps(torch.compile(tiny(), fullgraph=True)) == pytest.approx(steps(tiny()), rel=1e-5)


def wrapped(rank, folder, kind):
    with gloo_group(rank, 2, folder):
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(tiny())
        else:
            from torch.distributed.fsdp import fully_shard
            model = tiny()
            mesh = dist.init_device_mesh("cpu", (2,))
            for layer in (model.norm, model.up, model.gate, model.down):
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        losses = steps(model), steps(model, optimizer=tt.AdamW)
        if rank == 0:
            torch.save(losses, f"{folder}/{kind}.pt")


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes(kind, tmp_path):
    """Both see the same batch, so the losses are those of one process."""
    torch.multiprocessing.spawn(wrapped, (str(tmp_path), kind), nprocs=2)
    model = tiny()
    first, second = torch.load(tmp_path / f"{kind}.pt")
    assert first == pytest.approx(steps(model), rel=1e-5)
    assert second == pytest.approx(steps(model, optimizer=tt.AdamW), rel=1e-5)
