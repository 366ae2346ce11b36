"""The experts of a mixture where each process of a group has some of them: tokens go to the experts that they chose, and results come back."""
from typing import Any, Optional, Sequence, Union

import torch
import torch.distributed as dist
from torch import Tensor

from tigon import _groups, ops
from tigon._once import differentiable_once
from tigon.torch.functional import overridable
from tigon.torch.modules import FusedMoE

__all__ = ["expert_parallel_moe", "ExpertParallelMoE"]


PIECES = 2  # of a process's experts: rows of one go from process to process while another one is computed


class _Exchange:
    """Rows of tokens' slots, sorted by expert and thus by process, to where the experts are and back, a piece of each process's experts at a time. What
    a process gets for a piece lies in the order of the processes that it comes from. Nothing is waited for but by wait()."""

    def __init__(self, offset, experts, group):
        self.group, size, here = group, dist.get_world_size(group), dist.get_rank(group)
        begins = [sum(experts[:n]) for n in range(size)]
        cuts = [begin + count * p // PIECES for begin, count in zip(begins, experts) for p in range(PIECES)] + [sum(experts)]
        chosen = torch.empty(size, experts[here], dtype=torch.int64, device=offset.device)
        self.wait(self._start([(list(offset.diff().split(experts)), list(chosen))]))
        own = [experts[here] * p // PIECES for p in range(PIECES + 1)]
        self.experts = list(zip(own, own[1:]))
        # The sizes of messages have to be known to the host: one copy, which waits for the router.
        parts = [offset[torch.tensor(cuts, device=offset.device)].diff()] + [chosen[:, a:b].sum(1) for a, b in self.experts]
        every = torch.cat(parts).tolist()
        self.there = every[:size * PIECES]  # of each process each piece
        self.here = [every[size * p:size * (p + 1)] for p in range(PIECES, 2 * PIECES)]  # of each piece each process
        self.index = [torch.arange(b - a, device=offset.device).expand(size, -1).reshape(-1).repeat_interleave(chosen[:, a:b].reshape(-1), output_size=sum(n))
                      .view(-1, 1) for (a, b), n in zip(self.experts, self.here)]

    def _start(self, messages):
        """(gone, come): a tensor to each process and one from each; those without numbers are not sent."""
        here, calls = dist.get_rank(self.group), []
        for gone, come in messages:
            for other, (give, take) in enumerate(zip(gone, come)):
                if other == here:
                    take.copy_(give)
                    continue
                peer = other if self.group is None else dist.get_global_rank(self.group, other)
                if give.numel():
                    calls.append(dist.P2POp(dist.isend, give.contiguous().view(torch.uint8), peer, self.group))
                if take.numel():
                    calls.append(dist.P2POp(dist.irecv, take.view(torch.uint8), peer, self.group))
        return dist.batch_isend_irecv(calls) if calls else []

    @staticmethod
    def wait(calls):
        for call in calls:
            call.wait()

    def _pieces(self, rows):
        """Of rows in the order in which they go out, for each piece those of each process."""
        each = rows[:sum(self.there)].split(self.there)
        return [each[p::PIECES] for p in range(PIECES)]

    def out(self, *rows):
        """For each piece what comes of each of some tensors, and the calls to wait for."""
        for p, gone in enumerate(zip(*map(self._pieces, rows))):
            come = [r.new_empty(sum(self.here[p]), *r.shape[1:]) for r in rows]
            yield come, self._start([(g, c.split(self.here[p])) for g, c in zip(gone, come)])

    def room(self, like):
        """For what comes back of rows that went out."""
        return like.new_empty(sum(self.there), *like.shape[1:])

    def back(self, p, *pairs):
        """(rows of a piece, room): the calls to wait for."""
        return self._start([(rows.split(self.here[p]), self._pieces(room)[p]) for rows, room in pairs])


def _of(tensor, piece):
    return None if tensor is None else tensor[slice(*piece)]


class _ExpertParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate_up, down, index, weights, gate_up_bias, down_bias, group, experts, recompute, options):
        ctx.kept = not recompute and any(ctx.needs_input_grad)
        scaled = options.get("scale_input")
        slot, offset, place = ops.moe_route(index, experts=sum(experts), place=True)
        slot, k = slot.flatten(), index.shape[1]
        exchange = ctx.exchange = _Exchange(offset, experts, group)
        matrices, saved, calls = (gate_up, down, gate_up_bias, down_bias), [], []
        pieces = list(exchange.out(x[slot.clamp(min=0) // k], weights.flatten()[slot.clamp(min=0)].view(-1, 1)))
        results = exchange.room(pieces[0][0][0])
        for p, ((rows, factors), come) in enumerate(pieces):
            exchange.wait(come)
            up, back, up_bias, back_bias = (_of(m, exchange.experts[p]) for m in matrices)
            if not up.shape[0]:  # a single expert is no two pieces
                continue
            # Without scale_input a slot's result comes back as it is, and is weighted where it is added up.
            y, *order = ops.fused_moe_forward(rows, up, back, exchange.index[p], factors if scaled else torch.ones_like(factors), up_bias, back_bias,
                                              pre=ctx.kept, slot=True, offset=True, place=True, **options)
            calls += exchange.back(p, (y, results))
            saved += [rows, factors, *order]
        exchange.wait(calls)
        y = ops.moe_scatter_forward(results, place, None if scaled else weights)
        ctx.save_for_backward(gate_up, down, gate_up_bias, down_bias, slot, place, *saved)
        ctx.options, ctx.factors = options, weights.dtype
        return y

    @staticmethod
    @differentiable_once("expert_parallel_moe")
    def backward(ctx, dy):
        gate_up, down, gate_up_bias, down_bias, slot, place, *saved = ctx.saved_tensors
        exchange, needs, calls = ctx.exchange, ctx.needs_input_grad, []
        each = 6 if ctx.kept else 5  # rows, factors, [pre,] slot, offset, place
        matrices = {"dgate_up": (1, gate_up), "ddown": (2, down), "dgate_up_bias": (5, gate_up_bias), "ddown_bias": (6, down_bias)}
        got = {name: torch.empty_like(m) for name, (n, m) in matrices.items() if needs[n]}
        pieces = list(exchange.out(dy[slot.clamp(min=0) // place.shape[1]]))
        dx, factor = (exchange.room(t) for t in (dy, dy.new_empty(0, 1, dtype=ctx.factors)))
        for p, ((rows,), come) in enumerate(pieces):
            exchange.wait(come)
            piece = exchange.experts[p]
            if piece[0] == piece[1]:
                continue
            (x, factors, *order), saved = saved[:each], saved[each:]
            asked = {"dx": needs[0] and torch.empty_like(rows), "dweights": needs[4] and torch.empty_like(factors)}
            asked = {name: t for name, t in asked.items() if t is not False} | {name: _of(t, piece) for name, t in got.items()}
            ops.fused_moe_backward(rows, x, _of(gate_up, piece), _of(down, piece), factors, _of(gate_up_bias, piece), _of(down_bias, piece),
                                   *([] if ctx.kept else [None]), *order, **asked, **ctx.options)
            calls += exchange.back(p, *((asked[name], room) for name, room in (("dx", dx), ("dweights", factor)) if name in asked))
        exchange.wait(calls)
        if needs[0]:
            got["dx"] = ops.moe_scatter_forward(dx, place)
        if needs[4]:
            come = factor.view(-1)
            got["dweights"] = torch.cat([come, come.new_zeros(1)])[place.where(place >= 0, len(come))]
        return (got.get("dx"), got.get("dgate_up"), got.get("ddown"), None, got.get("dweights"), got.get("dgate_up_bias"),
                got.get("ddown_bias"), None, None, None, None)


def _counts_of(experts, here, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    experts = [here] * size if experts is None else list(experts)
    if len(experts) != size or experts[rank] != here:
        raise ValueError(f"expert_parallel_moe: experts is {experts}, expected a number for each of {size} processes, and {here} for this one, "
                         f"rank {rank}, as gate_up has them")
    return experts


@overridable
def expert_parallel_moe(x: Tensor, gate_up: Tensor, down: Tensor, index: Tensor, weights: Tensor, gate_up_bias: Optional[Tensor] = None,
                        down_bias: Optional[Tensor] = None, *, group: Optional[dist.ProcessGroup] = None,
                        experts: Optional[Sequence[int]] = None, recompute: bool = False, activation: Optional[str] = None,
                        limit: Optional[float] = None, alpha: Optional[float] = None, up_offset: Optional[float] = None,
                        interleaved: Optional[bool] = None, transposed: Optional[bool] = None, scale_input: Optional[bool] = None) -> Tensor:
    """fused_moe where each process of a group has some of the experts, and tokens of its own.

    x, index and weights are of this process's tokens, as many as it has; index names experts of the whole, or their number for none.
    gate_up, down and the biases are those of this process's experts, which follow on those of the processes before it: as many as everywhere,
    or, where processes have not equally many, experts[r] for process r of `group` (None: all processes). A row for each token and expert goes
    to the process that has the expert, and its result comes back; results are added up in the order of k, with their weights.

    So y, and the gradients of x and weights, are those of fused_moe with all experts in one process (with scale_input the gradient of x has a
    rounding more), and the gradients of gate_up, down and the biases those of all processes' tokens together, in the order of the
    processes: they are complete, not to be averaged. All processes call it, forward and backward, with tokens or without. A process computes one
    half of its experts while rows for the other one come, and what the first has made goes back meanwhile. The sizes of messages are read on
    the host, once in forward.
    `tigon.ops.fused_moe_forward` tells the options; recompute=True keeps no activations of experts but their inputs.
    """
    options = {"activation": activation, "limit": limit, "alpha": alpha, "up_offset": up_offset, "interleaved": interleaved,
               "transposed": transposed, "scale_input": scale_input}
    counts = _counts_of(experts, gate_up.shape[0], group)
    rows, choice, factors = x.reshape(-1, x.shape[-1]), index.reshape(-1, index.shape[-1]), weights.reshape(-1, weights.shape[-1])
    return _groups.across(_ExpertParallel.apply, rows, gate_up, down, choice, factors, gate_up_bias, down_bias, group, counts, recompute,
                          options).reshape(x.shape)


class _Group:
    """A process group, which copies of a module share."""

    def __init__(self, group):
        self.group = group

    def __deepcopy__(self, _):
        return self


class ExpertParallelMoE(FusedMoE):
    """FusedMoE whose num_experts experts the processes of a group share out: of n processes the r-th has those from r num_experts / n on,
    rounded down. Parameters are those of its own experts, from first_expert on; their gradients are not to be averaged. The addend is added to
    what the experts give, which has been rounded."""

    counts: Sequence[int]
    first_expert: int

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int, bias: bool = False, recompute: bool = False, *,
                 group: Optional[dist.ProcessGroup] = None, device: Union[torch.device, str, None] = None,
                 dtype: Optional[torch.dtype] = None, **options: Any) -> None:
        size, rank = dist.get_world_size(group), dist.get_rank(group)
        if num_experts < size:
            raise ValueError(f"ExpertParallelMoE: num_experts is {num_experts}, expected one for each of {size} processes at least")
        if "capacity" in options:
            raise TypeError("ExpertParallelMoE: there is no option capacity: processes do not know each other's tokens")
        begins = [num_experts * r // size for r in range(size + 1)]
        self.counts, self.first_expert = [b - a for a, b in zip(begins, begins[1:])], begins[rank]
        super().__init__(hidden_size, intermediate_size, self.counts[rank], bias, recompute, device=device, dtype=dtype, **options)
        self.shared = _Group(group)

    def forward(self, x: Tensor, index: Tensor, weights: Tensor, addend: Optional[Tensor] = None) -> Tensor:
        y = expert_parallel_moe(x, self.gate_up, self.down, index, weights, self.gate_up_bias, self.down_bias, group=self.shared.group,
                                experts=self.counts, **self.given())
        return y if addend is None else y + addend
