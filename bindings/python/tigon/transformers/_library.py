"""What the library answers where attention asks whether a device has it."""
import functools

import torch

from tigon import _core

_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
_DEVICES = {"cpu": 1, "cuda": 2}  # DLPack's numbers
_LENGTH = 64  # stands for every length: a compiler does not know them


@functools.cache
def _takes(device, dtype, heads, key_heads, width, value_width, packed, bias, sinks, softcap, window, backward):
    shapes = {"q": (1, _LENGTH, heads, width), "k": (1, _LENGTH, key_heads, width), "v": (1, _LENGTH, key_heads, value_width)}
    types = dict.fromkeys(("q", "k", "v", "bias", "sinks"), _TYPES[dtype])
    if packed:
        shapes.update(cu_seqlens_q=(3,), cu_seqlens_k=(3,))
        types.update(cu_seqlens_q="i64", cu_seqlens_k="i64")
    if bias:
        shapes["bias"] = (1, heads, _LENGTH, _LENGTH)
    if sinks:
        shapes["sinks"] = (heads,)
    options = {"causal": True, "softcap": 1.0 if softcap else None, "window_left": 1 if window else None}
    number, _, card = device.partition(":")
    where = _DEVICES[number], int(card or 0)
    if not _core.takes("flash_attention_forward", *where, types, shapes, options):
        return False
    y = (1, _LENGTH, heads, value_width)
    shapes.update(y=y, dy=y, lse=(1, heads, _LENGTH))
    types.update(y=_TYPES[dtype], dy=_TYPES[dtype])
    return not backward or _core.takes("flash_attention_backward", *where, types, shapes, options)


@torch.compiler.assume_constant_result
def takes(device, dtype, heads, key_heads, width, value_width, packed=False, bias=False, sinks=False, softcap=False, window=False, backward=False):
    """Has the device flash_attention for tensors of such heads, with what is asked for?"""
    if dtype not in _TYPES or device.partition(":")[0] not in _DEVICES:
        return False
    return _takes(device, dtype, heads, key_heads, width, value_width, packed, bias, sinks, softcap, window, backward)


def takes_config(config, device, dtype, window, packed=False, bias=False):
    """The same of all layers of a model."""
    device = torch.device(device)
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    values = getattr(config, "v_head_dim", None) or width
    if getattr(config, "qk_nope_head_dim", None):  # latent attention, whose heads are two parts
        width = config.qk_nope_head_dim + config.qk_rope_head_dim
    softcap = getattr(config, "attn_logit_softcapping", None) is not None
    return takes(str(device), dtype, heads, getattr(config, "num_key_value_heads", None) or heads, width, values, packed=packed, bias=bias,
                 softcap=softcap, window=window is not None, backward=torch.is_grad_enabled())
