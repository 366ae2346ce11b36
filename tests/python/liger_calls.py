"""A call of each autograd function of tigon.liger.ops that is made of operators; TiledMLP is made of any block."""
import torch

import tigon.liger.ops
from tigon.liger.ops._shared import Function


def normal(*shape):
    return torch.randn(*shape, requires_grad=True)


def liger_calls():
    """name: of hidden states [6,8], the arguments of a Function."""
    ids, angles, freqs = torch.randint(0, 8, (6,)), torch.rand(1, 3, 8), torch.randn(3, 4, dtype=torch.complex64)
    tables = torch.rand(3, 1, 3, 8)
    tokens, logp = torch.randint(0, 6, (2, 2)), torch.randn(2, 2) - 2
    other = torch.randn(6, 8)
    return {
        "RMSNorm": lambda x: (x, normal(8), 1e-6), "LayerNorm": lambda x: (x, normal(8), normal(8), 1e-6),
        "FusedAddRMSNorm": lambda x: (x, normal(6, 8), normal(8), 1e-6),
        "GroupNorm": lambda x: (x.view(2, 6, 4), normal(6), normal(6), 6, 3, 1e-6), "SiLUMul": lambda x: (x, normal(6, 8)),
        "GELUMul": lambda x: (x, normal(6, 8)), "FusedGateUpSiLUMul": lambda x: (x,), "ReLUSquared": lambda x: (x,),
        "AttnRes": lambda x: (x.view(3, 2, 8), normal(8), normal(8), 1e-6),
        "MHCCoeffs": lambda x: (x.view(3, 2, 8), normal(16, 8), normal(8), normal(1), normal(1), normal(1), True, 3, 1e-6, 0.0, 1e-6, 2.0),
        "MHCPre": lambda x: (x.view(3, 2, 8), normal(3, 2)),
        "MHCPostRes": lambda x: (x.view(3, 2, 8), normal(3, 8), normal(3, 2), normal(3, 2, 2)),
        "DyT": lambda x: (x, normal(1), normal(8), normal(8)), "PolyNorm": lambda x: (x, normal(3), normal(1)),
        "Softmax": lambda x: (x,), "Sparsemax": lambda x: (x, -1), "CrossEntropy": lambda x: (x, ids, None),
        "VocabParallelCE": lambda x: (x.view(3, 2, 8), ids.view(3, 2), None, -100, 0.1, "megatron", "global"),
        "FusedLinearCrossEntropy": lambda x: (x, normal(11, 8), ids),
        "FusedLinearScaledCrossEntropy": lambda x: (x, normal(11, 8), ids),
        "ModulatedRMSNorm": lambda x: (x, normal(8), normal(2, 8), normal(2, 8), 1e-6),
        "FusedLinearJSD": lambda x: (x, normal(11, 8), other, torch.randn(11, 8)),
        "FusedLinearKLDiv": lambda x: (x, normal(11, 8), torch.rand(6, 11).softmax(-1)), "FusedCETVD": lambda x: (x, other, ids),
        "MultiTokenAttention": lambda x: (x.view(3, 1, 4, 4), normal(1, 1, 1, 1)),
        "JSD": lambda x: (x, other.log_softmax(-1)), "KLDivLoss": lambda x: (x, other.softmax(-1)), "TVDLoss": lambda x: (x, other.softmax(-1)),
        "Grpo": lambda x: (x.view(2, 3, 8), logp, logp, tokens, torch.randn(2), None, 1.0, 0.04, 0.2, 0.4, False),
        "Embedding": lambda x: (x, tokens), "Rope": lambda x: (x.view(1, 2, 3, 8), normal(1, 1, 3, 8), angles.cos(), angles.sin()),
        "Llama4Rope": lambda x: (x.view(1, 3, 2, 8), normal(1, 3, 1, 8), freqs),
        "Qwen2VLMRope": lambda x: (x.view(1, 2, 3, 8), normal(1, 1, 3, 8), tables.cos(), tables.sin(), [1, 1, 2]),
        "FusedNeighborhoodAttention": lambda x: (x.view(1, 2, 3, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8), 3, 1, None),
    }


LIGER = liger_calls()
FUNCTIONS = {n.removeprefix("Liger").removesuffix("Function").removesuffix("Loss" * n.startswith("Grpo")): f
             for n, f in vars(tigon.liger.ops).items() if isinstance(f, type) and issubclass(f, Function) and f is not Function}
