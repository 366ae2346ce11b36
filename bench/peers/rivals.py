"""Other libraries' operators on a GPU, beside PyTorch's: Liger-Kernel, QuACK, and PyTorch's attention by one kernel or the other. Each
takes what the problem's own function takes and returns what that returns. A library that is not installed is left out."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import Contestant, leaves, torch_contestant
from problem import Problem, Tensor
from rows import EPS

MODULES = {"liger": "liger_kernel.ops", "quack": "quack"}
# Their forward computes the gradients, so that a backward alone is next to nothing and not measured.
GRADIENTS_IN_FORWARD = {
    "liger": {"cross_entropy", "tvd", "jsd", "fused_linear_cross_entropy", "fused_linear_jsd", "fused_linear_kl_div"},
    "quack": {"fused_linear_cross_entropy"}}


def liger(ops: ModuleType) -> dict[str, Callable]:
    """By operator: sizes to function. Gradients overwrite what Liger-Kernel overwrites by default."""
    rope = lambda apply, q, k, *tables: tuple(y.transpose(1, 2) for y in apply(q.transpose(1, 2), k.transpose(1, 2), *tables))
    return dict(
        rms_norm=lambda R, N: lambda x, w: ops.LigerRMSNormFunction.apply(x, w, EPS),
        fused_add_rms_norm=lambda R, N: lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, EPS),
        layer_norm=lambda R, N: lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, EPS),
        group_norm=lambda B, C, S, G: lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, C, G, EPS),
        poly_norm=lambda R, N: lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b[0], EPS),
        dyt=lambda R, N: ops.LigerDyTFunction.apply,
        attn_res=lambda L, R, D: lambda v, query, w: ops.LigerAttnResFunction.apply(v, query, w, EPS),
        mhc_coeffs=lambda R, S, C: lambda *inputs: ops.LigerMHCCoeffsFunction.apply(*inputs, True, 20, EPS, 0.0, EPS, 2.0),
        mhc_pre=lambda R, S, C: ops.LigerMHCPreFunction.apply,
        mhc_post_res=lambda R, S, C: ops.LigerMHCPostResFunction.apply,
        swiglu=lambda R, N: ops.LigerSiLUMulFunction.apply,
        geglu=lambda R, N: ops.LigerGELUMulFunction.apply,
        relu_squared=lambda R, N: ops.LigerReLUSquaredFunction.apply,
        softmax=lambda R, N: ops.LigerSoftmaxFunction.apply,
        sparsemax=lambda R, N: lambda x: ops.LigerSparsemaxFunction.apply(x, -1),
        rope=lambda B, S, Hq, Hk, D: lambda q, k, cos, sin: rope(ops.LigerRopeFunction.apply, q, k, cos[None], sin[None]),
        llama4_rope=lambda B, S, Hq, Hk, D: lambda q, k, freqs: ops.LigerLlama4RopeFunction.apply(q, k, freqs),
        qwen2vl_mrope=lambda B, S, Hq, Hk, D: lambda q, k, cos, sin: rope(
            ops.LigerQwen2VLMRopeFunction.apply, q, k, cos, sin, [D // 8, 3 * D // 16, D // 2 - D // 8 - 3 * D // 16]),
        embedding=lambda BT, V, D: ops.LigerEmbeddingFunction.apply,
        cross_entropy=lambda R, N: lambda logits, target: ops.LigerCrossEntropyFunction.apply(logits, target, None)[0],
        kl_div=lambda R, N: ops.LigerKLDivLossFunction.apply,
        tvd=lambda R, N: ops.LigerTVDLossFunction.apply,
        jsd=lambda R, N: ops.LigerJSDFunction.apply,
        fused_linear_cross_entropy=lambda BT, H, V: lambda *inputs: ops.LigerFusedLinearCrossEntropyFunction.apply(*inputs)[0],
        fused_linear_jsd=lambda BT, H, V: lambda x, w, teacher_x, teacher_w: ops.LigerFusedLinearJSDFunction.apply(
            x, w, teacher_x, teacher_w),
        fused_linear_kl_div=lambda BT, H, V: ops.LigerFusedLinearKLDivFunction.apply,
        **dict.fromkeys(("fused_moe", "fused_moe_tokens", "fused_moe_wide", "fused_moe_few"), lambda **_: ops.LigerFusedMoEFunction.apply),
        fused_ce_tvd=lambda R, N: ops.LigerFusedCETVDFunction.apply,
        fused_neighborhood_attention=lambda B, H, S, D, W: lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(
            q, k, v, W))


def quack(module: ModuleType) -> dict[str, Callable]:
    linear = import_module("quack.linear_cross_entropy")
    return dict(
        rms_norm=lambda R, N: lambda x, w: module.rmsnorm(x, w, eps=EPS),
        fused_add_rms_norm=lambda R, N: lambda x, r, w: module.rmsnorm(x, w, residual=r, eps=EPS, prenorm=True),
        softmax=lambda R, N: module.softmax,
        cross_entropy=lambda R, N: module.cross_entropy,
        fused_linear_cross_entropy=lambda BT, H, V: linear.chunked_linear_cross_entropy)


KERNELS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}  # by which PyTorch's attention runs


def by_kernel(kernel: SDPBackend, function: Callable) -> Callable:
    def run(*inputs):
        with sdpa_kernel(kernel):
            return function(*inputs)

    return run


def copies(tensors: list[Tensor] | None) -> list[Tensor] | None:
    return tensors and [x.clone() for x in tensors]


class Rivals:
    """Those that can be imported. missing: the others, with the reason."""

    def __init__(self):
        tables = {"liger": liger, "quack": quack}
        self.table = {}
        self.missing = []
        for name, module in MODULES.items():
            try:
                self.table[name] = tables[name](import_module(module))
            except ImportError as error:
                self.missing.append(f"{name}: {error}")

    def contestants(self, operator: str, sizes: dict[str, int], problem: Problem, mode: str) -> list[Contestant]:
        """They may overwrite what they are given, so each has inputs and upstream gradients of its own."""
        functions = {name: table[operator](**sizes) for name, table in self.table.items()
                     if operator in table and not (mode == "backward" and operator in GRADIENTS_IN_FORWARD.get(name, ()))}
        if operator.startswith("flash_attention"):
            functions |= {name: by_kernel(kernel, problem.function) for name, kernel in KERNELS.items()}
        found = []
        for name, function in functions.items():
            own = replace(problem, inputs=copies(problem.inputs))
            found.append(torch_contestant(name, own, function, mode, leaves(own), copies(problem.upstream)))
        return found
