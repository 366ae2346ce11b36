"""Products of matrices, attention to neighbours, and the optimiser's step."""

import torch
import torch.nn.functional as F

from problem import Make, Problem, Step, operator, pair


@operator(small=dict(M=64, N=64, K=64), medium=dict(M=1024, N=2048, K=768), large=dict(M=4096, N=2048, K=2048),
          cuda=dict(large=dict(M=8192, N=8192, K=8192)), memory_bound=False)
def gemm(make: Make, M: int, N: int, K: int) -> Problem:
    a, b, dc = make.normal(M, K), make.normal(K, N), make.normal(M, N)
    c, da, db, out = make.empty(M, N), make.empty(M, K), make.empty(K, N), make.empty(M, N)
    return Problem(
        torch.mm, [a, b], outputs=[c], grads=[da, db], upstream=[dc], with_out=lambda a, b: torch.mm(a, b, out=out),
        forward=[("gemm", dict(a=a, b=b, c=c))],
        backward=[("gemm", dict(a=dc, b=b, c=da, trans_b=1)), ("gemm", dict(a=a, b=dc, c=db, trans_a=1))])


@operator(small=dict(B=16, M=64, N=64, K=64), medium=dict(B=96, M=128, N=128, K=64), large=dict(B=96, M=512, N=512, K=64),
          cuda=dict(large=dict(B=256, M=1024, N=1024, K=128)), memory_bound=False)
def batched_gemm(make: Make, B: int, M: int, N: int, K: int) -> Problem:
    a, b, dc = make.normal(B, M, K), make.normal(B, K, N), make.normal(B, M, N)
    c, da, db, out = make.empty(B, M, N), make.empty(B, M, K), make.empty(B, K, N), make.empty(B, M, N)
    return Problem(
        torch.bmm, [a, b], outputs=[c], grads=[da, db], upstream=[dc], with_out=lambda a, b: torch.bmm(a, b, out=out),
        forward=[("batched_gemm", dict(a=a, b=b, c=c))],
        backward=[("batched_gemm", dict(a=dc, b=b, c=da, trans_b=1)), ("batched_gemm", dict(a=a, b=dc, c=db, trans_a=1))])


@operator(small=dict(B=1, H=4, S=128, D=64, W=7), medium=dict(B=1, H=8, S=512, D=64, W=7),
          large=dict(B=2, H=8, S=1024, D=64, W=7),
          cuda=dict(large=dict(B=2, H=16, S=4096, D=64, W=7)), memory_bound=False,
          note="against masked attention; PyTorch's mask is made outside the timing")
def fused_neighborhood_attention(make: Make, B: int, H: int, S: int, D: int, W: int) -> Problem:
    q, k, v, dy = (make.normal(B, H, S, D) for _ in range(4))
    y, dq, dk, dv = (make.empty(B, H, S, D) for _ in range(4))
    position = torch.arange(S)
    mask = (position[:, None] - position).abs() <= W // 2
    shared = dict(q=q, k=k, v=v, lse=make.f32(B, H, S))
    return Problem(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), [q, k, v],
        outputs=[y], grads=[dq, dk, dv], upstream=[dy],
        **pair("fused_neighborhood_attention", shared | dict(y=y), shared | dict(dy=dy, dq=dq, dk=dk, dv=dv), kernel_size=W))


LR, BETA1, BETA2, EPS, DECAY = 1e-2, 0.9, 0.999, 1e-8, 0.1


PARAMETERS = dict(small=dict(N=65536), medium=dict(N=8388608), large=dict(N=33554432), cuda=dict(large=dict(N=134217728)))


@operator(**PARAMETERS, note="against PyTorch's fused AdamW; bf16 parameters have an f32 master, which PyTorch's user copies from and to")
def adamw(make: Make, N: int) -> Step:
    start, grad = make.normal(N), make.normal(N)
    narrow = make.dtype != torch.float32
    state = {name: [start.float().clone(), make.f32(N), make.f32(N)] for name in ("eager", "compile", "tigon")}
    params = {name: start.clone() for name in state}

    master, m, v = state["eager"]
    leaf = torch.nn.Parameter(master)
    step = torch.zeros(())
    optimizer = torch.optim.AdamW([leaf], lr=LR, betas=(BETA1, BETA2), eps=EPS, weight_decay=DECAY, fused=True)
    optimizer.state[leaf] = dict(step=step, exp_avg=m, exp_avg_sq=v)

    def eager():
        leaf.grad = grad.float()
        optimizer.step()
        if narrow:
            params["eager"].copy_(master)

    count = torch.zeros(())

    @torch.no_grad()
    def function(param=params["compile"], p=state["compile"][0], m=state["compile"][1], v=state["compile"][2]):
        g = grad.float()
        count.add_(1)
        p.mul_(1 - LR * DECAY)
        m.mul_(BETA1).add_(g, alpha=1 - BETA1)
        v.mul_(BETA2).add_(g * g, alpha=1 - BETA2)
        p.sub_(LR / (1 - BETA1**count) * m / ((v / (1 - BETA2**count)).sqrt() + EPS))
        if narrow:
            param.copy_(p)

    p, m, v = state["tigon"]
    call = dict(param=params["tigon"] if narrow else p, master=p if narrow else None, grad=grad, m=m, v=v, lr=LR, beta1=BETA1,
                beta2=BETA2, eps=EPS, weight_decay=DECAY, step=1)
    return Step(eager, function, state, [("adamw", call)])


def updated(function, start: list[torch.Tensor], call, eager=None) -> Step:
    """function(*state) changes the state that `start` is copied to, and so does Tigon's call(*state), (name, arguments)."""
    state = {name: [t.clone() for t in start] for name in ("eager", "compile", "tigon")}

    def run(name: str):
        return torch.no_grad()(lambda tensors=state[name]: function(*tensors))

    return Step(eager(*state["eager"]) if eager else run("eager"), run("compile"), state, [call(*state["tigon"])])


MOMENTUM, NS = 0.95, (3.4445, -4.775, 2.0315)
MATRICES = dict(small=dict(B=4, M=128, N=128), medium=dict(B=4, M=512, N=1024), large=dict(B=4, M=1024, N=2048),
                cuda=dict(large=dict(B=16, M=2048, N=2048)))


def with_momentum(grad: torch.Tensor, m: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    m.lerp_(grad, 1 - MOMENTUM)
    return torch.lerp(grad, m, MOMENTUM, out=out)


def orthogonal(x: torch.Tensor) -> torch.Tensor:
    """Newton and Schulz of a batch of wide matrices, as torch.optim.Muon has it of one in bf16."""
    a, b, c = NS
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        g = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(g, g, g, beta=b, alpha=c), x, beta=a)
    return x


def decayed(p: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
    return p.mul_(1 - LR * DECAY).sub_(update, alpha=LR)


@operator(**MATRICES, memory_bound=False, note="against torch.optim.Muon, a matrix at a time; compiled, as one batch")
def muon(make: Make, B: int, M: int, N: int) -> Step:
    start, grad = make.normal(B, M, N), make.normal(B, M, N)
    wide = make.dtype == torch.float32

    def torch_muon(p, m):
        leaves = [torch.nn.Parameter(matrix) for matrix in p]
        optimizer = torch.optim.Muon(leaves, lr=LR, weight_decay=DECAY, momentum=MOMENTUM)
        for leaf, g, buffer in zip(leaves, grad, m):
            leaf.grad = g
            optimizer.state[leaf] = dict(momentum_buffer=buffer)
        return optimizer.step

    def call(p, m):
        return "muon", dict(param=make.empty(B, M, N, dtype=torch.bfloat16) if wide else p, master=p if wide else None, grad=grad, m=m,
                            lr=LR, momentum=MOMENTUM, weight_decay=DECAY)

    return updated(lambda p, m: decayed(p, orthogonal(with_momentum(grad, m).bfloat16())), [start, torch.zeros_like(start)], call, torch_muon)


@operator(**MATRICES | dict(small=dict(B=4, M=128, N=256), cuda=dict(large=dict(B=16, M=1024, N=2048))), memory_bound=False,
          note="a batch at a time, products in its own type")
def newton_schulz(make: Make, B: int, M: int, N: int) -> Step:
    x = make.normal(B, M, N)
    return updated(lambda y: y.copy_(orthogonal(x)), [make.empty(B, M, N)], lambda y: ("newton_schulz", dict(x=x, y=y)))


@operator(**PARAMETERS)
def muon_momentum(make: Make, N: int) -> Step:
    grad = make.normal(N)
    return updated(lambda m, u: with_momentum(grad, m, u), [make.normal(N), make.empty(N)],
                  lambda m, u: ("muon_momentum", dict(grad=grad, m=m, update=u, momentum=MOMENTUM)))


@operator(**PARAMETERS)
def muon_update(make: Make, N: int) -> Step:
    change = make.normal(N)
    return updated(lambda p: decayed(p, change), [make.normal(N)],
                  lambda p: ("muon_update", dict(param=p, update=change, lr=LR, weight_decay=DECAY)))
