"""Attention over sequences that the processes of a group share: keys and values go round, and each process sees all of them."""
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor

from tigon import _groups, ops
from tigon._devices import side_by_side
from tigon._once import differentiable_once
from tigon.torch.functional import overridable

__all__ = ["ring_attention", "ring_deal", "ring_collect"]

_ALL = slice(None)


class _Neighbours:
    """Hands tensors on to the next process, and takes those of the one before; like numbers of bytes, whatever their type is."""

    def __init__(self, group):
        self.group, self.size, self.here = group, dist.get_world_size(group), dist.get_rank(group)
        self.next, self.before = (dist.get_global_rank(group, (self.here + n) % self.size) if group is not None else (self.here + n) % self.size
                                  for n in (1, -1))

    def begin(self, tensors):
        """What comes, and what has to be waited for before it is there and what was handed on may be written again."""
        tensors = [t.contiguous() for t in tensors]
        come = [torch.empty_like(t) for t in tensors]
        calls = [dist.P2POp(dist.isend, t.view(torch.uint8), self.next, self.group) for t in tensors]
        calls += [dist.P2POp(dist.irecv, t.view(torch.uint8), self.before, self.group) for t in come]
        return come, (dist.batch_isend_irecv(calls), tensors)

    @staticmethod
    def end(under_way):
        for call in under_way[0]:
            call.wait()

    def sources(self):
        """Whose keys and values are here, turn by turn."""
        return [(self.here - turn) % self.size for turn in range(self.size)]


def _chunk_pairs(here, source, size):
    """(Half of the queries, half of the keys, by how many chunks the queries are further on)."""
    of = [(0, here), (1, 2 * size - 1 - here)]
    return [(a, b, at - key_at) for a, at in of for b, key_at in ((0, source), (1, 2 * size - 1 - source))]


def _part(half, chunk, start=0, end=None):
    return slice(half * chunk + start, half * chunk + (chunk if end is None else end))


def _windowed(here, source, size, chunk, window):
    """Blocks of one chunk of queries and one of keys, cut to where a window crosses them."""
    for a, b, further in _chunk_pairs(here, source, size):
        hidden = further * chunk - window  # a query of the block sees keys from so many behind its own place in it on
        if further == 0:
            yield _part(a, chunk), _part(b, chunk), {"causal": True, "window_left": window}, True
        elif further > 0 and hidden <= 0:
            yield _part(a, chunk), _part(b, chunk), {"window_left": -hidden}, False
        elif further > 0 and hidden < chunk:
            yield _part(a, chunk, 0, chunk - hidden), _part(b, chunk, hidden), {"window_left": 0}, False


def _blocks(here, source, size, chunk, causal, window):
    """What of the queries here sees what of the keys of a process: (rows, keys, options, whether it is the part that a sink is given to)."""
    own = source == here
    if size == 1:
        return [(_ALL, _ALL, {"causal": causal, "window_left": window}, True)]
    if not causal:
        return [(_ALL, _ALL, {}, own)]
    if window is not None:
        return list(_windowed(here, source, size, chunk, window))
    if own:
        return [(_ALL, _ALL, {"causal": True}, True)]
    return [(_ALL, _part(0, chunk), {}, False) if source < here else (_part(1, chunk), _ALL, {}, False)]


def _merge(y, lse, rows, part, part_lse):
    """Adds a partial result to those before it: each has the weight exp(lse)."""
    before = lse[:, :, rows]
    both = torch.logaddexp(before, part_lse)
    weights = [torch.where(both == -torch.inf, 0, torch.exp(x - both)).transpose(1, 2).unsqueeze(-1) for x in (before, part_lse)]
    y[:, rows].mul_(weights[0]).addcmul_(part, weights[1])
    lse[:, :, rows] = both


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sinks, group, causal, window, options):
        ring, chunk = _Neighbours(group), q.shape[1] // 2
        y = lse = None
        here = [k, v]
        for turn, source in enumerate(ring.sources()):
            come, under_way = ring.begin(here) if turn + 1 < ring.size else (None, ((),))
            for rows, keys, more, first in _blocks(ring.here, source, ring.size, chunk, causal, window):
                part, part_lse = ops.flash_attention_forward(q[:, rows], here[0][:, keys], here[1][:, keys], sinks=sinks if first else None,
                                                             lse=True, **more, **options)
                if y is None and rows is _ALL:
                    y, lse = part.float(), part_lse
                    continue
                if y is None:
                    y = q.new_zeros(*q.shape[:3], v.shape[3], dtype=torch.float32)
                    lse = q.new_full((q.shape[0], q.shape[2], q.shape[1]), -torch.inf, dtype=torch.float32)
                _merge(y, lse, rows, part, part_lse)
            ring.end(under_way)
            here = come
        y = y.to(q.dtype)
        ctx.save_for_backward(q, k, v, sinks, y, lse)
        ctx.ring, ctx.call = ring, (causal, window, options)
        return y

    @staticmethod
    @differentiable_once("ring_attention")
    def backward(ctx, dy):
        q, k, v, sinks, y, lse = ctx.saved_tensors
        ring, (causal, window, options), chunk = ctx.ring, ctx.call, q.shape[1] // 2
        dy = side_by_side(dy)
        dq, dsinks = None, None if sinks is None else torch.zeros_like(sinks, dtype=torch.float32)
        here, gradients, gone = [k, v], None, ((),)  # the gradients, in f32, go round with what they are of
        for turn, source in enumerate(ring.sources()):
            come, under_way = ring.begin(here) if turn + 1 < ring.size else (None, ((),))
            for rows, keys, more, first in _blocks(ring.here, source, ring.size, chunk, causal, window):
                given = {"sinks": sinks, "dsinks": True} if first and sinks is not None else {}
                got = ops.flash_attention_backward(dy[:, rows], q[:, rows], here[0][:, keys], here[1][:, keys], y[:, rows],
                                                   lse[:, :, rows].contiguous(), **given, **more, **options)
                ring.end(gone)  # only now are the sums so far needed
                gone = ((),)
                if dq is None and rows is _ALL:
                    dq, gradients = got[0].float(), [t.float() for t in got[1:3]]
                else:
                    if dq is None:
                        dq, *gradients = (torch.zeros_like(t, dtype=torch.float32) for t in (q, k, v))
                    dq[:, rows] += got[0]
                    gradients[0][:, keys] += got[1]
                    gradients[1][:, keys] += got[2]
                if given:
                    dsinks += got[3]
            ring.end(gone)
            ring.end(under_way)
            here = come
            if ring.size > 1:
                gradients, gone = ring.begin(gradients)
        ring.end(gone)
        dsinks = None if sinks is None else dsinks.to(sinks.dtype)
        return dq.to(q.dtype), gradients[0].to(k.dtype), gradients[1].to(v.dtype), dsinks, None, None, None, None


def _cut(name, length, size):
    if length % (2 * size):
        raise ValueError(f"{name}: {length} places, expected a multiple of {2 * size}, two chunks for each of {size} processes")
    return length // (2 * size)


@overridable
def ring_deal(x: Tensor, dim: int = 1, *, group: Optional[dist.ProcessGroup] = None) -> Tensor:
    """This process's places of a sequence that all have: of 2 n chunks, for n processes of `group` (None: all processes), the one of its
    rank and the one as far from the end, so that causal attention is as much work for each. The same of torch.arange(length) are its
    positions."""
    size, here = dist.get_world_size(group), dist.get_rank(group)
    chunk = _cut("ring_deal", x.shape[dim], size)
    return torch.cat([x.narrow(dim, at * chunk, chunk) for at in (here, 2 * size - 1 - here)], dim)


@overridable
def ring_collect(x: Tensor, dim: int = 1, *, group: Optional[dist.ProcessGroup] = None) -> Tensor:
    """The whole sequence, of what ring_deal() gave to each process; without a gradient."""
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.detach().contiguous(), group)
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([first for first, _ in halves] + [last for _, last in reversed(halves)], dim)


@overridable
def ring_attention(q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor] = None, *, group: Optional[dist.ProcessGroup] = None,
                   scale: Optional[float] = None, causal: bool = False, window_left: Optional[int] = None,
                   softcap: Optional[float] = None) -> Tensor:
    """flash_attention of sequences that outgrow one device: each process of `group` (None: all processes) has the places of q, k and v that
    ring_deal() gives to it, gets those of the result, and no process holds all keys and values.

    They go from each process to the next, n - 1 times for n processes, while attention to those that are there is computed. Partial results
    are combined by their lse, one after the other in the order in which they come; in backward the gradients of keys and values, in f32, go
    round with these. So bits are the same in each run, and differ from those of one process by the order of sums; with tensors of 16 bits
    partial results are rounded to their type as well. `causal` counts places of the whole sequence, and so does `window_left`, which needs
    it. Sinks are counted once; their gradient is that of this process's queries. `tigon.ops.flash_attention_forward` tells the options.
    """
    if window_left is not None and not causal:
        raise ValueError("ring_attention: window_left is given without causal, expected both")
    if not q.shape[1] == k.shape[1] == v.shape[1] or q.shape[1] % 2:
        raise ValueError(f"ring_attention: q, k and v have {q.shape[1]}, {k.shape[1]} and {v.shape[1]} places, expected one even number: two chunks")
    options = {"scale": scale, "softcap": softcap}
    return _groups.across(_RingAttention.apply, q, k, v, sinks, group, causal, window_left, options)
