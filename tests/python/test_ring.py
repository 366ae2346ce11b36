"""tigon.torch.ring_attention: processes that share a sequence, beside attention to the whole of it in f64."""
import pytest
import torch
import torch.distributed as dist
from processes import gloo_group
from test_attention import attend

import tigon.torch as tt

HEADS, KEY_HEADS, WIDTH, VALUES = 4, 2, 8, 12
CASES = (
    {},
    {"causal": True},
    {"causal": True, "softcap": 2.0, "scale": 0.5},
    *({"causal": True, "window_left": window} for window in (0, 7, 30)),
)


def tensors(length, dtype):
    generator = torch.Generator().manual_seed(length)
    sizes = ((2, length, HEADS, WIDTH), (2, length, KEY_HEADS, WIDTH), (2, length, KEY_HEADS, VALUES), (HEADS,))
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


def results(attention, given, dy):
    given = [x.detach().requires_grad_() for x in given]
    y = attention(*given)
    return [y.detach(), *torch.autograd.grad(y, given, dy.to(y.dtype))]


def check(rank, world, length, dtype, case, with_sinks):
    given = tensors(length, dtype)
    given = given if with_sinks else given[:3]
    dy = torch.randn(2, length, HEADS, VALUES, generator=torch.Generator().manual_seed(1))
    name = ("sinks",) if with_sinks else ()
    expected = results(lambda q, k, v, *s: attend(q, k, v, **dict(zip(name, s)), **case), [x.double() for x in given], dy)
    mine = [tt.ring_deal(x) for x in given[:3]] + given[3:]
    found = results(lambda *x: tt.ring_attention(*x, **case), mine, tt.ring_deal(dy))
    again = results(lambda *x: tt.ring_attention(*x, **case), mine, tt.ring_deal(dy))
    assert all(torch.equal(a, b) for a, b in zip(found, again))
    if with_sinks:
        dist.all_reduce(found[-1])
    bound = {torch.float32: 2e-5, torch.bfloat16: 5e-2}[dtype]
    for f, e in zip(found, expected):
        e = e if e.dim() == 1 else tt.ring_deal(e)
        torch.testing.assert_close(f.double(), e, rtol=bound, atol=bound, msg=lambda m: f"{world}, {length}, {dtype}, {case}: {m}")
    if world == 1 and with_sinks:  # nothing is combined
        whole = results(lambda *x: tt.flash_attention(*x[:3], sinks=x[3], **case), given, dy)
        assert all(torch.equal(f, w) for f, w in zip(found, whole))


def process(rank, world, folder):
    with gloo_group(rank, world, folder):
        for case in CASES:
            check(rank, world, 10 * world, torch.float32, case, with_sinks=True)
        for case in CASES[1::4]:
            for length in (2 * world, 120 * world):
                check(rank, world, length, torch.float32, case, with_sinks=False)
        check(rank, world, 40 * world, torch.bfloat16, {"causal": True}, with_sinks=True)
        whole = torch.arange(3 * 4 * world * 5).view(3, 4 * world, 5)
        mine = tt.ring_deal(whole)
        assert mine.shape == (3, 4, 5) and torch.equal(tt.ring_collect(mine), whole)
        assert torch.equal(mine[0, :, 0] % (4 * world * 5), 5 * tt.ring_deal(torch.arange(4 * world), 0))
        with pytest.raises(ValueError, match=f"ring_deal: {2 * world + 1} places, expected a multiple of {2 * world}"):
            tt.ring_deal(torch.zeros(1, 2 * world + 1))
        some = dist.new_group(range(world - 1)) if world > 2 else None
        if some and rank < world - 1:  # a group within all
            q, k, v, _ = tensors(8 * world, torch.float32)
            dealt = (tt.ring_deal(x[:, :4 * (world - 1)], group=some) for x in (q, k, v))
            y = tt.ring_collect(tt.ring_attention(*dealt, group=some, causal=True), group=some)
            torch.testing.assert_close(y, attend(*(x[:, :4 * (world - 1)] for x in (q, k, v)), causal=True), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("world", (1, 2, 3))
def test_processes_that_share_a_sequence(world, tmp_path):
    torch.multiprocessing.spawn(process, (world, str(tmp_path)), nprocs=world)


def test_arguments():
    q, k, v, _ = tensors(6, torch.float32)
    with pytest.raises(ValueError, match="window_left is given without causal"):
        tt.ring_attention(q, k, v, window_left=3)
    with pytest.raises(ValueError, match="q, k and v have 6, 5 and 6 places, expected one even number"):
        tt.ring_attention(q, k[:, :5], v)
