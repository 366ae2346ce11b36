"""AdamW of parameters that are spread over processes (DTensor, as FSDP2 has them): each process updates the part it holds."""
import functools

import torch

from tigon.torch._library import library


def _alike(name, tensor, param):
    """tensor, spread as param is: a gradient may be brought there, state that is updated may not."""
    where = param.device_mesh, param.placements
    if getattr(tensor, "device_mesh", None) == where[0] and tensor.placements == where[1]:
        return tensor
    if name == "grad" and getattr(tensor, "device_mesh", None) == where[0]:
        return tensor.redistribute(*where)
    found = f"spread as {tensor.placements}" if hasattr(tensor, "placements") else "a plain tensor"
    raise ValueError(f"adamw: {name} is {found}, expected it spread as {param.placements}, as param is")


TENSORS = ("param", "grad", "m", "v", "master")


def _update(cls, operator, types, args, kwargs):
    given = {n: t for n, t in zip(TENSORS, args) if t is not None}
    param = given["param"]
    if not isinstance(param, cls) or any(p.is_partial() for p in param.placements):
        raise ValueError(f"adamw: param is {getattr(param, 'placements', 'a plain tensor')}, expected it spread as its state is, and no sum")
    parts = {n: _alike(n, t, param).to_local() for n, t in given.items()}
    operator(*(parts.get(n) for n in TENSORS[:len(args)]), *args[len(TENSORS):], **kwargs)
    torch.autograd.graph.increment_version([t for n, t in given.items() if n != "grad"])


@functools.cache
def register():
    """Told when the first such parameter is seen, since importing what there is of DTensor takes seconds."""
    from torch.distributed.tensor import DTensor

    torch.library.register_torch_dispatch("tigon::adamw", DTensor, _update, lib=library)
