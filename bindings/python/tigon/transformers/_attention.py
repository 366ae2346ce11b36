"""flash_attention as an attention implementation of transformers, with its masks (_masks.py). What the library does not take, in these types
and on this device, is PyTorch's."""
import functools
import inspect

import torch
from torch.fx import Proxy
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import tigon.torch
from tigon.transformers import _library, _mask_readers, _masks
from tigon.transformers._plain import autocast_type, has_hooks_within, takes


class _Call:
    """Attention as a layer asks for it."""

    def __init__(self, module, query, key, value, mask, is_causal, softcap, sinks):
        self.tensors, self.softcap, self.sinks = (query, key, value), softcap or None, sinks
        self.queries, self.keys = query.shape[2], key.shape[2]
        self.mask, self.window, self.bias, self.starts = mask, None, None, None
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        if mask is None:
            self.causal = causal and self.queries > 1
            if self.causal and self.keys > self.queries:  # the places of a static cache behind those that are filled
                self.keys = self.queries
        elif _masks.is_keys(mask):
            self.causal, self.keys, self.window = True, mask.shape[3], _masks.window_of(mask)
            self.bias = mask[:, :1] != 0 if mask.shape[2] else None
        elif _masks.is_starts(mask):
            self.causal, self.starts, self.window = True, mask[0, 0, 0], _masks.window_of(mask)
        else:
            self.causal, self.bias = False, mask

    def is_taken(self):
        given = [*self.tensors, *(t for t in (self.sinks, self.bias, self.starts) if t is not None)]
        query, key, value = self.tensors
        if any(type(t) is Proxy for t in given) or not takes(*self.tensors):
            return False
        lowered = autocast_type(query)
        if lowered is None and not query.dtype == key.dtype == value.dtype:
            return False
        dtype, biased = lowered or query.dtype, self.bias is not None
        if biased and self.bias.dtype not in (torch.bool, query.dtype) or biased and self.bias.requires_grad:
            return False
        if self.keys > key.shape[2] or _masks.is_keys(self.mask) and not _masks.has_places_behind(self.mask) and self.keys < key.shape[2]:
            return False  # PyTorch's error says so
        if self.causal and self.queries > self.keys or any(t.device != query.device for t in given):
            return False
        backward = torch.is_grad_enabled() and any(t.requires_grad for t in given)
        return _library.takes(str(query.device), dtype, query.shape[1], key.shape[1], query.shape[3], value.shape[3],
                              packed=self.starts is not None, bias=biased, sinks=self.sinks is not None, softcap=self.softcap is not None,
                              window=self.window is not None, backward=backward)

    def run(self, scaling):
        batches = self.tensors[0].shape[0]
        q, k, v = (x.transpose(1, 2) for x in self.tensors)
        if self.starts is not None:
            q, k, v = (x.reshape(1, -1, *x.shape[2:]) for x in (q, k, v))
        elif self.keys < k.shape[1]:
            k, v = k[:, :self.keys], v[:, :self.keys]
        sinks = None if self.sinks is None else self.sinks.to(torch.float32) if autocast_type(q) is not None else self.sinks
        y = tigon.torch.flash_attention(q, k, v, self.starts, self.starts, self.bias, sinks, scale=scaling, causal=self.causal,
                                        window_left=None if self.window is None else self.window - 1, softcap=self.softcap)
        return y if self.starts is None else y.view(batches, self.queries, *y.shape[2:])


def _own(key, value, mask, queries):
    """The keys and values that a mask is for. Where torch.utils.checkpoint runs a layer again, its cache has those of the first time in front."""
    for_all = _masks.is_starts(mask) or _masks.is_keys(mask) and not _masks.has_places_behind(mask) and mask.shape[3] == queries
    if not for_all or key.shape[2] <= queries:
        return key, value
    return key[:, :, -queries:], value[:, :, -queries:]


def _eager(module, query, key, value, mask, is_causal, **options):
    """The attention of the module's own model, written out, which gives the probabilities as well. It knows no causality but a mask's."""
    queries, keys = query.shape[2], key.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if mask is None and causal and queries > 1:
        mask = query.new_ones(queries, keys, dtype=torch.bool).tril()[None, None]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.logical_not(), torch.finfo(query.dtype).min)
    return inspect.getmodule(type(module)).eager_attention_forward(module, query, key, value, mask, **options)


def _of_pytorch(module, query, key, value, mask, dropout, scaling, is_causal, special, kwargs):
    if _masks.is_keys(mask) or _masks.is_starts(mask):
        mask = _masks.for_pytorch(mask, query.shape[0], query.shape[2], key.shape[2])
    if special and (mask is None or mask.dtype == torch.bool or mask.is_floating_point()):
        return _eager(module, query, key, value, mask, is_causal, dropout=dropout, scaling=scaling, **special, **kwargs)
    return sdpa_attention_forward(module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs)


@functools.wraps(sdpa_attention_forward)
def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, position_bias=None, softcap=None,
              s_aux=None, **kwargs):
    if not torch.compiler.is_compiling():
        _mask_readers.check(module)
    key, value = _own(key, value, attention_mask, query.shape[2])
    if position_bias is None and not dropout and not kwargs.get("output_attentions"):
        call = _Call(module, query, key, value, attention_mask, is_causal, softcap, s_aux)
        if call.is_taken():
            y = call.run(scaling)
            # Backward needs the result as it is: a hook of the layer's last product gets a copy.
            return y.clone() if y.requires_grad and has_hooks_within(module) else y, None
    special = {name: given for name, given in (("softcap", softcap), ("s_aux", s_aux)) if given is not None}
    more = {} if position_bias is None else {"position_bias": position_bias}
    return _of_pytorch(module, query, key, value, attention_mask, dropout, scaling, is_causal, special, {**kwargs, **more})
