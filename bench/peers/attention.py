"""Attention as models use it: causal, with a window, of packed documents, of few queries against many keys."""

import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from problem import Make, Problem, Tensor, operator, pair

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    varlen_attn = None

PARTS = {"forward": 4, "backward": 10, "full": 14}  # flops of a visible pair of query and key, for each element of a head


def heads_first(function: Callable) -> Callable:
    return lambda *inputs: function(*(x.transpose(1, 2) for x in inputs)).transpose(1, 2)


def attention(make: Make, B: int, S: int, L: int, H: int, K: int, D: int, pairs: float, functions: Callable, **options) -> Problem:
    """pairs: visible ones of all heads. functions: those of PyTorch by name, `eager` and names.OTHERS."""
    q, dy = make.normal(B, S, H, D), make.normal(B, S, H, D)
    k, v = make.normal(B, L, K, D), make.normal(B, L, K, D)
    y, dq, dk, dv = make.empty(B, S, H, D), make.empty(B, S, H, D), make.empty(B, L, K, D), make.empty(B, L, K, D)
    shared = dict(q=q, k=k, v=v, y=y, lse=make.f32(B, H, S))
    others = {name: function for name, function in functions.items() if function}
    rate = dict(bytes=2.0 * k.numel() * k.element_size()) if S <= 16 else dict(flops={m: f * D * pairs for m, f in PARTS.items()})
    return Problem(others.pop("eager"), [q, k, v], outputs=[y], grads=[dq, dk, dv], upstream=[dy], others=others, **rate,
                   **pair("flash_attention", shared, shared | dict(dy=dy, dq=dq, dk=dk, dv=dv), **options))


@operator(small=dict(B=1, S=128, H=4, K=4, D=64), medium=dict(B=1, S=1024, H=16, K=4, D=128),
          large=dict(B=1, S=2048, H=16, K=16, D=64), cuda=dict(large=dict(B=4, S=4096, H=16, K=16, D=128)),
          more=dict(flash_attention_grouped=dict(B=2, S=8192, H=32, K=8, D=128), flash_attention_narrow=dict(B=8, S=2048, H=32, K=8, D=64)),
          memory_bound=False, note="causal; against PyTorch's own flash attention")
def flash_attention(make: Make, B: int, S: int, H: int, K: int, D: int) -> Problem:
    function = heads_first(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != K))
    return attention(make, B, S, S, H, K, D, B * H * S * S / 2, dict(eager=function), causal=1)


def varlen(bounds: Tensor, longest: int, window: int) -> Callable | None:
    """PyTorch's attention of packed documents, which is FlashAttention's and on a GPU alone; `window` keys before a query, -1: all."""
    if not varlen_attn or bounds.device.type != "cuda":
        return None
    if "window_size" in inspect.signature(varlen_attn).parameters:
        options = dict(window_size=(window, 0))
    elif window < 0:
        options = dict(is_causal=True)
    else:
        return None
    bounds = bounds.int()
    return lambda q, k, v: varlen_attn(q[0], k[0], v[0], bounds, bounds, longest, longest, **options)[None]


def masked(make: Make, B: int, S: int, L: int, H: int, K: int, D: int, sees: Callable | None, pairs: float, others: dict | None = None,
           **options) -> Problem:
    """Attention of those pairs that sees(query, key) is true of, None: of all. PyTorch's masks are made outside the timing."""
    mask = blocks = None
    if sees:
        mask = sees(torch.arange(S)[:, None], torch.arange(L))
        blocks = create_block_mask(lambda b, h, i, j: sees(i, j), None, None, S, L, device=str(torch.get_default_device()))

    def flex(function):
        return heads_first(lambda q, k, v: function(q, k, v, block_mask=blocks, enable_gqa=H != K))

    functions = dict(eager=heads_first(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=H != K)),
                     flex=flex(torch.compile(flex_attention, dynamic=False)), **(others or {}))
    if torch.get_default_device().type == "cpu":  # on a GPU it holds all scores
        functions["flex_eager"] = flex(flex_attention)
    return attention(make, B, S, L, H, K, D, pairs, functions, **options)


MASKED = "against PyTorch's attention with a mask; flex_attention has no backward on the CPU"


@operator(small=dict(B=1, S=512, H=4, K=4, D=64, W=128), medium=dict(B=1, S=2048, H=8, K=2, D=128, W=512),
          large=dict(B=1, S=4096, H=8, K=2, D=128, W=512), cuda=dict(large=dict(B=1, S=16384, H=16, K=16, D=128, W=1024)),
          memory_bound=False, note=MASKED)
def flash_attention_window(make: Make, B: int, S: int, H: int, K: int, D: int, W: int) -> Problem:
    """Causal; a query sees W keys."""
    bounds = torch.tensor([0, S])
    return masked(make, B, S, S, H, K, D, lambda i, j: (j <= i) & (j > i - W), B * H * (S - W / 2) * W,
                  dict(varlen=varlen(bounds, S, W - 1) if B == 1 else None), causal=1, window_left=W - 1)


@operator(small=dict(N=8, S=512, H=4, K=4, D=64), medium=dict(N=8, S=2048, H=8, K=2, D=128),
          large=dict(N=16, S=4096, H=8, K=2, D=128), cuda=dict(large=dict(N=8, S=16384, H=16, K=16, D=128)),
          more=dict(flash_attention_packed_beside_long=dict(N=64, S=4096, H=16, K=16, D=128, LONG=12288)),
          memory_bound=False, note=MASKED)
def flash_attention_packed(make: Make, N: int, S: int, H: int, K: int, D: int, LONG: int = 0) -> Problem:
    """Causal; N documents of one length, S tokens in all, one behind the other, and in front of them one of LONG."""
    each, rows = S // N, LONG + S
    bounds = torch.arange(LONG, rows + 1, each)
    if LONG:
        bounds = torch.cat([torch.zeros(1, dtype=bounds.dtype), bounds])

    def document(i):
        return torch.where(i < LONG, -1, (i - LONG) // each)

    return masked(make, 1, rows, rows, H, K, D, lambda i, j: (j <= i) & (document(i) == document(j)), H * (N * each ** 2 + LONG ** 2) / 2,
                  dict(varlen=varlen(bounds, max(each, LONG), -1)), causal=1, cu_seqlens_q=bounds, cu_seqlens_k=bounds)


@operator(small=dict(B=1, L=512, H=8, K=2, D=64), medium=dict(B=1, L=8192, H=32, K=8, D=128),
          large=dict(B=4, L=8192, H=32, K=8, D=128), cuda=dict(large=dict(B=8, L=8192, H=32, K=8, D=128)),
          more=dict(flash_attention_decode_many=dict(B=64, L=2048, H=32, K=8, D=128),
                    flash_attention_decode_long=dict(B=1, L=32768, H=32, K=8, D=128),
                    flash_attention_decode_four=dict(B=8, L=8192, H=32, K=8, D=128, S=4)))
def flash_attention_decode(make: Make, B: int, L: int, H: int, K: int, D: int, S: int = 1) -> Problem:
    """The last S queries against many keys."""
    return masked(make, B, S, L, H, K, D, None if S == 1 else lambda i, j: j <= i + L - S, B * H * S * L, causal=1)
