"""A mixture's routing: which experts a token has, the order of their work, rows there and back, and products of rows in groups."""

import torch
import torch.nn.functional as F

from problem import Make, Problem, Step, Tensor, operator, pair
from products import updated

SIZES = dict(small=dict(T=256, H=512, E=16, K=2), medium=dict(T=1024, H=2048, E=64, K=8), large=dict(T=8192, H=2048, E=128, K=8))
CHOICES = {size: {name: of[name] for name in "TEK"} for size, of in SIZES.items()}


def chosen(make: Make, T: int, E: int, K: int) -> Tensor:
    return torch.rand(T, E, generator=make.generator).topk(K).indices


def in_order(index: Tensor, E: int) -> tuple[Tensor, Tensor, Tensor]:
    """moe_route in PyTorch's words: slots by expert, where each expert begins, and the place of each slot."""
    slot = index.flatten().argsort(stable=True)
    offset = F.pad(index.flatten().bincount(minlength=E).cumsum(0), (1, 0))
    place = torch.empty_like(slot)
    place[slot] = torch.arange(len(slot))
    return slot, offset, place.view_as(index)


@operator(**CHOICES)
def moe_router(make: Make, T: int, E: int, K: int) -> Problem:
    logits, dweights = make.normal(T, E), make.normal(T, K)
    weights, dlogits, lse = make.empty(T, K), make.empty(T, E), make.f32(T)
    index = make.empty(T, K, dtype=torch.int64)

    def function(logits):
        p, _ = logits.float().softmax(-1).topk(K)
        return (p / p.sum(-1, keepdim=True)).to(logits.dtype)

    return Problem(function, [logits], outputs=[weights], grads=[dlogits], upstream=[dweights],
                   **pair("moe_router", dict(logits=logits, index=index, weights=weights, lse=lse, top_k=K),
                          dict(logits=logits, index=index, lse=lse, dweights=dweights, dlogits=dlogits), renormalise="yes"))


@operator(**CHOICES, memory_bound=False, note="beside a stable sort and a count; it has no gradient")
def moe_route(make: Make, T: int, E: int, K: int) -> Step:
    index = chosen(make, T, E, K)

    def function(*outputs):
        for out, value in zip(outputs, in_order(index, E)):
            out.copy_(value)

    start = [torch.zeros(size, dtype=torch.int64) for size in (T * K, E + 1, (T, K))]
    return updated(function, start, lambda slot, offset, place: ("moe_route", dict(index=index, slot=slot, offset=offset, place=place, experts=E)))


@operator(**SIZES)
def moe_gather(make: Make, T: int, H: int, E: int, K: int) -> Problem:
    x, drows = make.normal(T, H), make.normal(T * K, H)
    rows, dx = make.empty(T * K, H), make.empty(T, H)
    slot, _, place = in_order(chosen(make, T, E, K), E)
    token = slot // K
    return Problem(lambda x: x[token], [x], outputs=[rows], grads=[dx], upstream=[drows],
                   **pair("moe_gather", dict(x=x, slot=slot, place=place, rows=rows, top_k=K), dict(drows=drows, place=place, dx=dx)))


@operator(**SIZES)
def moe_scatter(make: Make, T: int, H: int, E: int, K: int) -> Problem:
    rows, dy, weights = make.normal(T * K, H), make.normal(T, H), make.normal(T, K, dtype=torch.float32).softmax(-1)
    y, drows, dweights = make.empty(T, H), make.empty(T * K, H), make.f32(T, K)
    slot, _, place = in_order(chosen(make, T, E, K), E)
    return Problem(lambda rows, weights: (rows[place] * weights[..., None]).sum(1).to(rows.dtype), [rows, weights], outputs=[y],
                   grads=[drows, dweights], upstream=[dy],
                   **pair("moe_scatter", dict(rows=rows, place=place, weights=weights, slot=slot, y=y),
                          dict(dy=dy, rows=rows, place=place, weights=weights, slot=slot, drows=drows, dweights=dweights)))


@operator(small=dict(M=256, E=8, N=256, K=256), medium=dict(M=1024, E=16, N=1024, K=1024), large=dict(M=8192, E=16, N=1536, K=2048),
          cuda=dict(large=dict(M=65536, E=128, N=1536, K=2048)), memory_bound=False, note="beside a product for each group")
def grouped_gemm(make: Make, M: int, E: int, N: int, K: int) -> Problem:
    a, b, dc = make.normal(M, K), make.normal(E, N, K, scale=K**-0.5), make.normal(M, N)
    c, da, db = make.empty(M, N), make.empty(M, K), make.empty(E, N, K)
    groups = torch.randint(E, (M,), generator=make.generator).bincount(minlength=E)
    offset, sizes, work = F.pad(groups.cumsum(0), (1, 0)), groups.tolist(), 2.0 * M * N * K
    shared = dict(a=a, b=b, offset=offset)
    return Problem(lambda a, b: torch.cat([F.linear(rows, b[e]) for e, rows in enumerate(a.split(sizes))]), [a, b], outputs=[c], grads=[da, db],
                   upstream=[dc], flops=dict(forward=work, backward=2 * work, full=3 * work),
                   **pair("grouped_gemm", shared | dict(c=c), shared | dict(dc=dc, da=da, db=db)))
