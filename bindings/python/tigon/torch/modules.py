"""The families as modules, tigon.torch.RMSNorm(4096, eps=1e-6), and the optimizers AdamW and Muon. Options are those of the
function."""
from typing import Any, Optional, Tuple, Union

import torch
from torch import nn

from tigon.torch import _muon, functional
from tigon.torch._module import Module


def _filled(value, *shape, **kind):
    return nn.Parameter(torch.full(shape, float(value), **kind))


class RMSNorm(Module):
    """y = x / rms(x) * (offset + weight)."""

    family = "rms_norm"
    takes = ("weight",)

    def __init__(self, hidden_size, device=None, dtype=None, **options):
        super().__init__(**options)
        self.weight = _filled(0 if options.get("offset") else 1, hidden_size, device=device, dtype=dtype)


class FusedAddRMSNorm(RMSNorm):
    """y, s = norm(x, residual) with s = x + residual."""

    family = "fused_add_rms_norm"


class LayerNorm(Module):
    family = "layer_norm"
    takes = ("weight", "bias")

    def __init__(self, hidden_size, device=None, dtype=None, **options):
        super().__init__(**options)
        self.weight = _filled(1, hidden_size, device=device, dtype=dtype)
        self.bias = _filled(0, hidden_size, device=device, dtype=dtype)


class GroupNorm(Module):
    family = "group_norm"
    takes = ("weight", "bias")

    def __init__(self, num_groups, num_channels, device=None, dtype=None, **options):
        super().__init__(num_groups=num_groups, **options)
        self.weight = _filled(1, num_channels, device=device, dtype=dtype)
        self.bias = _filled(0, num_channels, device=device, dtype=dtype)


class DyT(Module):
    """y = tanh(alpha x) gamma + beta."""

    family = "dyt"
    takes = ("alpha", "gamma", "beta")

    def __init__(self, hidden_size, alpha=0.5, device=None, dtype=None):
        super().__init__()
        self.alpha = _filled(alpha, 1, device=device, dtype=dtype)
        self.gamma = _filled(1, hidden_size, device=device, dtype=dtype)
        self.beta = _filled(0, hidden_size, device=device, dtype=dtype)


class PolyNorm(Module):
    family = "poly_norm"
    takes = ("weight", "bias")

    def __init__(self, device=None, dtype=None, **options):
        super().__init__(**options)
        self.weight = _filled(1 / 3, 3, device=device, dtype=dtype)
        self.bias = _filled(0, 1, device=device, dtype=dtype)


class CausalConv1d(Module):
    """A convolution of `width` taps along the sequence of x [.., S, C], each channel by itself."""

    family = "causal_conv1d"
    takes = ("weight", "bias")

    def __init__(self, channels, width, bias=True, device=None, dtype=None, **options):
        super().__init__(**options)
        bound = width ** -0.5
        self.weight = nn.Parameter(torch.empty(channels, width, device=device, dtype=dtype).uniform_(-bound, bound))
        self.bias = _filled(0, channels, device=device, dtype=dtype) if bias else None


class MultiTokenAttention(Module):
    """Probabilities of causal attention, from scores [B, in_channels, L, L], convolved over queries and keys."""

    family = "multi_token_attention"
    takes = ("weight", "bias")

    def __init__(self, in_channels, out_channels, kernel_size, groups=1, bias=True, device=None, dtype=None, **options):
        super().__init__(groups=groups, **options)
        each = in_channels // groups
        bound = (each * kernel_size ** 2) ** -0.5
        self.weight = nn.Parameter(torch.empty(out_channels, each, kernel_size, kernel_size, device=device, dtype=dtype).uniform_(-bound, bound))
        self.bias = _filled(0, out_channels, device=device, dtype=dtype) if bias else None


class AttnRes(Module):
    """Attention over depth: a mean of the blocks' outputs v [L,..,hidden_size] for each token."""

    family = "attn_res"
    takes = ("query", "weight")

    def __init__(self, hidden_size, device=None, dtype=None, **options):
        super().__init__(**options)
        self.query = nn.Parameter(torch.randn(hidden_size, device=device, dtype=dtype) * 0.02)
        self.weight = _filled(1, hidden_size, device=device, dtype=dtype)


class MHCCoeffs(Module):
    """The coefficients of hyper-connections between `streams` residual streams of hidden_size: h_pre, h_post, h_res."""

    family = "mhc_coeffs"
    takes = ("phi", "bias", "alpha_pre", "alpha_post", "alpha_res")

    def __init__(self, streams, hidden_size, device=None, dtype=None, **options):
        super().__init__(**options)
        columns = streams * (streams + 2)
        self.phi = nn.Parameter(torch.randn(streams * hidden_size, columns, device=device, dtype=dtype) * 0.02)
        self.bias = _filled(0, columns, device=device, dtype=dtype)
        self.alpha_pre, self.alpha_post, self.alpha_res = (_filled(1, 1, device=device, dtype=dtype) for _ in range(3))


class FusedMoE(Module):
    """The experts of a mixture: gated layers of which each token goes through those that index [.., K] names, with weights [.., K]."""

    family = "fused_moe"
    takes = ("gate_up", "down", "gate_up_bias", "down_bias")

    def __init__(self, hidden_size, intermediate_size, num_experts, bias=False, recompute=False, device=None, dtype=None, **options):
        super().__init__(**options)
        if recompute:
            self.options["recompute"] = True
        transposed, both = options.get("transposed"), 2 * intermediate_size

        def matrix(rows, columns):
            shape = (columns, rows) if transposed else (rows, columns)
            bound = columns ** -0.5
            return nn.Parameter(torch.empty(num_experts, *shape, device=device, dtype=dtype).uniform_(-bound, bound))
        self.gate_up, self.down = matrix(both, hidden_size), matrix(hidden_size, intermediate_size)
        self.gate_up_bias = _filled(0, num_experts, both, device=device, dtype=dtype) if bias else None
        self.down_bias = _filled(0, num_experts, hidden_size, device=device, dtype=dtype) if bias else None


class Embedding(Module):
    family = "embedding"
    takes = ("weight",)

    def __init__(self, num_embeddings, embedding_dim, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))


class Linear(nn.Linear):
    """torch.nn.Linear on Tigon's product."""

    def forward(self, x):
        y = functional.gemm(x.reshape(-1, x.shape[-1]), self.weight, trans_b=True).reshape(x.shape[:-1] + (self.out_features,))
        return y if self.bias is None else y + self.bias.to(y.dtype)


# Those without parameters.
_CLASSES = {
    "SwiGLU": "swiglu", "GEGLU": "geglu", "ReLUSquared": "relu_squared", "Softmax": "softmax", "Sparsemax": "sparsemax",
    "Rope": "rope", "Llama4Rope": "llama4_rope", "Qwen2VLMRope": "qwen2vl_mrope", "FlashAttention": "flash_attention",
    "FusedNeighborhoodAttention": "fused_neighborhood_attention", "CrossEntropyLoss": "cross_entropy",
    "FusedLinearCrossEntropyLoss": "fused_linear_cross_entropy", "SelectiveLogSoftmax": "selective_log_softmax", "GRPOLoss": "grpo_loss",
    "PolicyLoss": "policy_loss", "PreferenceLoss": "preference_loss",
    "KLDivLoss": "kl_div", "TVDLoss": "tvd", "JSDLoss": "jsd", "SoftmaxJSDLoss": "softmax_jsd", "FusedLinearJSDLoss": "fused_linear_jsd",
    "SoftmaxKLDivLoss": "softmax_kl_div", "FusedLinearKLDivLoss": "fused_linear_kl_div", "FusedCETVDLoss": "fused_ce_tvd",
    "SoftmaxLogp": "softmax_logp", "FusedLinearLogp": "fused_linear_logp", "SumRows": "sum_rows", "SumSquares": "sum_squares",
    "MHCPre": "mhc_pre", "MHCPostRes": "mhc_post_res", "GroupedGemm": "grouped_gemm",
    "MoERouter": "moe_router", "MoEGather": "moe_gather", "MoEScatter": "moe_scatter",
}
for _name, _family in _CLASSES.items():
    globals()[_name] = type(_name, (Module,), {"family": _family, "__module__": __name__, "__doc__": getattr(functional, _family).__doc__})


class AdamW(torch.optim.Optimizer):
    """AdamW in one pass over each parameter. State is named as torch.optim.AdamW's, whose state it takes, and in f32 for 16-bit
    parameters. master: these have a copy in f32, which is what is updated. Parameters may be spread over processes (FSDP2's)."""

    # What groups of torch.optim's Adam and AdamW may say, and this one does not do.
    _ONLY = {"amsgrad": False, "maximize": False, "decoupled_weight_decay": True}

    def __init__(self, params: Any, lr: Union[float, torch.Tensor] = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01, *, master: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "master": master})

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("master", self.defaults["master"])
            for name, value in self._ONLY.items():
                if group.get(name, value) != value:
                    raise ValueError(f"AdamW: the state that is loaded has {name}={group[name]}, expected {value}")

    def load_state_dict(self, state_dict: Any) -> None:
        """As torch.optim's, but for the types of the state: that casts it to the parameter's."""
        given = []
        before = self.register_load_state_dict_pre_hook(lambda _, state: given.append(state))
        after = self.register_load_state_dict_post_hook(lambda _: self._take_again(given[0]), prepend=True)
        try:
            super().load_state_dict(state_dict)
        finally:
            before.remove()
            after.remove()

    def _take_again(self, state_dict):
        ids = [i for group in state_dict["param_groups"] for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for i, param in zip(ids, params):
            for name, value in state_dict["state"].get(i, {}).items():
                if name == "step":
                    self.state[param][name] = int(value)
                elif isinstance(value, torch.Tensor):
                    self.state[param][name] = value.to(param.device, _state_type(param))

    def _state(self, param, master):
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(param, dtype=_state_type(param)) for _ in range(2))
        if master and "master" not in state and param.dtype != _state_type(param):
            state["master"] = param.detach().to(_state_type(param))
        return state

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if not torch.compiler.is_compiling() and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("AdamW: a graph would replay this step with its number, expected a call outside of torch.cuda.graph")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self._state(param, group["master"])
                state["step"] += 1
                functional.adamw(param, param.grad, state["exp_avg"], state["exp_avg_sq"], state.get("master"), step=state["step"],
                                 lr=group["lr"], beta1=group["betas"][0], beta2=group["betas"][1], eps=group["eps"],
                                 weight_decay=group["weight_decay"])
        return loss


class Muon(torch.optim.Optimizer):
    """Muon: a momentum that is orthogonalised, for the matrices of hidden layers; the rest is AdamW's. Arguments, groups and state are
    torch.optim.Muon's, and either takes the state of the other. Matrices of one shape are one batch. Products are bf16 for parameters of
    f32, and of the parameters' own type else. Parameters may be spread over processes (FSDP2's), which share the matrices out."""

    def __init__(self, params: Any, lr: Union[float, torch.Tensor] = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7,
                 ns_steps: int = 5, adjust_lr_fn: Optional[str] = None) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"Muon: {name} is {value}, expected 0 or more")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Muon: adjust_lr_fn is {adjust_lr_fn}, expected original or match_rms_adamw")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})

    def add_param_group(self, param_group: Any) -> None:
        super().add_param_group(param_group)
        for param in self.param_groups[-1]["params"]:
            if param.ndim != 2:
                raise ValueError(f"Muon: a parameter is {list(param.shape)}, expected a matrix")

    def _momentum(self, param):
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param.grad, memory_format=torch.preserve_format)
        return state["momentum_buffer"]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for params in _muon.batches([p for p in group["params"] if p.grad is not None]):
                _muon.step(params, [self._momentum(p) for p in params], group)
        return loss


def _state_type(param):
    return torch.float64 if param.dtype == torch.float64 else torch.float32


__all__ = ["RMSNorm", "FusedAddRMSNorm", "LayerNorm", "GroupNorm", "DyT", "PolyNorm", "AttnRes", "MHCCoeffs", "CausalConv1d", "MultiTokenAttention", "FusedMoE", "Embedding", "Linear", "AdamW", "Muon",
           *_CLASSES]
