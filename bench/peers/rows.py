"""Operators over rows: normalisations, activations, softmax, sparsemax."""

import torch
import torch.nn.functional as F

from problem import Make, Problem, operator, pair

EPS = 1e-6
# 64 x 1024 stays in the cache; medium is larger than most, large than all.
ROWS = dict(small=dict(R=64, N=1024), medium=dict(R=2048, N=4096), large=dict(R=8192, N=4096))
GATES = dict(small=dict(R=64, N=1024), medium=dict(R=1024, N=8192), large=dict(R=4096, N=8192),
             cuda=dict(large=dict(R=8192, N=14336)))


@operator(**ROWS)
def rms_norm(make: Make, R: int, N: int) -> Problem:
    x, dy, w = make.normal(R, N), make.normal(R, N), make.normal(N, mean=1, scale=0.1)
    y, dx, dw, rstd = make.empty(R, N), make.empty(R, N), make.empty(N), make.f32(R)
    return Problem(
        lambda x, w: F.rms_norm(x, (N,), w, EPS), [x, w], outputs=[y], grads=[dx, dw], upstream=[dy],
        **pair("rms_norm", dict(x=x, weight=w, y=y, rstd=rstd, eps=EPS),
               dict(dy=dy, x=x, weight=w, rstd=rstd, dx=dx, dweight=dw)))


@operator(**ROWS)
def fused_add_rms_norm(make: Make, R: int, N: int) -> Problem:
    x, r, dy, ds = (make.normal(R, N) for _ in range(4))
    w = make.normal(N, mean=1, scale=0.1)
    y, s, dx, dw, rstd = make.empty(R, N), make.empty(R, N), make.empty(R, N), make.empty(N), make.f32(R)

    def function(x, r, w):
        s = x + r
        return F.rms_norm(s, (N,), w, EPS), s

    return Problem(
        function, [x, r, w], outputs=[y, s], grads=[dx, dx, dw], upstream=[dy, ds],
        **pair("fused_add_rms_norm", dict(x=x, residual=r, weight=w, y=y, s=s, rstd=rstd, eps=EPS),
               dict(dy=dy, ds=ds, s=s, weight=w, rstd=rstd, dx=dx, dweight=dw)))


@operator(**ROWS)
def layer_norm(make: Make, R: int, N: int) -> Problem:
    x, dy, w, b = make.normal(R, N), make.normal(R, N), make.normal(N, mean=1, scale=0.1), make.normal(N)
    y, dx, dw, db = make.empty(R, N), make.empty(R, N), make.empty(N), make.empty(N)
    mean, rstd = make.f32(R), make.f32(R)
    return Problem(
        lambda x, w, b: F.layer_norm(x, (N,), w, b, EPS), [x, w, b], outputs=[y], grads=[dx, dw, db], upstream=[dy],
        **pair("layer_norm", dict(x=x, weight=w, bias=b, y=y, mean=mean, rstd=rstd, eps=EPS),
               dict(dy=dy, x=x, weight=w, mean=mean, rstd=rstd, dx=dx, dweight=dw, dbias=db)))


@operator(small=dict(B=2, C=64, S=256, G=8), medium=dict(B=4, C=256, S=4096, G=32),
          large=dict(B=16, C=256, S=4096, G=32), cuda=dict(large=dict(B=64, C=256, S=4096, G=32)))
def group_norm(make: Make, B: int, C: int, S: int, G: int) -> Problem:
    x, dy, w, b = make.normal(B, C, S), make.normal(B, C, S), make.normal(C, mean=1, scale=0.1), make.normal(C)
    y, dx, dw, db = make.empty(B, C, S), make.empty(B, C, S), make.empty(C), make.empty(C)
    mean, rstd = make.f32(B, G), make.f32(B, G)
    forward = dict(x=x, weight=w, bias=b, y=y, mean=mean, rstd=rstd, eps=EPS, num_groups=G)
    backward = dict(dy=dy, x=x, weight=w, mean=mean, rstd=rstd, dx=dx, dweight=dw, dbias=db, num_groups=G)
    return Problem(lambda x, w, b: F.group_norm(x, G, w, b, EPS), [x, w, b], outputs=[y], grads=[dx, dw, db],
                   upstream=[dy], **pair("group_norm", forward, backward))


@operator(**ROWS)
def poly_norm(make: Make, R: int, N: int) -> Problem:
    x, dy = make.normal(R, N), make.normal(R, N)
    w, b = make.normal(3, mean=0.5, scale=0.1), make.normal(1)
    y, dx, dw, db, rstd = make.empty(R, N), make.empty(R, N), make.empty(3), make.empty(1), make.f32(R, 3)

    def normed(u):
        return u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + EPS)

    def function(x, w, b):
        return w[0] * normed(x**3) + w[1] * normed(x**2) + w[2] * normed(x) + b

    return Problem(
        function, [x, w, b], outputs=[y], grads=[dx, dw, db], upstream=[dy],
        **pair("poly_norm", dict(x=x, weight=w, bias=b, y=y, rstd=rstd, eps=EPS),
               dict(dy=dy, x=x, weight=w, rstd=rstd, dx=dx, dweight=dw, dbias=db)))


@operator(**ROWS)
def dyt(make: Make, R: int, N: int) -> Problem:
    # The mean of dy keeps dalpha, one sum over everything, away from 0, where no relative error means much.
    x, dy = make.normal(R, N, mean=0.5), make.normal(R, N, mean=0.5)
    alpha, gamma, beta = make.normal(1, mean=0.5, scale=0), make.normal(N, mean=1, scale=0.1), make.normal(N)
    y, dx, da, dg, db = make.empty(R, N), make.empty(R, N), make.empty(1), make.empty(N), make.empty(N)
    return Problem(
        lambda x, alpha, gamma, beta: torch.tanh(alpha * x) * gamma + beta, [x, alpha, gamma, beta],
        outputs=[y], grads=[dx, da, dg, db], upstream=[dy],
        **pair("dyt", dict(x=x, alpha=alpha, gamma=gamma, beta=beta, y=y),
               dict(dy=dy, x=x, alpha=alpha, gamma=gamma, dx=dx, dalpha=da, dgamma=dg, dbeta=db)))


def gated(name: str, activation, make: Make, R: int, N: int) -> Problem:
    gate, up, dy = (make.normal(R, N) for _ in range(3))
    y, dgate, dup = (make.empty(R, N) for _ in range(3))
    out = make.empty(R, N)
    return Problem(
        lambda gate, up: activation(gate) * up, [gate, up], outputs=[y], grads=[dgate, dup], upstream=[dy],
        with_out=lambda gate, up: torch.mul(activation(gate), up, out=out),
        **pair(name, dict(gate=gate, up=up, y=y), dict(dy=dy, gate=gate, up=up, dgate=dgate, dup=dup)))


def causal_convolution(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """silu of a convolution along the sequence, each channel by itself: x [B,S,C], weight [C,K]."""
    C, K = weight.shape
    return F.silu(F.conv1d(F.pad(x.transpose(1, 2), (K - 1, 0)), weight[:, None], bias, groups=C)).transpose(1, 2)


@operator(small=dict(B=1, S=256, C=512, K=4), medium=dict(B=2, S=1024, C=2048, K=4), large=dict(B=2, S=4096, C=4096, K=4))
def causal_conv1d(make: Make, B: int, S: int, C: int, K: int) -> Problem:
    x, dy, w, b = make.normal(B, S, C), make.normal(B, S, C), make.normal(C, K, scale=0.5), make.normal(C)
    y, dx, dw, db = make.empty(B, S, C), make.empty(B, S, C), make.empty(C, K), make.empty(C)
    shared = dict(x=x, weight=w, bias=b, silu=1)
    return Problem(causal_convolution, [x, w, b], outputs=[y], grads=[dx, dw, db], upstream=[dy],
                   **pair("causal_conv1d", shared | dict(y=y), shared | dict(dy=dy, dx=dx, dweight=dw, dbias=db)))


@operator(small=dict(B=1, C=8, L=256, K=3), medium=dict(B=1, C=16, L=1024, K=3), large=dict(B=1, C=16, L=2048, K=3))
def multi_token_attention(make: Make, B: int, C: int, L: int, K: int) -> Problem:
    """Each channel is convolved by itself."""
    scores, dy, w, b = make.normal(B, C, L, L), make.normal(B, C, L, L), make.normal(C, 1, K, K, scale=1 / K), make.normal(C)
    y, probs, dscores, dw, db = make.empty(B, C, L, L), make.empty(B, C, L, L), make.empty(B, C, L, L), make.empty(C, 1, K, K), make.empty(C)
    lower = torch.ones(L, L, dtype=torch.bool).tril()
    shared = dict(probs=probs, weight=w, padding=K // 2, groups=C)

    def function(scores, w, b):
        p = scores.masked_fill(~lower, -torch.inf).softmax(-1)
        return F.conv2d(p, w, b, padding=K // 2, groups=C).masked_fill(~lower, 0)

    return Problem(function, [scores, w, b], outputs=[y], grads=[dscores, dw, db], upstream=[dy],
                   **pair("multi_token_attention", shared | dict(scores=scores, bias=b, y=y),
                          shared | dict(dy=dy, dscores=dscores, dweight=dw, dbias=db)))


@operator(**GATES)
def swiglu(make: Make, R: int, N: int) -> Problem:
    return gated("swiglu", F.silu, make, R, N)


@operator(**GATES)
def geglu(make: Make, R: int, N: int) -> Problem:
    return gated("geglu", lambda gate: F.gelu(gate, approximate="tanh"), make, R, N)


def elementwise(name: str, function, make: Make, R: int, N: int) -> Problem:
    x, dy = make.normal(R, N), make.normal(R, N)
    y, dx = make.empty(R, N), make.empty(R, N)
    return Problem(function, [x], outputs=[y], grads=[dx], upstream=[dy], **pair(name, dict(x=x, y=y), dict(dy=dy, x=x, dx=dx)))


@operator(**GATES)
def relu_squared(make: Make, R: int, N: int) -> Problem:
    return elementwise("relu_squared", lambda x: F.relu(x).square(), make, R, N)


@operator(**ROWS, memory_bound=False, note="PyTorch's gradient is a view that repeats dy and writes nothing, as that of "
          "tigon.torch.sum_rows is; the call of the library that is timed here writes every row")
def sum_rows(make: Make, R: int, N: int) -> Problem:
    x, dy = make.normal(R, N), make.normal(N)
    y, dx = make.empty(N), make.empty(R, N)
    return Problem(lambda x: x.sum(0), [x], outputs=[y], grads=[dx], upstream=[dy],
                   **pair("sum_rows", dict(x=x, y=y), dict(dy=dy, dx=dx)))


@operator(**ROWS)
def sum_squares(make: Make, R: int, N: int) -> Problem:
    x, dy = make.normal(R, N), make.normal(1, dtype=torch.float32)
    y, dx = make.f32(1), make.empty(R, N)
    return Problem(lambda x: x.float().square().sum().reshape(1), [x], outputs=[y], grads=[dx], upstream=[dy],
                   **pair("sum_squares", dict(x=x, y=y), dict(dy=dy, x=x, dx=dx)))


def over_rows(name: str, function, make: Make, R: int, N: int, with_out=None) -> Problem:
    x, dy = make.normal(R, N), make.normal(R, N)
    y, dx, out = make.empty(R, N), make.empty(R, N), make.empty(R, N)
    return Problem(function, [x], outputs=[y], grads=[dx], upstream=[dy],
                   with_out=with_out and (lambda x: with_out(x, out)),
                   **pair(name, dict(x=x, y=y), dict(dy=dy, y=y, dx=dx)))


@operator(**ROWS)
def softmax(make: Make, R: int, N: int) -> Problem:
    return over_rows("softmax", lambda x: torch.softmax(x, -1), make, R, N,
                     with_out=lambda x, out: torch.softmax(x, -1, out=out))


def sparsemax_by_sort(x):
    """The threshold from the sorted row: the largest k whose k-th value is above the mean excess of the first k."""
    z = torch.sort(x, dim=-1, descending=True).values
    excess = z.cumsum(-1) - 1
    k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    support = (k * z > excess).sum(-1, keepdim=True)
    tau = excess.gather(-1, support - 1) / support
    return F.relu(x - tau)  # whose gradient at 0, outside the support, is 0; clamp's is 1


@operator(small=dict(R=64, N=1024), medium=dict(R=1024, N=4096), large=dict(R=2048, N=4096),
          cuda=dict(large=dict(R=8192, N=4096)), memory_bound=False,
          note="PyTorch sorts; in bf16 its sums and ranks are taken in f32, which bf16 cannot count")
def sparsemax(make: Make, R: int, N: int) -> Problem:
    return over_rows("sparsemax", lambda x: sparsemax_by_sort(x.float()).to(x.dtype), make, R, N)


BLOCKS = dict(small=dict(L=4, R=64, D=1024), medium=dict(L=8, R=512, D=2048), large=dict(L=8, R=2048, D=4096),
              cuda=dict(large=dict(L=8, R=8192, D=4096)))
STREAMS = dict(small=dict(R=64, S=4, C=512), medium=dict(R=1024, S=4, C=1280), large=dict(R=4096, S=4, C=4096),
               cuda=dict(large=dict(R=8192, S=4, C=4096)))


@operator(**BLOCKS)
def attn_res(make: Make, L: int, R: int, D: int) -> Problem:
    v, dy = make.normal(L, R, D), make.normal(R, D)
    query, w = make.normal(D, scale=D**-0.5), make.normal(D, mean=1, scale=0.1)
    y, dv, dquery, dw, alpha, rstd = make.empty(R, D), make.empty(L, R, D), make.empty(D), make.empty(D), make.f32(R, L), make.f32(R, L)

    def function(v, query, w):
        scores = (F.rms_norm(v, (D,), w, EPS) * query).sum(-1)
        return (scores.softmax(0)[..., None] * v).sum(0)

    return Problem(
        function, [v, query, w], outputs=[y], grads=[dv, dquery, dw], upstream=[dy],
        **pair("attn_res", dict(v=v, query=query, weight=w, y=y, alpha=alpha, rstd=rstd, eps=EPS),
               dict(dy=dy, v=v, query=query, weight=w, alpha=alpha, rstd=rstd, dv=dv, dquery=dquery, dweight=dw)))


def doubly_stochastic(logits: torch.Tensor, iterations: int = 20) -> torch.Tensor:
    m = logits.softmax(-1) + EPS
    m = m / (m.sum(-2, keepdim=True) + EPS)
    for _ in range(iterations - 1):
        m = m / (m.sum(-1, keepdim=True) + EPS)
        m = m / (m.sum(-2, keepdim=True) + EPS)
    return m


@operator(**STREAMS)
def mhc_coeffs(make: Make, R: int, S: int, C: int) -> Problem:
    M = S * (S + 2)
    x, phi = make.normal(R, S, C), make.normal(S * C, M, scale=0.02)
    bias, alphas = torch.zeros(M), [torch.ones(1) for _ in range(3)]
    pre, post, res, mix, rstd = make.f32(R, S), make.f32(R, S), make.f32(R, S, S), make.f32(R, M), make.f32(R)
    dpre, dpost, dres = (make.normal(*t.shape, dtype=torch.float32) for t in (pre, post, res))
    dx, dphi, dbias, dalphas = make.empty(R, S, C), make.empty(S * C, M), make.f32(M), [make.f32(1) for _ in range(3)]

    def function(x, phi, bias, a_pre, a_post, a_res):
        flat = x.flatten(1)
        rms = (flat.float().square().mean(-1, keepdim=True) + EPS).rsqrt()
        parts = ((flat @ phi).float() * rms).split((S, S, S * S), -1)
        pre, post, res = (a * p + b for a, p, b in zip((a_pre, a_post, a_res), parts, bias.split((S, S, S * S))))
        return pre.sigmoid(), 2 * post.sigmoid(), doubly_stochastic(res.view(-1, S, S))

    given = dict(x=x, phi=phi, bias=bias, alpha_pre=alphas[0], alpha_post=alphas[1], alpha_res=alphas[2])
    return Problem(
        function, [x, phi, bias, *alphas], outputs=[pre, post, res], grads=[dx, dphi, dbias, *dalphas], upstream=[dpre, dpost, dres],
        **pair("mhc_coeffs", given | dict(h_pre=pre, h_post=post, h_res=res, mix=mix, rstd=rstd),
               given | dict(mix=mix, rstd=rstd, dh_pre=dpre, dh_post=dpost, dh_res=dres, dx=dx, dphi=dphi, dbias=dbias,
                            dalpha_pre=dalphas[0], dalpha_post=dalphas[1], dalpha_res=dalphas[2])))


@operator(**STREAMS)
def mhc_pre(make: Make, R: int, S: int, C: int) -> Problem:
    x, h, dy = make.normal(R, S, C), make.normal(R, S, dtype=torch.float32), make.normal(R, C)
    y, dx, dh = make.empty(R, C), make.empty(R, S, C), make.f32(R, S)
    return Problem(
        lambda x, h: (h[..., None] * x).sum(-2).to(x.dtype), [x, h], outputs=[y], grads=[dx, dh], upstream=[dy],
        **pair("mhc_pre", dict(x=x, h_pre=h, y=y), dict(dy=dy, x=x, h_pre=h, dx=dx, dh_pre=dh)))


@operator(**STREAMS)
def mhc_post_res(make: Make, R: int, S: int, C: int) -> Problem:
    x, f, dy = make.normal(R, S, C), make.normal(R, C), make.normal(R, S, C)
    post, res = make.normal(R, S, dtype=torch.float32), make.normal(R, S, S, dtype=torch.float32)
    y, dx, df, dpost, dres = make.empty(R, S, C), make.empty(R, S, C), make.empty(R, C), make.f32(R, S), make.f32(R, S, S)
    return Problem(
        lambda x, f, post, res: (res.to(x.dtype) @ x + post[..., None].to(x.dtype) * f[:, None]), [x, f, post, res], outputs=[y],
        grads=[dx, df, dpost, dres], upstream=[dy],
        **pair("mhc_post_res", dict(x=x, f=f, h_post=post, h_res=res, y=y),
               dict(dy=dy, x=x, f=f, h_post=post, h_res=res, dx=dx, df=df, dh_post=dpost, dh_res=dres)))
