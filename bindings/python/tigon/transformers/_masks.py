"""Masks of transformers as flash_attention needs them: which keys there are, where packed sequences begin, and a window, but no S x L numbers.

transformers hands a mask from a model to its attention as it is where that is a tensor of four dimensions, [.., window, .., ..]. Ours have types
that PyTorch's attention has no meaning for:

  KEYS     [B, 1 + W, 1 or 0, L]  causal, the last query beside the last of L keys; 0 in the first row of a batch: a key that is padding.
                                  Without a row there is no padding.
  FILLED   the same, of the first L places of a static cache, which has more behind them
  STARTS   [1, 1 + W, 1, N + 1]   causal, of N sequences in the rows of all batches one behind the other: where each begins

W is the window, 0 where there is none; its rows are one in memory. Every other mask is transformers' own for PyTorch's attention, or a
program's, which has a row for each query.
"""
import inspect

import torch
import transformers

try:
    from transformers.masking_utils import (
        and_masks, causal_mask_function, packed_sequence_mask_function, prepare_padding_mask, sdpa_mask, sliding_window_overlay,
    )
    from transformers.utils.import_utils import is_tracing
except ImportError:
    sdpa_mask = None

from tigon.transformers import MODEL_TYPES
from tigon.transformers._library import takes_config

if sdpa_mask is None or "q_length" not in inspect.signature(sdpa_mask).parameters:
    raise ImportError(f"tigon.transformers needs transformers 5.5 or newer, found {transformers.__version__}")

KEYS, FILLED, STARTS = torch.int8, torch.uint8, torch.int64
_ANDED = and_masks(causal_mask_function).__code__
# Functions of these, and of causality, are what a causal mask with a window or packed sequences is made of.
_PARTS = {causal_mask_function.__code__, sliding_window_overlay(1).__code__, packed_sequence_mask_function(torch.zeros(1, 1)).__code__}


def is_keys(mask):
    return mask is not None and mask.dtype in (KEYS, FILLED) and mask.shape[2] <= 1


def has_places_behind(mask):
    """Has the cache more places than the keys of this mask?"""
    return mask.dtype == FILLED


def is_starts(mask):
    return mask is not None and mask.dtype == STARTS and mask.shape[2] == 1


def window_of(mask):
    """How many keys, its own among them, a query sees; None where that is all before it."""
    return mask.shape[1] - 1 or None


def _with_window(mask, window):
    return mask.expand(-1, 1 + (window or 0), -1, -1)


def make(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=causal_mask_function, attention_mask=None, local_size=None,
         allow_is_causal_skip=True, use_vmap=False, device="cpu", dtype=torch.float32, config=None, **more):
    """As transformers' sdpa_mask."""
    causal = _is_causal(mask_function, use_vmap, config, more)
    alone = q_length == 1 and isinstance(q_offset, torch.Tensor)  # to a static cache: a row of keys is all that the usual mask is
    if causal and allow_is_causal_skip and not alone and not (isinstance(q_offset, torch.Tensor) and is_tracing(q_offset)):
        length = int(q_offset) + q_length - kv_offset
        padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
        mask = _keys(batch_size, length, padding, kv_offset, device, KEYS if length == kv_length else FILLED)
        window = local_size if local_size is not None and local_size < length else None
        plain = mask.shape[2] == 0 and window is None and length == kv_length and q_length in (1, kv_length)
        if plain or takes_config(config, device, dtype, window, bias=mask.shape[2] > 0):
            return None if plain and q_length == 1 else _with_window(mask, window)
    packed = causal and not allow_is_causal_skip and attention_mask is None and q_length == kv_length > 1 and isinstance(q_offset, int)
    if packed and takes_config(config, device, dtype, local_size, packed=True):
        return _with_window(_starts(mask_function, batch_size, q_length, device), local_size)
    return sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, local_size, allow_is_causal_skip,
                     use_vmap=use_vmap, device=device, dtype=dtype, config=config, **more)


def _is_causal(mask_function, use_vmap, config, more):
    """Is a mask, but for padding, causal, with a window or packed at most? Chunks and images whose pieces see each other are not."""
    if config is None or use_vmap or "allow_is_bidirectional_skip" in more:
        return False
    if config.model_type in MODEL_TYPES:  # theirs are, where nothing was put on top
        return mask_function is causal_mask_function or mask_function.__code__ is _ANDED
    return not torch.compiler.is_compiling() and causal_mask_function.__code__ in _parts_of(mask_function) <= _PARTS


def _parts_of(mask_function):
    """The codes of the functions whose intersection this one is."""
    code = getattr(mask_function, "__code__", None)
    if code is not _ANDED:
        return {code}
    return set().union(*(_parts_of(f) for cell in mask_function.__closure__ for f in cell.cell_contents))


def _keys(batch_size, length, padding, offset, device, kind):
    if padding is not None:
        padding = padding[:, offset:offset + length]
        if is_tracing(padding) or not padding.all():
            return padding.to(kind)[:, None, None, :]
    return torch.empty(1, 1, 0, length, dtype=kind, device=device)


def _starts(mask_function, batch_size, length, device):
    """A sequence begins where a place does not see the one before it."""
    places = torch.arange(length, device=device)[None]
    batches = torch.arange(batch_size, device=device)[:, None]
    joined = mask_function(batches, torch.zeros_like(batches), places[:, 1:], places[:, :-1]).expand(batch_size, -1)
    begins = torch.nn.functional.pad(joined.logical_not(), (1, 0), value=True).flatten()
    rows = batch_size * length
    if is_tracing(begins):  # how many there are is no matter of shapes: those that are not there are empty
        starts = torch.where(begins, torch.arange(rows, device=device), rows).sort().values
    else:
        starts = begins.nonzero().flatten()
    return torch.nn.functional.pad(starts, (0, 1), value=rows)[None, None, None, :]


def for_pytorch(mask, batches, queries, keys):
    """A mask as PyTorch's attention takes it, [B, 1, S, L] of bool: True where a query sees a key. None where it is causal and nothing else."""
    if is_starts(mask):
        keys = queries
        rows = torch.arange(batches * queries, device=mask.device)
        sequence = torch.searchsorted(mask[0, 0, 0].contiguous(), rows, right=True).view(batches, 1, queries)
        seen = sequence[..., :, None] == sequence[..., None, :]
        length = queries
    else:
        length = mask.shape[3]
        if mask.shape[2] == 0 and window_of(mask) is None and length == queries == keys:
            return None
        seen = mask[:, :1] != 0 if mask.shape[2] else mask.new_ones(1, 1, 1, length).bool()
        keys = keys if has_places_behind(mask) else length
        seen = torch.nn.functional.pad(seen, (0, keys - length))
    own = torch.arange(queries, device=mask.device)[:, None] + length - queries
    key = torch.arange(keys, device=mask.device)
    seen = seen & (key <= own)
    if window_of(mask) is not None:
        seen = seen & (key > own - window_of(mask))
    return seen.expand(batches, 1, queries, keys)
