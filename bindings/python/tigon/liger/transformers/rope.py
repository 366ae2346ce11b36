"""Rotary position embeddings, of the names that they have in liger_kernel.transformers."""
import torch

from tigon.liger import ops


def liger_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    return ops.LigerRopeFunction.apply(q, k, cos, sin, position_ids, unsqueeze_dim, rotary_dim)


def liger_rotary_pos_emb_vision(q, k, cos, sin):
    """q, k [S,H,D] and tables [S,D], rotated in f32."""
    heads_first = (x.float().unsqueeze(0).transpose(1, 2) for x in (q, k))
    rotated = liger_rotary_pos_emb(*heads_first, cos.float(), sin.float())
    return tuple(y.transpose(1, 2).squeeze(0).to(x.dtype) for y, x in zip(rotated, (q, k)))


def liger_multimodal_rotary_pos_emb(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
    return ops.LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, mrope_section, unsqueeze_dim)


def liger_llama4_text_rotary_pos_emb(xq, xk, freqs_cis):
    return ops.LigerLlama4RopeFunction.apply(xq, xk, freqs_cis)


def liger_llama4_vision_rotary_pos_emb(query, key, freqs_ci):
    """freqs_ci: complex, [S,D/2] with dimensions of 1 anywhere before the last; one of the real part is a table of cosines alone."""
    table = freqs_ci.reshape(-1, freqs_ci.shape[-1])
    return ops.LigerLlama4RopeFunction.apply(query, key, torch.complex(table, torch.zeros_like(table)) if not table.is_complex() else table)
