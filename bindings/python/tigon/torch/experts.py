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


class _Exchange:
    """Rows of tokens' slots, sorted by expert and thus by process, to where the experts are (`out`) and back. What a process gets lies in the
    order of the processes that it comes from."""

    def __init__(self, offset, experts, group):
        self.group, size, here = group, dist.get_world_size(group), dist.get_rank(group)
        begins = [sum(experts[:n]) for n in range(size + 1)]
        counts = offset.diff()
        chosen = torch.empty(size, experts[here], dtype=torch.int64, device=offset.device)
        self._to(list(counts.split(experts)), list(chosen), [experts[here]] * size)
        # The sizes of messages have to be known to the host: one copy, which waits for the router.
        every = torch.cat([offset[torch.tensor(begins, device=offset.device)].diff(), chosen.sum(1)]).tolist()
        self.there, self.here = every[:size], every[size:]
        local = torch.arange(experts[here], device=offset.device).expand(size, -1)
        self.index = local.reshape(-1).repeat_interleave(chosen.view(-1), output_size=sum(self.here)).view(-1, 1)

    def _to(self, gone, come, counts):
        """One message to each process and one from each; those without numbers are not sent."""
        here, calls = dist.get_rank(self.group), []
        for other, (give, take, count) in enumerate(zip(gone, come, counts)):
            if other == here:
                take.copy_(give)
                continue
            peer = other if self.group is None else dist.get_global_rank(self.group, other)
            if give.numel():
                calls.append(dist.P2POp(dist.isend, give.contiguous().view(torch.uint8), peer, self.group))
            if count:
                calls.append(dist.P2POp(dist.irecv, take.view(torch.uint8), peer, self.group))
        for call in dist.batch_isend_irecv(calls) if calls else ():
            call.wait()

    def _exchange(self, rows, gone, come):
        result = rows.new_empty(sum(come), *rows.shape[1:])
        self._to(list(rows.split(gone)), list(result.split(come)), come)
        return result

    def out(self, rows):
        return self._exchange(rows[:sum(self.there)], self.there, self.here)

    def back(self, rows):
        return self._exchange(rows, self.here, self.there)


class _ExpertParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate_up, down, index, weights, gate_up_bias, down_bias, group, experts, recompute, options):
        kept = not recompute and any(ctx.needs_input_grad)
        scaled = options.get("scale_input")
        slot, offset, place = ops.moe_route(index, experts=sum(experts), place=True)
        slot, k = slot.flatten(), index.shape[1]
        exchange = _Exchange(offset, experts, group)
        rows = exchange.out(x[slot.clamp(min=0) // k])
        factors = exchange.out(weights.flatten()[slot.clamp(min=0)]).view(-1, 1)
        # Without scale_input a slot's result comes back as it is, and is weighted where it is added up.
        y, *saved = ops.fused_moe_forward(rows, gate_up, down, exchange.index, factors if scaled else torch.ones_like(factors), gate_up_bias, down_bias,
                                          pre=kept, slot=True, offset=True, place=True, **options)
        y = ops.moe_scatter_forward(exchange.back(y), place, None if scaled else weights)
        ctx.save_for_backward(rows, gate_up, down, factors, gate_up_bias, down_bias, slot, place, *saved)
        ctx.exchange, ctx.options = exchange, options
        ctx.kept = kept
        return y

    @staticmethod
    @differentiable_once("expert_parallel_moe")
    def backward(ctx, dy):
        rows, gate_up, down, factors, gate_up_bias, down_bias, slot, place, *saved = ctx.saved_tensors
        saved = saved if ctx.kept else [None, *saved]
        exchange = ctx.exchange
        at = slot.clamp(min=0) // place.shape[1]
        needs = ctx.needs_input_grad
        asked = {"dx": needs[0], "dgate_up": needs[1], "ddown": needs[2], "dweights": needs[4], "dgate_up_bias": needs[5],
                 "ddown_bias": needs[6]}
        asked = {name: True for name, need in asked.items() if need}
        got = ops.fused_moe_backward(exchange.out(dy[at]), rows, gate_up, down, factors, gate_up_bias, down_bias, *saved, **asked, **ctx.options)
        got = dict(zip(asked, got if isinstance(got, tuple) else (got,)))
        if "dx" in got:
            got["dx"] = ops.moe_scatter_forward(exchange.back(got["dx"]), place)
        if "dweights" in got:
            come = exchange.back(got["dweights"].view(-1))
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
    processes: they are complete, not to be averaged. All processes call it, forward and backward, with tokens or without. The sizes of
    messages are read on the host, once in forward.
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
