"""Functions that stand in place of transformers' own, with their signatures."""
import torch
import torch.nn.functional as F

from tigon import torch as operators
from tigon.transformers._plain import promoted, takes


def _turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_transformers(q, k, cos, sin, unsqueeze_dim=1):
    """q and k, of heads before positions (unsqueeze_dim 1) or behind them (2), rotated by their positions' angles."""
    if not takes(q, k, cos, sin) or cos.dim() != 3 or unsqueeze_dim not in (1, 2) or cos.shape[-1] != q.shape[-1]:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin
    q, k, cos, sin = promoted(q, k, cos, sin)
    if unsqueeze_dim == 2:
        return operators.rope(q, k, cos, sin, rotary_dim=cos.shape[-1])
    q, k = operators.rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin, rotary_dim=cos.shape[-1])
    return q.transpose(1, 2), k.transpose(1, 2)


def _mean(loss, target, ignore_index):
    """The mean over no token is NaN in PyTorch."""
    return torch.where((target != ignore_index).any(), loss, torch.nan)


def ForCausalLMLoss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
    """The cross-entropy of each next token: in 32 bits, without a copy of the logits in 32 bits."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    logits, target = logits.reshape(-1, vocab_size), shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    if takes(logits) and target.dtype == torch.int64:
        loss = operators.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction).float()
    else:
        loss = F.cross_entropy(logits.float(), target, ignore_index=ignore_index, reduction=reduction)
    if num_items_in_batch is None:
        return _mean(loss, target, ignore_index)
    return loss / (num_items_in_batch.to(loss.device) if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch)


def attention(module, query, key, value, attention_mask, *args, **kwargs):
    """An implementation of transformers' attention, for its masks of PyTorch's attention and for those of register()."""
    from tigon.transformers import _attention

    return _attention.attention(module, query, key, value, attention_mask, *args, **kwargs)


def experts(module, hidden_states, top_k_index, top_k_weights, *args, **kwargs):
    """An implementation of transformers' ALL_EXPERTS_FUNCTIONS."""
    from tigon.transformers import _experts

    return _experts.forward(module, hidden_states, top_k_index, top_k_weights, *args, **kwargs)


for _function in (ForCausalLMLoss, apply_rotary_transformers, attention, experts):
    _function.can_torch_compile = True
    _function.has_backward = True
