"""The experts of a mixture, beside those of transformers where it is installed."""

from collections.abc import Callable
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from problem import Make, Problem, Tensor, operator, pair

try:
    from transformers.integrations import moe as transformers_moe
except ImportError:
    transformers_moe = None

MOST_COPIED = 1 << 31  # bytes: batched_mm copies the matrices of each slot


def loop(x: Tensor, gate_up: Tensor, down: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Over the experts that have tokens, as models of transformers have it."""
    y = torch.zeros_like(x)
    for e in index.unique().tolist():
        token, k = torch.where(index == e)
        gate, up = F.linear(x[token], gate_up[e]).chunk(2, dim=-1)
        rows = F.linear(F.silu(gate) * up, down[e]) * weights[token, k, None]
        y = y.index_add(0, token, rows)
    return y


def of_transformers(forward: Callable) -> Callable:
    """A forward of experts of transformers as a function of x, the matrices, index and weights."""

    def gated(both: Tensor) -> Tensor:
        gate, up = both.chunk(2, dim=-1)
        return F.silu(gate) * up

    def run(x: Tensor, gate_up: Tensor, down: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        experts = SimpleNamespace(num_experts=len(down), has_gate=True, has_bias=False, is_transposed=False, gate_up_proj=gate_up,
                                  down_proj=down, _apply_gate=gated)
        return forward(experts, x, index, weights)

    return run


def functions(copied: int) -> dict[str, Callable]:
    """Of names.OTHERS; copied: bytes that batched_mm copies."""
    if not transformers_moe:
        return {}
    grouped = of_transformers(transformers_moe.grouped_mm_experts_forward)
    found = dict(grouped_mm=grouped, grouped_mm_compile=torch.compile(grouped, dynamic=False))
    if copied <= MOST_COPIED:
        found["batched_mm"] = of_transformers(transformers_moe.batched_mm_experts_forward)
    return found


def experts(make: Make, T: int, H: int, I: int, E: int, K: int) -> Problem:  # noqa: E741
    x, dy, weights = make.normal(T, H), make.normal(T, H), make.normal(T, K).softmax(-1)
    gate_up, down = make.normal(E, 2 * I, H, scale=H**-0.5), make.normal(E, H, I, scale=I**-0.5)
    index = torch.rand(T, E, generator=make.generator).topk(K).indices
    y, dx, dgate_up, ddown = (torch.zeros_like(t) for t in (x, x, gate_up, down))
    routing = dict(slot=index.new_zeros(T * K), offset=index.new_zeros(E + 1), place=torch.zeros_like(index))
    inputs = dict(x=x, gate_up=gate_up, down=down, weights=weights)
    shared = inputs | routing | dict(pre=make.empty(T, K, 2 * I))
    dweights, work = torch.zeros_like(weights), 6.0 * T * K * H * I
    return Problem(
        loop, [x, gate_up, down, index, weights], outputs=[y], grads=[dx, dgate_up, ddown, None, dweights], upstream=[dy],
        others=functions(T * K * 3 * H * I * x.element_size()), flops=dict(forward=work, backward=2 * work, full=3 * work),
        **pair("fused_moe", shared | dict(index=index, y=y), shared | dict(dy=dy, dx=dx, dgate_up=dgate_up, ddown=ddown, dweights=dweights)))


NOTE = "against a loop over experts, as models of transformers have it; its other functions are in a table of their own"


@operator(small=dict(T=64, H=256, I=128, E=8, K=2), medium=dict(T=512, H=1024, I=512, E=32, K=4),
          large=dict(T=2048, H=1024, I=512, E=32, K=4), cuda=dict(large=dict(T=8192, H=2048, I=768, E=128, K=8)),
          more=dict(fused_moe_tokens=dict(T=32768, H=2048, I=768, E=128, K=8)), memory_bound=False, note=NOTE)
def fused_moe(make: Make, **sizes: int) -> Problem:
    return experts(make, **sizes)


@operator(small=dict(T=64, H=256, I=896, E=8, K=2), medium=dict(T=256, H=1024, I=3584, E=8, K=2),
          large=dict(T=1024, H=1024, I=3584, E=8, K=2), cuda=dict(large=dict(T=8192, H=4096, I=1536, E=8, K=2)), memory_bound=False, note=NOTE)
def fused_moe_wide(make: Make, **sizes: int) -> Problem:
    """Few experts, which are wide."""
    return experts(make, **sizes)


@operator(small=dict(T=8, H=256, I=128, E=32, K=4), medium=dict(T=8, H=2048, I=768, E=32, K=8),
          large=dict(T=256, H=2048, I=768, E=128, K=8), memory_bound=False, note=NOTE)
def fused_moe_few(make: Make, **sizes: int) -> Problem:
    """Few tokens for each expert: the matrices bound it."""
    return experts(make, **sizes)
