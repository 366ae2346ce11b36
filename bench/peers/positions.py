"""Rotary position embeddings, and the table of embeddings."""

import torch
import torch.nn.functional as F

from problem import Make, Problem, operator, pair


def angles(positions: int, D: int) -> torch.Tensor:
    """Angle of each position and pair, [positions, D / 2]."""
    frequencies = 10000.0 ** (-torch.arange(0, D, 2).double() / D)
    return torch.arange(positions).double()[:, None] * frequencies


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rotary(name: str, function, tables: dict, make: Make, B: int, S: int, Hq: int, Hk: int, D: int, **options) -> Problem:
    """q and k [B,S,H,D] of any of the three kinds; function(q, k, *tables)."""
    q, dyq, k, dyk = (make.normal(B, S, heads, D) for heads in (Hq, Hq, Hk, Hk))
    yq, dq, yk, dk = (make.empty(B, S, heads, D) for heads in (Hq, Hq, Hk, Hk))
    return Problem(
        function, [q, k, *tables.values()], outputs=[yq, yk], grads=[dq, dk] + [None] * len(tables), upstream=[dyq, dyk],
        **pair(name, dict(q=q, k=k, yq=yq, yk=yk), dict(dyq=dyq, dyk=dyk, dq=dq, dk=dk), **tables, **options))


SMALL = dict(B=1, S=64, Hq=8, Hk=2, D=64)
LARGE = dict(B=4, S=1024, Hq=32, Hk=8, D=128)
CUDA = dict(large=LARGE | dict(S=2048))


@operator(small=SMALL, medium=LARGE | dict(B=1), large=LARGE, cuda=CUDA)
def rope(make: Make, B: int, S: int, Hq: int, Hk: int, D: int) -> Problem:
    full = torch.cat((angles(S, D),) * 2, -1)
    tables = dict(cos=full.cos().to(make.dtype), sin=full.sin().to(make.dtype))

    def function(q, k, cos, sin):
        cos, sin = cos[None, :, None], sin[None, :, None]
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    return rotary("rope", function, tables, make, B, S, Hq, Hk, D)


@operator(small=SMALL, medium=LARGE | dict(B=1), large=LARGE, cuda=CUDA,
          note="complex products, which torch.compile hands to the eager kernels")
def llama4_rope(make: Make, B: int, S: int, Hq: int, Hk: int, D: int) -> Problem:
    theta = angles(S, D)
    freqs = torch.stack((theta.cos(), theta.sin()), -1).float()

    def rotated(x, freqs):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * freqs[None, :, None]).flatten(3).type_as(x)

    def function(q, k, freqs):
        freqs = torch.view_as_complex(freqs)
        return rotated(q, freqs), rotated(k, freqs)

    return rotary("llama4_rope", function, dict(freqs=freqs), make, B, S, Hq, Hk, D)


@operator(small=SMALL, medium=dict(B=1, S=1024, Hq=28, Hk=4, D=128), large=dict(B=4, S=1024, Hq=28, Hk=4, D=128),
          cuda=dict(large=dict(B=4, S=2048, Hq=28, Hk=4, D=128)))
def qwen2vl_mrope(make: Make, B: int, S: int, Hq: int, Hk: int, D: int) -> Problem:
    full = torch.cat((angles(S, D),) * 2, -1)
    planes = torch.stack([full.roll(shift, 0) for shift in (0, 1, 2)])[:, None].expand(3, B, S, D)
    tables = dict(cos=planes.cos().to(make.dtype), sin=planes.sin().to(make.dtype))
    t, h = D // 8, 3 * D // 16
    sections = (t, h, D // 2 - t - h)

    def function(q, k, cos, sin):
        cos, sin = (torch.cat([m[i % 3] for i, m in enumerate(c.split(sections * 2, -1))], -1)[:, :, None]
                    for c in (cos, sin))
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    options = dict(section_t=sections[0], section_h=sections[1], section_w=sections[2])
    return rotary("qwen2vl_mrope", function, tables, make, B, S, Hq, Hk, D, **options)


@operator(small=dict(BT=64, V=1024, D=256), medium=dict(BT=4096, V=8192, D=1024), large=dict(BT=8192, V=32000, D=1024),
          cuda=dict(large=dict(BT=8192, V=128256, D=4096)), note="indices as often as words of a text (Zipf)")
def embedding(make: Make, BT: int, V: int, D: int) -> Problem:
    often = 1 / torch.arange(1, V + 1).double()
    indices = torch.multinomial(often, BT, replacement=True, generator=make.generator)
    weight, dy = make.normal(V, D), make.normal(BT, D)
    y, dweight, out = make.empty(BT, D), make.empty(V, D), make.empty(BT, D)
    return Problem(
        lambda weight, indices: F.embedding(indices, weight), [weight, indices], outputs=[y], grads=[dweight, None],
        upstream=[dy], with_out=lambda weight, indices: torch.index_select(weight, 0, indices, out=out),
        **pair("embedding", dict(weight=weight, indices=indices, y=y), dict(dy=dy, indices=indices, dweight=dweight)))
