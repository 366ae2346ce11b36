"""Feed-forward blocks as modules, of the names that they have in liger_kernel.transformers."""
import torch
from torch import nn

from tigon.liger import ops


def _check_activation(config):
    if config.hidden_act not in ("silu", "swish"):
        raise ValueError(f"the activation {config.hidden_act} is not supported, expected silu")


class _GatedMLP(nn.Module):
    """down(act(gate(x)) * up(x)), with the projections of Llama's."""

    def __init__(self, config, intermediate_size=None):
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.intermediate_size = intermediate_size or config.intermediate_size
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(self.activation(self.gate_proj(x), self.up_proj(x)))


class LigerGEGLUMLP(_GatedMLP):
    activation = staticmethod(ops.LigerGELUMulFunction.apply)

    def __init__(self, config):
        super().__init__(config)


class LigerSwiGLUMLP(_GatedMLP):
    activation = staticmethod(ops.LigerSiLUMulFunction.apply)

    def __init__(self, config, intermediate_size=None):
        super().__init__(config, intermediate_size)
        _check_activation(config)


class LigerMLP(LigerSwiGLUMLP):
    """The same as one operator."""

    def __init__(self, config):
        super().__init__(config)

    def forward(self, x):
        return ops.LigerMLPFunction.apply(x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)


class LigerFalconH1MLP(LigerMLP):
    """With Falcon-H1's multipliers."""

    def __init__(self, config):
        super().__init__(config)
        if getattr(config, "mlp_bias", False):
            raise ValueError("LigerFalconH1MLP takes no bias")
        self.gate_multiplier, self.down_multiplier = map(float, config.mlp_multipliers)

    def forward(self, x):
        weights = (self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)
        return ops.LigerMLPFunction.apply(x, *weights, self.gate_multiplier, self.down_multiplier)


class _TiledMLP(_GatedMLP):
    """In parts of the sequence, num_shards of them; None: as many as keep a part no longer than a row is wide."""

    activations = ()

    def __init__(self, config, num_shards=None):
        super().__init__(config)
        if getattr(config, "hidden_act", self.activations[0]) not in self.activations:
            raise ValueError(f"the activation {config.hidden_act} is not supported, expected {self.activations[0]}")
        self.num_shards = num_shards

    def forward(self, x):
        params = [p for p in self.parameters() if p.requires_grad]
        return ops.apply_tiled_mlp(_GatedMLP.forward, self, x, self.num_shards, params)


class LigerTiledGEGLUMLP(_TiledMLP):
    activation = staticmethod(ops.LigerGELUMulFunction.apply)
    activations = ("gelu_pytorch_tanh", "gelu", "gelu_new")


class LigerTiledSwiGLUMLP(_TiledMLP):
    activation = staticmethod(ops.LigerSiLUMulFunction.apply)
    activations = ("silu", "swish")


class LigerQwen3MoeSwiGLUMLP(LigerSwiGLUMLP):
    pass


class LigerHunyuanV1SwiGLUMLP(LigerSwiGLUMLP):
    def __init__(self, config, layer_idx=None, is_shared_mlp=False):
        super().__init__(config)
        self.layer_idx = layer_idx


class LigerFalconH1SwiGLUMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        _check_activation(config)
        self.config = config
        self.hidden_size, self.intermediate_size = config.hidden_size, config.intermediate_size
        bias = getattr(config, "mlp_bias", False)
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=bias)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=bias)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=bias)
        self.gate_multiplier, self.down_multiplier = map(float, config.mlp_multipliers)

    def forward(self, x):
        hidden = ops.LigerSiLUMulFunction.apply(self.gate_proj(x), self.up_proj(x), self.gate_multiplier, self.down_multiplier)
        return self.down_proj(hidden)


class LigerPhi3SwiGLUMLP(nn.Module):
    """Phi-3's, whose gate and up come from one projection."""

    def __init__(self, config):
        super().__init__()
        _check_activation(config)
        self.config = config
        self.hidden_size, self.intermediate_size = config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Linear(self.hidden_size, 2 * self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(ops.LigerFusedGateUpSiLUMulFunction.apply(self.gate_up_proj(x)))


class LigerBlockSparseTop2MLP(nn.Module):
    """An expert of older Mixtrals."""

    def __init__(self, config):
        super().__init__()
        _check_activation(config)
        self.ffn_dim, self.hidden_dim = config.intermediate_size, config.hidden_size
        self.w1 = nn.Linear(self.hidden_dim, self.ffn_dim, bias=False)
        self.w2 = nn.Linear(self.ffn_dim, self.hidden_dim, bias=False)
        self.w3 = nn.Linear(self.hidden_dim, self.ffn_dim, bias=False)

    def forward(self, x):
        return self.w2(ops.LigerSiLUMulFunction.apply(self.w1(x), self.w3(x)))


class LigerExperts(nn.Module):
    """All experts of a layer, their matrices in two tensors."""

    def __init__(self, config):
        super().__init__()
        _check_activation(config)
        counts = (getattr(config, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
        self.num_experts = next(n for n in counts if n is not None)
        self.intermediate_dim = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
        self.hidden_dim = config.hidden_size
        self.gate_up_proj = nn.Parameter(torch.empty(self.num_experts, 2 * self.intermediate_dim, self.hidden_dim))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, self.hidden_dim, self.intermediate_dim))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        x, index, weights = (t.reshape(-1, t.shape[-1]) for t in (hidden_states, top_k_index, top_k_weights))
        out = ops.LigerFusedMoEFunction.apply(x, self.gate_up_proj, self.down_proj, index, weights)
        return out.view(hidden_states.shape)
