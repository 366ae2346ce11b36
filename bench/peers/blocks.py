"""Numbers of 8 bits with a scale for each block of 128, and their products."""

import torch
import torch.nn.functional as F

from problem import Make, Step, Tensor, operator
from products import updated

E4M3, LARGEST = torch.float8_e4m3fn, 448.0


def quantised(x: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """x in E4M3, and the scales of its blocks of `rows` x 128, those of a block of columns side by side."""
    blocks = x.float().unflatten(0, (-1, rows)).unflatten(2, (-1, 128))
    scale = (blocks.abs().amax((1, 3), keepdim=True) / LARGEST).clamp(min=2**-126)
    return (blocks * (1 / scale)).flatten(2).flatten(0, 1).to(E4M3), scale[:, 0, :, 0].t()


@operator(small=dict(R=128, C=1024), medium=dict(R=1024, C=4096), large=dict(R=8192, C=4096),
          cuda=dict(large=dict(R=16384, C=4096)), note="blocks of 1 x 128, in the order of the rows")
def quantize_block(make: Make, R: int, C: int) -> Step:
    x = make.normal(R, C)

    def function(q: Tensor, scale: Tensor):
        values, scales = quantised(x, 1)
        q.copy_(values)
        scale.copy_(scales)

    return updated(function, [make.empty(R, C, dtype=E4M3), make.f32(C // 128, R)],
                  lambda q, scale: ("quantize_block", dict(x=x, q=q, scale=scale)))


def written(results: list[Tensor], values: list[Tensor]):
    for to, value in zip(results, values, strict=True):
        to.copy_(value)


NORMS = dict(small=dict(R=128, C=1024), medium=dict(R=1024, C=2048), large=dict(R=8192, C=2048), cuda=dict(large=dict(R=16384, C=2048)))
GATES = dict(small=dict(R=128, F=512), medium=dict(R=1024, F=2048), large=dict(R=2048, F=8192), cuda=dict(large=dict(R=16384, F=8192)))


@operator(**NORMS, note="fused_add_rms_norm, whose result is quantised in the order of its rows")
def quantize_rms_norm(make: Make, R: int, C: int) -> Step:
    x, residual, w = make.normal(R, C), make.normal(R, C), make.normal(C, mean=1, scale=0.1)

    def function(q: Tensor, scale: Tensor, s: Tensor):
        total = x + residual
        written([q, scale, s], [*quantised(F.rms_norm(total, (C,), w, 1e-6), 1), total])

    return updated(function, [make.empty(R, C, dtype=E4M3), make.f32(C // 128, R), make.empty(R, C)],
                   lambda q, scale, s: ("quantize_rms_norm", dict(x=x, residual=residual, weight=w, s=s, q=q, scale=scale)))


@operator(**GATES, note="the result is quantised in the order of its rows")
def quantize_swiglu(make: Make, R: int, F: int) -> Step:
    gate, up = make.normal(R, F), make.normal(R, F)

    def function(q: Tensor, scale: Tensor):
        written([q, scale], [*quantised(torch.nn.functional.silu(gate) * up, 1)])

    return updated(function, [make.empty(R, F, dtype=E4M3), make.f32(F // 128, R)],
                   lambda q, scale: ("quantize_swiglu", dict(gate=gate, up=up, q=q, scale=scale)))


@operator(**GATES, note="both gradients are quantised in both orders, the value across its rows")
def quantize_swiglu_gradient(make: Make, R: int, F: int) -> Step:
    dy, gate, up = (make.normal(R, F) for _ in range(3))
    names = "q", "scale", "qt", "scale_t", "yt", "scale_yt"

    def function(*results: Tensor):
        d, u, v = dy.float(), gate.float(), up.float()
        s = torch.sigmoid(u)
        both = torch.cat([d * v * s * (1 + u * (1 - s)), d * u * s], 1).to(make.dtype)
        value = (u * s * v).to(make.dtype)
        written([*results], [*quantised(both, 1), *quantised(both.t(), 1), *quantised(value.t(), 1)])

    state = [make.empty(R, 2 * F, dtype=E4M3), make.f32(2 * F // 128, R), make.empty(2 * F, R, dtype=E4M3), make.f32(R // 128, 2 * F),
             make.empty(F, R, dtype=E4M3), make.f32(R // 128, F)]
    return updated(function, state, lambda *results: ("quantize_swiglu_gradient", dict(dy=dy, gate=gate, up=up, **dict(zip(names, results)))))


def expanded(q: Tensor, scale: Tensor, rows: int) -> Tensor:
    return (q.float().unflatten(0, (-1, rows)).unflatten(2, (-1, 128)) * scale.t()[:, None, :, None]).flatten(2).flatten(0, 1)


def padded_scales(scale: Tensor) -> Tensor:
    """Scales of 128 x 128 as PyTorch's product takes them: along k a multiple of four."""
    return F.pad(scale.t(), (0, -scale.shape[0] % 4)).contiguous()


def multiplied_by_pytorch(a: Tensor, scale_a: Tensor, b: Tensor, padded: Tensor) -> Tensor:
    """The product of blocks in bf16, which PyTorch has on a GPU alone."""
    kinds = F.ScalingType.BlockWise1x128, F.ScalingType.BlockWise128x128
    return F.scaled_mm(a, b.t(), scale_a.t(), kinds[0], padded.t(), kinds[1], output_dtype=torch.bfloat16)


@operator(small=dict(M=128, N=128, K=256), medium=dict(M=1024, N=2048, K=768), large=dict(M=4096, N=2048, K=2048),
          cuda=dict(large=dict(M=8192, N=8192, K=8192)), memory_bound=False,
          note="against PyTorch's own product of blocks on a GPU, and one of the numbers with their scales in f32 where it has none")
def gemm_block_scaled(make: Make, M: int, N: int, K: int) -> Step:
    (a, scale_a), (b, scale_b) = quantised(make.normal(M, K), 1), quantised(make.normal(N, K), 128)
    scale_a, scale_b = scale_a.contiguous(), scale_b.contiguous()

    def by_scales(c: Tensor):
        c.copy_(expanded(a, scale_a, 1) @ expanded(b, scale_b, 128).t())

    padded = padded_scales(scale_b)

    def by_blocks(c: Tensor):
        c.copy_(multiplied_by_pytorch(a, scale_a, b, padded))

    function = by_blocks if a.is_cuda and make.dtype == torch.bfloat16 else by_scales
    return updated(function, [make.empty(M, N)],
                  lambda c: ("gemm_block_scaled", dict(a=a, scale_a=scale_a, b=b, scale_b=scale_b, c=c)))
