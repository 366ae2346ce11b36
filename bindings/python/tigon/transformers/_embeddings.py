"""Embeddings of Hugging Face's models: their gradient is summed up on the card without the host, which PyTorch's asks how many there are."""
import torch
from torch import nn

from tigon._once import differentiable_once
from tigon.torch._direct import eager
from tigon.torch._library import direct_calls
from tigon.transformers import _probe
from tigon.transformers._classes import Part, makers, replacing
from tigon.transformers._plain import takes

_forward, _backward = direct_calls["embedding_forward"], direct_calls["embedding_backward"]
SCALE = "embed_scale"  # the buffer by which Gemma 3 and its kin multiply


class _Embedded(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(weight, ids, padding):
        return _forward(weight, ids)

    @staticmethod
    def setup_context(ctx, inputs, output):
        weight, ids, ctx.padding = inputs
        ctx.rows = weight.shape[0]
        ctx.save_for_backward(ids)

    @staticmethod
    @differentiable_once("embedding of a patched model")
    def backward(ctx, dy):
        (ids,) = ctx.saved_tensors
        dweight = _backward(dy.contiguous(), ids, weight_rows=ctx.rows)
        if ctx.padding is not None:
            dweight[ctx.padding].zero_()
        return dweight, None, None


embedded = eager(_Embedded)


def _embedding(module, ids, scaled):
    """The rows of ids; None where that is not Tigon's."""
    weight = module.weight  # once: it may be computed
    if not isinstance(ids, torch.Tensor) or ids.dtype not in (torch.int64, torch.int32) or not takes(weight) or ids.device != weight.device:
        return None
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse or not ids.dim():
        return None
    y = embedded(weight, ids.contiguous(), module.padding_idx)
    return y * getattr(module, SCALE).to(weight.dtype) if scaled else y


def recognise(module):
    """The part that an embedding is, None for what is none of Tigon's."""
    if not isinstance(module, nn.Embedding) or list(module._parameters) != ["weight"]:
        return None
    if type(module) is nn.Embedding:
        return Part("embedding", "embedding", (False,))
    scale = module._buffers.get(SCALE)
    if scale is None or scale.dim() or len(module._buffers) != 1:
        return None
    small = nn.Parameter(_probe.random(5, 6, seed=1), requires_grad=False)
    copy = _probe.twin(module, {"weight": small}, padding_idx=None, **{SCALE: torch.tensor(3.0, device="cpu")})
    ids = torch.tensor([[1, 4, 0]], device="cpu")
    found = _probe.run(type(module).forward, copy, ids)
    return Part("embedding", "embedding", (True,)) if found is not None and torch.equal(found, small[ids] * 3.0) else None


def forward(cls, settings):
    (scaled,) = settings
    return replacing(cls.forward, lambda module, ids: _embedding(module, ids, scaled))


makers.update(embedding=forward)
