"""tigon.torch.expert_parallel_moe: processes that share experts, beside fused_moe with all of them and all tokens in one."""
import copy

import pytest
import torch
import torch.distributed as dist
from processes import gloo_group

import tigon.torch as tt

HIDDEN, INNER, EXPERTS, USED = 24, 20, 7, 3
NAMES = ("x", "gate_up", "down", "weights", "gate_up_bias", "down_bias")


def tensors(world, dtype, transposed, seed=5, factors=torch.float32):
    """Of all tokens: of process r TOKENS[r], of these some without an expert."""
    generator = torch.Generator().manual_seed(seed)
    rows = sum(tokens(world))
    shapes = {"x": (rows, HIDDEN), "gate_up": (EXPERTS, 2 * INNER, HIDDEN), "down": (EXPERTS, HIDDEN, INNER), "weights": (rows, USED),
              "gate_up_bias": (EXPERTS, 2 * INNER), "down_bias": (EXPERTS, HIDDEN), "dy": (rows, HIDDEN)}
    given = {name: 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    given = {name: (t.transpose(1, 2).contiguous() if transposed and name in ("gate_up", "down") else t).to(dtype) for name, t in given.items()}
    given.update({name: given[name].to(factors) for name in ("weights", "gate_up_bias", "down_bias")})
    index = torch.randint(EXPERTS + 1, (rows, USED), generator=generator)
    index[:4] = 2  # an expert may be named twice, and one that nobody names is nobody's
    index[index == 4] = 5
    return given, index


def tokens(world):
    return [11, 0, 5][:world] if world > 1 else [16]


def results(moe, given, index, names, **options):
    given = {name: t.detach().clone().requires_grad_(name in names) for name, t in given.items()}
    y = moe(*(given[n] for n in ("x", "gate_up", "down")), index, given["weights"], given["gate_up_bias"], given["down_bias"], **options)
    return y.detach(), dict(zip(names, torch.autograd.grad(y, [given[n] for n in names], given["dy"])))


def compare(rank, world, dtype, names=NAMES, factors=torch.float32, **options):
    given, index = tensors(world, dtype, options.get("transposed"), factors=factors)
    y, gradients = results(tt.fused_moe, given, index, names, **options)
    experts = [EXPERTS * (r + 1) // world - EXPERTS * r // world for r in range(world)]
    rows, own = (slice(sum(n[:rank]), sum(n[:rank + 1])) for n in (tokens(world), experts))
    mine = {name: t[rows if name in ("x", "weights", "dy") else own] for name, t in given.items()}
    found, mine = results(tt.expert_parallel_moe, mine, index[rows], names, experts=experts, **options)
    what = f"{world}, {dtype}, {options}"
    assert torch.equal(found, y[rows]), f"{what}: y differs by {(found - y[rows]).abs().max()}"
    for name, g in gradients.items():
        expected = g[rows if name in ("x", "weights") else own]
        if name == "x" and options.get("scale_input"):  # a token's parts are rounded once more, behind their weights
            torch.testing.assert_close(mine[name], expected, rtol=2 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)
        else:
            assert torch.equal(mine[name], expected), f"{what}: d{name} differs by {(mine[name] - expected).abs().max()}"


def module(rank, world):
    layer = tt.ExpertParallelMoE(HIDDEN, INNER, EXPERTS, bias=True)
    assert layer.first_expert == EXPERTS * rank // world and sum(layer.counts) == EXPERTS
    copied = copy.deepcopy(layer)
    assert copied.shared.group is layer.shared.group and copied.gate_up is not layer.gate_up
    copied.load_state_dict(layer.state_dict())
    x, index = torch.randn(2, 3, HIDDEN), torch.randint(EXPERTS, (2, 3, USED))
    y, same = (f(x, index, torch.rand(2, 3, USED, generator=torch.Generator().manual_seed(1))) for f in (layer, copied))
    assert y.shape == x.shape and torch.equal(y, same)
    weights = torch.rand(2, 3, USED, generator=torch.Generator().manual_seed(1))
    assert torch.equal(layer(x, index, weights, addend=x), y + x)
    y.sum().backward()
    assert all(p.grad is not None for p in layer.parameters()) and all(p.grad is None for p in copied.parameters())


def process(rank, world, folder):
    with gloo_group(rank, world, folder):
        for dtype in (torch.float32, torch.bfloat16):
            compare(rank, world, dtype)
            compare(rank, world, dtype, transposed=True, interleaved=True, limit=1.0, alpha=1.5, up_offset=1.0)
            compare(rank, world, dtype, scale_input=True, activation="geglu")
            compare(rank, world, dtype, recompute=True)
        compare(rank, world, torch.bfloat16, factors=torch.bfloat16)
        compare(rank, world, torch.float32, names=("gate_up", "weights"))
        compare(rank, world, torch.float32, names=("x",))
        module(rank, world)
        some = dist.new_group(range(world - 1)) if world > 2 else None
        if some and rank < world - 1:  # a group within all
            given, index = tensors(2, torch.float32, False)
            of_all = [row for r in range(world - 1) for row in range(8 * r, 8 * r + 3)]  # the same rows, since sums of few have another order
            y = tt.fused_moe(given["x"][of_all], given["gate_up"][:6], given["down"][:6], index[of_all].clamp(max=5), given["weights"][of_all])
            at = slice(3 * rank, 3 * rank + 3)
            rows = slice(8 * rank, 8 * rank + 3)
            found = tt.expert_parallel_moe(given["x"][rows], given["gate_up"][at], given["down"][at], index[rows].clamp(max=5), given["weights"][rows],
                                           group=some)
            assert torch.equal(found, y[at])
        with pytest.raises(ValueError, match="expected a number for each of"):
            tt.expert_parallel_moe(torch.zeros(1, 4), torch.zeros(2, 4, 4), torch.zeros(2, 4, 2), torch.zeros(1, 1).long(), torch.ones(1, 1),
                                   experts=[3] * world)
        with pytest.raises(ValueError, match=f"num_experts is {world - 1}, expected one for each of {world}"):
            tt.ExpertParallelMoE(4, 4, world - 1)
        with pytest.raises(TypeError, match="there is no option capacity"):
            tt.ExpertParallelMoE(4, 4, 8, capacity=3)


@pytest.mark.parametrize("world", (1, 2, 3))
def test_processes_that_share_experts(world, tmp_path):
    torch.multiprocessing.spawn(process, (world, str(tmp_path)), nprocs=world)
