"""What processes of a group have in common: each has a slice of a vocabulary, and what is one number a row of the whole is made of theirs."""
import torch
import torch.distributed as dist

from tigon._imports import when_loaded


def of_all(group, *numbers):
    """Of each of some tensors of one shape: what every process has there, [processes, ...], the same bits in each. One exchange."""
    mine = torch.stack(numbers)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group)
    return torch.stack(parts, 1)


def across(function, *args):
    """Calls what processes exchange something within: no part of torch.compile's graphs. To be called as _groups.across."""
    return function(*args)


def _leave_out_of_graphs():
    global across
    across = torch.compiler.disable(across)


when_loaded("torch._dynamo", _leave_out_of_graphs)
