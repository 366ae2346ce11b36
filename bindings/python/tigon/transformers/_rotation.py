"""Functions of transformers that rotate queries and keys: which of Tigon's operators computes what one of them does."""
import functools
import inspect
from typing import NamedTuple

import torch
from torch.fx import Proxy

import tigon.torch
from tigon.transformers import _probe
from tigon.transformers._plain import is_untouched, promoted, takes

# Calls of these are single nodes for torch.fx.
rope, llama4_rope, qwen2vl_mrope = tigon.torch.rope, tigon.torch.llama4_rope, tigon.torch.qwen2vl_mrope
for _name in ("rope", "llama4_rope", "qwen2vl_mrope"):
    torch.fx.wrap(_name)

HEADS_FIRST, HEADS_SECOND, NO_BATCH = "heads first", "heads second", "no batch"  # [B, H, S, D], [B, S, H, D], [S, H, D]


class Rotation(NamedTuple):
    """What a function computes. The tables have an angle of each pair in their first half, in every second column, or no other columns."""

    operator: str
    tensors: int  # one or two
    pairing: str = "halves"
    columns: str = "first"
    last: bool = False  # are the last elements of a row rotated, where the tables are narrower?
    layout: str = HEADS_FIRST
    promotes: bool = False  # is the result of the wider type of a tensor and the tables, or of that of the tensor?

    def __call__(self, tensors, tables, layout, sections=None):
        """The tensors rotated; None where that is not Tigon's."""
        if not all(isinstance(t, (torch.Tensor, Proxy)) for t in (*tensors, *tables)):
            return None
        if self.operator == "llama4_rope":
            if getattr(tables[0], "dtype", None) is not torch.complex64:
                return None
            tables = (torch.view_as_real(tables[0]).contiguous(),)
        if not takes(*tensors, *tables):
            return None
        if self.promotes:
            promoted_all = promoted(*tensors, *tables)
            tensors, tables = promoted_all[:len(tensors)], promoted_all[len(tensors):]
        elif len({t.dtype for t in tensors}) > 1:
            return None
        y = self._rotate([_to_operator(t, layout) for t in tensors], tables, layout, sections)
        y = [_from_operator(t, layout) for t in (y if len(tensors) == 2 else (y,))]
        return tuple(y) if len(y) == 2 else y[0]

    def _rotate(self, tensors, tables, layout, sections):
        q, k = tensors if len(tensors) == 2 else (*tensors, None)
        if self.operator == "llama4_rope":
            return llama4_rope(q, k, *tables)
        if self.operator == "qwen2vl_mrope":
            return qwen2vl_mrope(q, k, *tables, **dict(zip(("section_t", "section_h", "section_w"), sections)))
        cos, sin = tables
        width = cos.shape[-1] * 2 if self.columns == "all" else cos.shape[-1] // 2 * 2
        if self.columns == "second":
            cos, sin = cos[..., ::2], sin[..., ::2]
        start = q.shape[-1] - width if self.last else 0
        return rope(q, k, cos, sin, rotary_dim=width, rotary_start=start, pairing=self.pairing)


def _to_operator(t, layout):
    return t.transpose(1, 2) if layout == HEADS_FIRST else t[None] if layout == NO_BATCH else t


def _from_operator(t, layout):
    return t.transpose(1, 2) if layout == HEADS_FIRST else t[0] if layout == NO_BATCH else t


def _sizes(layout):
    """Shapes of two small tensors and of what stands for places in their tables."""
    if layout == NO_BATCH:
        return ((3, 4, 8), (3, 4, 8)), (3,)
    q, k = (2, 4, 3), (2, 2, 3)
    if layout == HEADS_SECOND:
        q, k = (2, 3, 4), (2, 3, 2)
    return ((*q, 8), (*k, 8)), (2, 3)


def _tables(rotation, places, width):
    """Small tables for so many rotated elements."""
    if rotation.operator == "llama4_rope":
        return (torch.view_as_complex(_probe.random(*places, width // 2, 2, seed=3)),)
    front = (3,) if rotation.operator == "qwen2vl_mrope" else ()
    tables = [_probe.random(*front, *places, width // 2, seed=seed) for seed in (3, 4)]
    if rotation.columns == "all":
        return tuple(tables)
    if rotation.columns == "second":
        return tuple(t.repeat_interleave(2, dim=-1) for t in tables)
    return tuple(torch.cat((t, t), dim=-1) for t in tables)


def _candidates(tensors):
    for layout in (HEADS_FIRST, HEADS_SECOND, NO_BATCH):
        for pairing, columns in (("halves", "first"), ("adjacent", "first"), ("adjacent", "second"), ("adjacent_to_halves", "first"),
                                 ("halves", "all"), ("adjacent", "all")):
            yield Rotation("rope", tensors, pairing, columns, layout=layout)
        yield Rotation("llama4_rope", tensors, layout=layout)
        if layout == HEADS_FIRST:
            yield Rotation("qwen2vl_mrope", tensors, layout=layout)


def _fits(function, rotation, width, dtypes=(torch.float32,) * 2, tolerance=1e-5):
    """Does the function compute this rotation of so many elements?"""
    shapes, places = _sizes(rotation.layout)
    tensors = [_probe.random(*shape, seed=seed, dtype=dtypes[0]) for seed, shape in enumerate(shapes[:rotation.tensors])]
    tables = _tables(rotation, places, width)
    if not tables[0].is_complex():
        tables = tuple(t.to(dtypes[1]) for t in tables)
    sections = ([1, 1, 2],) if rotation.operator == "qwen2vl_mrope" else ()
    expected = _probe.run(function, *tensors, *tables, *sections)
    return expected is not None and _probe.agree(_probe.run(rotation, tensors, tables, rotation.layout, *sections), expected, tolerance)


@functools.lru_cache(maxsize=None)
def recognise(function):
    """The rotation that a function computes with its further arguments as they are by default, None if that is not Tigon's."""
    arguments = inspect.signature(function).parameters.values()
    required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in arguments)
    for tensors in (2, 1):
        for rotation in _candidates(tensors):
            tables = 1 if rotation.operator == "llama4_rope" else 2
            if required != tensors + tables + (rotation.operator == "qwen2vl_mrope") or not _fits(function, rotation, 8):
                continue
            if rotation.operator == "rope" and not _fits(function, rotation, 4):
                rotation = rotation._replace(last=_fits(function, rotation._replace(last=True), 4))
            mixed = torch.bfloat16, torch.float32
            promotes = _fits(function, rotation._replace(promotes=True), 8, mixed, 3e-2)
            if promotes or _fits(function, rotation, 8, mixed, 3e-2):
                return rotation._replace(promotes=promotes)
    return None


def _layout_of(rotation, given, further):
    """Where the heads lie in a call with these arguments; None where that, or what a further one means, is not known."""
    if any(given[name] is not None for name in further):
        return None
    return {None: rotation.layout, 1: HEADS_FIRST, 2: HEADS_SECOND}.get(given.get("unsqueeze_dim"))


def replacement(function, rotation, called):
    """The function on Tigon; what its rotation does not cover it computes itself. `called` is the function, or a module around it, which is
    what runs once `kernels` has put another forward there."""
    parameters = inspect.signature(function).parameters
    names, defaults = tuple(parameters), {name: p.default for name, p in parameters.items()}
    tensors = names[:rotation.tensors]
    tables = names[rotation.tensors:rotation.tensors + (1 if rotation.operator == "llama4_rope" else 2)]
    further = tuple(n for n in names if n not in (*tensors, *tables, "unsqueeze_dim", "position_ids", "mrope_section"))

    @functools.wraps(function)
    def rotate(*args, **kwargs):
        if called is not function and not is_untouched(called):
            return called(*args, **kwargs)
        given = {**defaults, **dict(zip(names, args)), **kwargs}
        layout, sections = _layout_of(rotation, given, further), given.get("mrope_section")
        rotated = [given[name] for name in tensors]
        fits = layout is not None and (sections is None or len(sections) == 3) and _is_laid_out(rotated, layout)
        y = rotation(rotated, [given[name] for name in tables], layout, sections) if fits else None
        return function(*args, **kwargs) if y is None else y

    return rotate


def _is_laid_out(tensors, layout):
    """Have the tensors as many dimensions as the operator is given?"""
    if any(type(t) is Proxy for t in tensors):
        return layout != NO_BATCH
    return all(t.dim() == (3 if layout == NO_BATCH else 4) for t in tensors)
