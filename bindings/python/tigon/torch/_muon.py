"""The step of Muon for matrices of one shape: their momenta, which are orthogonalised as one batch, and their updates. Of matrices that are
spread over processes (DTensor, as FSDP2 has them) each process has the momentum and the update of the part that it holds, and orthogonalises
its share of the whole matrices."""
import math

import torch
import torch.distributed as dist

from tigon.torch.functional import newton_schulz, rate


def _most(device):
    """Elements of a batch, of which there are three buffers. Products of four matrices of 8192 x 2048 leave a fifth of a card idle at their end."""
    return 1 << (26 if device.type == "cpu" else 28)


def _factor(shape, adjust):
    """What the learning rate is multiplied with for the update."""
    rows, columns = shape
    return 0.2 * math.sqrt(max(rows, columns)) if adjust == "match_rms_adamw" else math.sqrt(max(1, rows / max(1, columns)))


def product_type(param):
    """The type of products: bf16 for parameters of f32, which need no more."""
    return torch.bfloat16 if param.dtype == torch.float32 else param.dtype


def _kind(param):
    """Matrices of one kind are one batch."""
    spread = (param.device_mesh, param.placements) if hasattr(param, "placements") else None
    return tuple(param.shape), param.dtype, param.device, spread


def batches(params):
    """Lists of parameters of one kind, in an order that is the same in all processes."""
    kinds = {}
    for param in params:
        kinds.setdefault(_kind(param), []).append(param)
    for (shape, _, device, _), found in kinds.items():
        together = max(1, _most(device) // max(1, math.prod(shape)))
        yield from (found[i:i + together] for i in range(0, len(found), together))


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "placements") else tensor


def _alike(name, tensor, param):
    """A gradient may be brought where param is, state that is updated may not."""
    where = getattr(param, "placements", None)
    if getattr(tensor, "placements", None) == where:
        return tensor
    if name == "grad" and where and hasattr(tensor, "placements"):
        return tensor.redistribute(param.device_mesh, where)
    raise ValueError(f"Muon: {name} is spread as {getattr(tensor, 'placements', None)}, expected {where}, as its parameter is")


def _orthogonal(updates, params, options):
    """Directions of the parts that this process holds. Whole matrices are one batch; of others each process of the mesh takes every n-th
    one, whose direction it gives to the others."""
    if not hasattr(params[0], "placements"):
        return newton_schulz(updates, **options)
    from torch.distributed.tensor import DTensor, Replicate

    mesh, placements = params[0].device_mesh, params[0].placements
    if any(p.is_partial() for p in placements):
        raise ValueError(f"Muon: a parameter is spread as {placements}, expected no sum")
    everywhere = [Replicate()] * mesh.ndim
    shape, stride = params[0].shape, params[0].stride()
    whole = torch.stack([DTensor.from_local(u, mesh, placements, run_check=False, shape=shape, stride=stride).full_tensor() for u in updates])
    whole = _shared(whole, mesh, options)
    return [DTensor.from_local(x, mesh, everywhere, run_check=False).redistribute(mesh, placements).to_local() for x in whole]


def _shared(whole, mesh, options):
    """Each process of the mesh's first dimension orthogonalises its share; those beside it do the same."""
    group, count = mesh.get_group(0), mesh.size(0)
    each = -(-whole.shape[0] // count)
    if whole.shape[0] < count:  # too few to share
        return newton_schulz(whole, **options)
    first = dist.get_rank(group) * each
    mine = whole.new_zeros(each, *whole.shape[1:])
    taken = whole[first:first + each]
    if taken.shape[0]:
        mine[:taken.shape[0]] = newton_schulz(taken, **options)
    gathered = whole.new_empty(each * count, *whole.shape[1:])
    dist.all_gather_into_tensor(gathered, mine, group=group)
    return gathered[:whole.shape[0]]


def step(params, momenta, group):
    """One step of parameters of one kind."""
    parts = [_local(p) for p in params]
    kind = {"dtype": product_type(parts[0]), "device": parts[0].device}
    plain = None if group["nesterov"] else True
    a, b, c = group["ns_coefficients"]
    spread = hasattr(params[0], "placements")
    updates = [torch.empty(p.shape, **kind) for p in parts] if spread else torch.empty((len(parts), *parts[0].shape), **kind)
    for param, m, update in zip(params, momenta, updates):
        grad = _local(_alike("grad", param.grad, param))
        torch.ops.tigon.muon_momentum(grad, _local(_alike("momentum_buffer", m, param)), update, momentum=group["momentum"], plain=plain)
    directions = _orthogonal(updates, params, {"eps": group["eps"], "a": a, "b": b, "c": c, "steps": group["ns_steps"]})
    options = {"weight_decay": group["weight_decay"], "factor": _factor(params[0].shape, group["adjust_lr_fn"]), **rate(group["lr"])}
    for part, direction, update in zip(parts, directions, updates):
        if part.dtype == kind["dtype"]:
            torch.ops.tigon.muon_update(part, direction, **options)
        else:  # the parameter is the master of one in the products' type, which is not kept
            torch.ops.tigon.muon_update(update, direction, part, **options)
