"""Losses over logits and distributions, with and without the product that makes the logits."""

import torch
import torch.nn.functional as F

from problem import Make, Problem, Tensor, operator, pair

CPU_LOGITS = dict(small=dict(R=64, N=1024), medium=dict(R=512, N=32000), large=dict(R=1024, N=32000))
LOGITS = CPU_LOGITS | dict(cuda=dict(large=dict(R=4096, N=128256)))


def loss_problem(name: str, function, inputs: list, forward: dict, backward: dict, loss: Tensor, gradient: dict,
                 **options) -> Problem:
    """A scalar loss whose forward also gives the gradient of the first input, if asked: {argument: tensor}."""
    calls = pair(name, forward | dict(loss=loss), backward | gradient, **options)
    fused = [(name + "_forward", calls["forward"][0][1] | gradient)]
    grads = list(gradient.values()) + [None] * (len(inputs) - len(gradient))
    return Problem(function, inputs, outputs=[loss], grads=grads, fused=fused, **calls)


def with_logits(make: Make, problem: Problem, name: str, shared: dict[str, Tensor], logits: list[str], loss: Tensor,
                gradient: dict, **options) -> Problem:
    """The same problem where a forward without gradients keeps logits, which its backward is given."""
    BT, V = shared["x"].shape[0], shared["weight"].shape[0]
    shared = shared | {n: make.f32(BT, V) for n in logits}
    return Problem(problem.function, problem.inputs, outputs=[loss], grads=problem.grads,
                   **pair(name, shared | dict(loss=loss), shared | gradient, **options))


def separate(name: str, function, shared: dict[str, Tensor], **options) -> Problem:
    """A scalar loss whose gradient, of the first input alone, is a call of its own: both calls take what is shared."""
    first, *_ = shared
    loss, gradient = torch.zeros(1), torch.zeros_like(shared[first])
    return Problem(function, [*shared.values()], outputs=[loss], grads=[gradient] + [None] * (len(shared) - 1),
                   **pair(name, shared | dict(loss=loss), shared | {"d" + first: gradient}, **options))


@operator(**CPU_LOGITS, cuda=dict(medium=dict(R=4096, N=128256), large=dict(R=8192, N=128256)))
def cross_entropy(make: Make, R: int, N: int) -> Problem:
    logits, target = make.normal(R, N, scale=2), make.labels(N, R)
    lse = make.f32(R)
    return loss_problem(
        "cross_entropy", F.cross_entropy, [logits, target], dict(logits=logits, target=target, lse=lse),
        dict(logits=logits, target=target, lse=lse), make.f32(1), dict(dlogits=make.empty(R, N)))


def distributions(make: Make, R: int, N: int) -> tuple[Tensor, Tensor]:
    """Two rows of log-probabilities each, in f32."""
    return tuple(make.normal(R, N, dtype=torch.float32, scale=2).log_softmax(-1) for _ in range(2))


@operator(**LOGITS)
def kl_div(make: Make, R: int, N: int) -> Problem:
    a, b = distributions(make, R, N)
    y_pred, y_true = a.to(make.dtype), b.exp().to(make.dtype)
    return loss_problem(
        "kl_div", lambda y_pred, y_true: F.kl_div(y_pred, y_true, reduction="batchmean"), [y_pred, y_true],
        dict(y_pred=y_pred, y_true=y_true), dict(y_true=y_true), make.f32(1), dict(dy_pred=make.empty(R, N)),
        reduction=3)


@operator(**LOGITS)
def tvd(make: Make, R: int, N: int) -> Problem:
    p, q = (x.exp().to(make.dtype) for x in distributions(make, R, N))
    q[p == q] *= 2  # where they agree, which bf16 often does, any gradient between -1/2 and 1/2 is right
    return loss_problem("tvd", lambda p, q: 0.5 * (p - q).abs().sum() / R, [p, q], dict(p=p, q=q), dict(p=p, q=q),
                        make.f32(1), dict(dp=make.empty(R, N)), reduction=3)


def divergence(x: Tensor, y: Tensor) -> Tensor:
    """Jensen-Shannon at beta = 1/2 of log-probabilities, summed over classes, mean over rows."""
    q, p = x.exp(), y.exp()
    log_m = (0.5 * (p + q)).log()
    return 0.5 * (p * (y - log_m) + q * (x - log_m)).sum() / x.shape[0]


@operator(**LOGITS)
def jsd(make: Make, R: int, N: int) -> Problem:
    x, y = (x.to(make.dtype) for x in distributions(make, R, N))
    both = dict(student=x, teacher=y)
    return loss_problem("jsd", divergence, [x, y], both, both, make.f32(1), dict(dstudent=make.empty(R, N)))


@operator(**LOGITS, note="PyTorch's log-probabilities are f32, for bf16 would lose the divergence")
def softmax_jsd(make: Make, R: int, N: int) -> Problem:
    student, teacher = make.normal(R, N, scale=2), make.normal(R, N, scale=2)

    def function(student, teacher):
        with torch.no_grad():
            q = teacher.float().log_softmax(-1)
        return divergence(student.float().log_softmax(-1), q)

    both = dict(student=student, teacher=teacher)
    return loss_problem("softmax_jsd", function, [student, teacher], both, both, make.f32(1), dict(dstudent=make.empty(R, N)))


def probabilities(make: Make, R: int, N: int) -> Tensor:
    return make.normal(R, N, dtype=torch.float32, scale=2).softmax(-1).to(make.dtype)


def divergence_from(target: Tensor, logits: Tensor) -> Tensor:
    """Kullback-Leibler, of the logits' softmax from probabilities, summed over classes, mean over rows."""
    return F.kl_div(logits.float().log_softmax(-1), target.float(), reduction="batchmean")


@operator(**LOGITS)
def softmax_kl_div(make: Make, R: int, N: int) -> Problem:
    logits, target = make.normal(R, N, scale=2), probabilities(make, R, N)
    both = dict(logits=logits, target=target)
    return loss_problem("softmax_kl_div", lambda logits, target: divergence_from(target, logits), [logits, target], both, both,
                        make.f32(1), dict(dlogits=make.empty(R, N)), reduction=3)


def cross_entropy_and_distance(student: Tensor, teacher: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row: cross entropy, and the total variation distance."""
    with torch.no_grad():
        q = teacher.float().softmax(-1)
    student = student.float()
    return F.cross_entropy(student, target, reduction="none"), 0.5 * (student.softmax(-1) - q).abs().sum(-1)


@operator(**LOGITS)
def fused_ce_tvd(make: Make, R: int, N: int) -> Problem:
    student, teacher, target = make.normal(R, N, scale=2), make.normal(R, N, scale=2), make.labels(N, R)
    ce, tvd, student_lse, teacher_lse, sigma = (make.f32(R) for _ in range(5))
    dstudent = make.empty(R, N)
    dce, dtvd = (make.normal(R, dtype=torch.float32) for _ in range(2))
    shared = dict(student=student, teacher=teacher, target=target, student_lse=student_lse, teacher_lse=teacher_lse, sigma=sigma)
    return Problem(
        cross_entropy_and_distance, [student, teacher, target], outputs=[ce, tvd], grads=[dstudent, None, None],
        upstream=[dce, dtvd],
        **pair("fused_ce_tvd", shared | dict(ce=ce, tvd=tvd), shared | dict(dce=dce, dtvd=dtvd, dstudent=dstudent)))


POLICY = dict(small=dict(B=2, L=32, V=1024), medium=dict(B=2, L=256, V=32000), large=dict(B=2, L=512, V=32000),
              cuda=dict(large=dict(B=4, L=1024, V=128256)))
TEMPERATURE, BETA = 0.9, 0.04


def chosen(logits: Tensor, target: Tensor) -> Tensor:
    return (logits.float() / TEMPERATURE).log_softmax(-1).gather(-1, target[..., None])[..., 0]


@operator(**POLICY)
def selective_log_softmax(make: Make, B: int, L: int, V: int) -> Problem:
    logits, target = make.normal(B, L, V, scale=2), make.labels(V, B, L)
    logp, lse, dlogits = make.f32(B, L), make.f32(B, L), make.empty(B, L, V)
    dlogp = make.normal(B, L, dtype=torch.float32)
    return Problem(
        chosen, [logits, target], outputs=[logp], grads=[dlogits, None], upstream=[dlogp],
        **pair("selective_log_softmax", dict(logits=logits, target=target, logp=logp, lse=lse),
               dict(logits=logits, target=target, lse=lse, dlogp=dlogp, dlogits=dlogits), temperature=TEMPERATURE))


def read_logits(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of targets, and the entropies of rows."""
    logp = logits.float().log_softmax(-1)
    return logp.gather(-1, target[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


@operator(**CPU_LOGITS)
def softmax_logp(make: Make, R: int, N: int) -> Problem:
    logits, target = make.normal(R, N, scale=2), make.labels(N, R)
    logp, entropy, lse, dlogits = make.f32(R), make.f32(R), make.f32(R), make.empty(R, N)
    dlogp, dentropy = (make.normal(R, dtype=torch.float32) for _ in range(2))
    shared = dict(logits=logits, target=target, lse=lse, entropy=entropy)
    return Problem(
        read_logits, [logits, target], outputs=[logp, entropy], grads=[dlogits, None], upstream=[dlogp, dentropy],
        **pair("softmax_logp", shared | dict(logp=logp), shared | dict(dlogp=dlogp, dentropy=dentropy, dlogits=dlogits)))


DAPO = "DAPO, token level, with the divergence from a reference policy"


def policy_of(logp: Tensor, advantages: Tensor, old: Tensor, ref: Tensor) -> Tensor:
    logp = logp.float()
    rho, a, u = (logp - old).exp(), advantages[:, None], ref - logp
    policy = -torch.min(rho * a, rho.clamp(0.8, 1.4) * a)
    return (policy + BETA * (u.exp() - u - 1)).mean()


@operator(**POLICY, note=DAPO)
def grpo_loss(make: Make, B: int, L: int, V: int) -> Problem:
    logits, target = make.normal(B, L, V, scale=2), make.labels(V, B, L)
    logp = chosen(logits, target)
    old, ref = (logp + make.normal(B, L, dtype=torch.float32, scale=0.2) for _ in range(2))
    advantages = torch.linspace(1, -0.5, B)
    lse, loss, dlogits = make.f32(B, L), make.f32(1), make.empty(B, L, V)
    shared = dict(logits=logits, target=target, advantages=advantages, old_logp=old, ref_logp=ref, lse=lse)
    return Problem(
        lambda logits, target, *others: policy_of(chosen(logits, target), *others), [logits, target, advantages, old, ref],
        outputs=[loss], grads=[dlogits] + [None] * 4,
        **pair("grpo_loss", shared | dict(loss=loss), shared | dict(dlogits=dlogits), temperature=TEMPERATURE, beta=BETA,
               loss_type=1))


@operator(small=dict(B=8, L=1024), medium=dict(B=64, L=16384), large=dict(B=256, L=65536), note=DAPO)
def policy_loss(make: Make, B: int, L: int) -> Problem:
    logp = make.normal(B, L, mean=-3)
    old, ref = (logp.float() + make.normal(B, L, dtype=torch.float32, scale=0.2) for _ in range(2))
    advantages = torch.linspace(1, -0.5, B)
    shared = dict(logp=logp, advantages=advantages, old_logp=old, ref_logp=ref)
    return separate("policy_loss", policy_of, shared, beta=BETA, loss_type=1)


@operator(small=dict(N=4096), medium=dict(N=2097152), large=dict(N=8388608), note="DPO, conservative, of pairs of sequences")
def preference_loss(make: Make, N: int) -> Problem:
    logp = make.normal(2, N, mean=-50, scale=10)
    ref = logp.float() + make.normal(2, N, dtype=torch.float32, scale=5)

    def function(logp, ref):
        a, b = (logp.float() - ref).unbind()
        x = 0.1 * (a - b)
        return -(0.9 * F.logsigmoid(x) + 0.1 * F.logsigmoid(-x)).mean()

    return separate("preference_loss", function, dict(logp=logp, ref_logp=ref), beta=0.1, label_smoothing=0.1)


LINEAR = "Tigon's separate backward computes the logits again, PyTorch keeps them"
KEPT = "Tigon keeps the logits as PyTorch does, in f32"


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=768, V=16000), large=dict(BT=2048, H=1024, V=32000),
          cuda=dict(medium=dict(BT=2048, H=4096, V=32000), large=dict(BT=4096, H=4096, V=128256)), memory_bound=False, note=LINEAR)
def fused_linear_cross_entropy(make: Make, BT: int, H: int, V: int, kept: bool = False) -> Problem:
    x, w, target = make.normal(BT, H), make.normal(V, H, scale=2 / H**0.5), make.labels(V, BT)
    shared = dict(x=x, weight=w, target=target, lse=make.f32(BT))
    loss, gradient = make.f32(1), dict(dx=make.empty(BT, H), dweight=make.empty(V, H))
    problem = loss_problem("fused_linear_cross_entropy", lambda x, w, target: F.cross_entropy(x @ w.T, target), [x, w, target],
                           shared, shared, loss, gradient)
    return with_logits(make, problem, "fused_linear_cross_entropy", shared, ["logits"], loss, gradient) if kept else problem


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=768, V=16000), large=dict(BT=2048, H=1024, V=32000),
          cuda=dict(medium=dict(BT=2048, H=4096, V=32000), large=dict(BT=4096, H=4096, V=128256)), memory_bound=False, note=KEPT)
def fused_linear_cross_entropy_kept(make: Make, BT: int, H: int, V: int) -> Problem:
    return fused_linear_cross_entropy(make, BT, H, V, kept=True)


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=768, V=16000), large=dict(BT=2048, H=1024, V=32000),
          memory_bound=False, note=LINEAR)
def fused_linear_logp(make: Make, BT: int, H: int, V: int, kept: bool = False) -> Problem:
    x, w, target = make.normal(BT, H), make.normal(V, H, scale=2 / H**0.5), make.labels(V, BT)
    logp, lse, dx, dweight = make.f32(BT), make.f32(BT), make.empty(BT, H), make.empty(V, H)
    dlogp = make.normal(BT, dtype=torch.float32)
    shared = dict(x=x, weight=w, target=target, lse=lse) | (dict(logits=make.f32(BT, V)) if kept else {})
    return Problem(
        lambda x, w, target: read_logits(x @ w.T, target)[0], [x, w, target], outputs=[logp], grads=[dx, dweight, None],
        upstream=[dlogp], **pair("fused_linear_logp", shared | dict(logp=logp), shared | dict(dlogp=dlogp, dx=dx, dweight=dweight)))


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=768, V=16000), large=dict(BT=2048, H=1024, V=32000),
          memory_bound=False, note=KEPT)
def fused_linear_logp_kept(make: Make, BT: int, H: int, V: int) -> Problem:
    return fused_linear_logp(make, BT, H, V, kept=True)


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=512, V=16000), large=dict(BT=1024, H=1024, V=32000),
          cuda=dict(large=dict(BT=2048, H=4096, V=32000)), memory_bound=False,
          note=LINEAR + "; PyTorch's log-probabilities are f32, for bf16 would lose the divergence")
def fused_linear_jsd(make: Make, BT: int, H: int, V: int, kept: bool = False) -> Problem:
    x, teacher_x = make.normal(BT, H), make.normal(BT, H)
    w, teacher_w = make.normal(V, H, scale=2 / H**0.5), make.normal(V, H, scale=2 / H**0.5)

    def function(x, w, teacher_x, teacher_w):
        with torch.no_grad():
            teacher = (teacher_x @ teacher_w.T).float().log_softmax(-1)
        return divergence((x @ w.T).float().log_softmax(-1), teacher)

    shared = dict(x=x, weight=w, teacher_x=teacher_x, teacher_weight=teacher_w)
    loss, gradient = make.f32(1), dict(dx=make.empty(BT, H), dweight=make.empty(V, H))
    problem = loss_problem("fused_linear_jsd", function, [x, w, teacher_x, teacher_w], shared, shared, loss, gradient)
    logits = ["logits", "teacher_logits"]
    return with_logits(make, problem, "fused_linear_jsd", shared, logits, loss, gradient) if kept else problem


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=512, V=16000), large=dict(BT=1024, H=1024, V=32000),
          cuda=dict(large=dict(BT=2048, H=4096, V=32000)), memory_bound=False,
          note=KEPT + "; PyTorch's log-probabilities are f32, for bf16 would lose the divergence")
def fused_linear_jsd_kept(make: Make, BT: int, H: int, V: int) -> Problem:
    return fused_linear_jsd(make, BT, H, V, kept=True)


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=512, V=16000), large=dict(BT=1024, H=1024, V=32000),
          cuda=dict(large=dict(BT=2048, H=4096, V=128256)), memory_bound=False, note=LINEAR + "; PyTorch's log-probabilities are f32")
def fused_linear_kl_div(make: Make, BT: int, H: int, V: int, kept: bool = False) -> Problem:
    x, w, target = make.normal(BT, H), make.normal(V, H, scale=2 / H**0.5), probabilities(make, BT, V)
    shared = dict(x=x, weight=w, target=target)
    loss, gradient = make.f32(1), dict(dx=make.empty(BT, H), dweight=make.empty(V, H))
    problem = loss_problem("fused_linear_kl_div", lambda x, w, target: divergence_from(target, x @ w.T), [x, w, target], shared, shared,
                           loss, gradient, reduction=3)
    return with_logits(make, problem, "fused_linear_kl_div", shared, ["logits"], loss, gradient, reduction=3) if kept else problem


@operator(small=dict(BT=64, H=256, V=1024), medium=dict(BT=512, H=512, V=16000), large=dict(BT=1024, H=1024, V=32000),
          cuda=dict(large=dict(BT=2048, H=4096, V=128256)), memory_bound=False, note=KEPT + "; PyTorch's log-probabilities are f32")
def fused_linear_kl_div_kept(make: Make, BT: int, H: int, V: int) -> Problem:
    return fused_linear_kl_div(make, BT, H, V, kept=True)
