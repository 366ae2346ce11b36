"""Mixtures whose experts are given each token times its score, as Llama 4's, on fused_moe: of all experts only those that were chosen."""
from torch import nn

import tigon.torch
from tigon.transformers import _experts, _probe
from tigon.transformers._classes import Part, makers, replacing
from tigon.transformers._plain import autocast_type, is_untouched, takes

NAMES = {"experts", "router", "shared_expert"}
TOKENS, WIDTH, INNER, EXPERTS = 5, 6, 10, 4  # of the small copy


def why_not(module, *inputs):
    """Words for why this mixture runs as transformers has it, None where it runs on Tigon."""
    experts = module.experts
    activation = _experts.ACTIVATIONS.get(type(experts.act_fn))
    if activation is None:
        return f"the activation of its experts is {type(experts.act_fn).__name__}"
    if not is_untouched(experts) or not is_untouched(experts.act_fn):
        return "its experts have hooks"
    matrices = experts._parameters.get("gate_up_proj"), experts._parameters.get("down_proj")
    if any(m is None for m in matrices) or not takes(*matrices, *inputs):
        return "the matrices of its experts are not plain, or not where Tigon is"
    if any(x.dtype != matrices[0].dtype for x in inputs) and autocast_type(matrices[0]) is None:
        return "the matrices of its experts are of another type than what they are given"
    return None


def compute(module, hidden_states):
    if why_not(module, hidden_states) is not None:
        return None
    experts = module.experts
    x = hidden_states.reshape(-1, hidden_states.shape[-1])
    scores, logits = module.router(x)
    weights, index = scores.topk(module.top_k, dim=1)
    y = tigon.torch.fused_moe(x, experts.gate_up_proj, experts.down_proj, index, weights, activation=_experts.ACTIVATIONS[type(experts.act_fn)],
                              transposed=True, scale_input=True)
    return module.shared_expert(x) + y, logits


def _parameter(*shape, seed):
    return nn.Parameter(_probe.random(*shape, seed=seed), requires_grad=False)


def _copy(module):
    experts, router = module.experts, module.router
    sizes = {"num_experts": EXPERTS, "hidden_size": WIDTH, "hidden_dim": WIDTH, "top_k": 2}

    def known(m):
        return {n: v for n, v in sizes.items() if n in vars(m)}

    matrices = {"gate_up_proj": _parameter(EXPERTS, WIDTH, 2 * INNER, seed=1), "down_proj": _parameter(EXPERTS, INNER, WIDTH, seed=2)}
    modules = {
        "experts": _probe.twin(experts, matrices, {"act_fn": nn.SiLU()}, **known(experts)),
        "router": _probe.twin(router, {"weight": _parameter(EXPERTS, WIDTH, seed=3), "bias": None}, **known(router)),
        "shared_expert": nn.Tanh(),
    }
    return _probe.twin(module, modules=modules, **known(module))


def recognise(module):
    """The part that a mixture is, None for what is none."""
    if set(module._modules) != NAMES or not hasattr(module, "top_k") or not isinstance(module.router, nn.Linear):
        return None
    if "gate_up_proj" not in module.experts._parameters:
        return None
    copy, x = _copy(module), _probe.random(1, TOKENS, WIDTH, seed=9)
    expected = _probe.run(type(module).forward, copy, x)
    fits = expected is not None and _probe.agree(_probe.run(compute, copy, x), expected)
    return Part("mlp", "mixture") if fits else "no mixture of Tigon computes what its class does"


makers.update(mixture=lambda cls, settings: replacing(cls.forward, compute))
