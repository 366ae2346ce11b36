"""What an operator does with tensors of PyTorch, of its description in _table.py: its kernel, shapes for tracing, vmap and autocast."""
import torch
from torch.autograd import forward_ad

from tigon import _core
from tigon._devices import KEYS, rows, side_by_side
from tigon._once import no_forward_mode
from tigon._outputs import main, make, traced_shapes
from tigon.torch._table import LOWERED


def refuse_tangents(name, tensors):
    """The tangent of a dual number would be lost."""
    if forward_ad._current_level < 0:
        return
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise no_forward_mode(name)


def _split(op, tensors):
    """The tensors of a call that the operator takes as such, and by name those that are options."""
    count = len(op.inputs) - len(op.drawn)
    return tensors[:count], {n: t for n, t in zip(op.drawn, tensors[count:]) if t is not None}


def check(name, given):
    """All tensors, which are by name, are on one device (PyTorch takes a call for one on `meta`, which computes nothing, if a single one is
    there), which is returned, and none has a tangent, which would be lost."""
    first = next(iter(given))
    device = given[first].device
    for n, t in given.items():
        if t.device != device:
            raise ValueError(f"{name}: {n} is on {t.device}, expected {device}, the device of {first}")
    refuse_tangents(name, given.values())
    return device


def named(op, tensors):
    return {n: t for n, t in zip(op.inputs, tensors) if t is not None}


# By the rule of an input's type in ops.def, the type that implementations take where it is not that of the call.
_TAKEN = {"INDEX": torch.int64, "REAL": torch.float32, "STAT": torch.float32, "W": torch.float32, "T_OR_F32": torch.float32}


def _native(rule, tensor, dtype):
    """A tensor as implementations take it: what the library does on other devices, and an NPU's backend cannot."""
    if rule == "MASK":
        tensor = tensor if tensor.dtype == torch.int64 else (tensor != 0).to(torch.int64)
    elif rule in _TAKEN and not (rule in ("W", "T_OR_F32") and tensor.dtype == dtype):
        tensor = tensor.to(_TAKEN[rule])
    return rows(tensor)


def _given(op, tensors):
    """The tensors of a call by name."""
    given = {n: t for n, t in zip(op.inputs, map(side_by_side, tensors)) if t is not None}
    first = main(op.name, given)
    return {n: _native(op.rules[n], t, first.dtype) for n, t in given.items()} if first.device.type == "npu" else given


def _wanted(op, given, options):
    """The outputs of a call, in their order."""
    return [n for n in op.outputs if (op.follows[n] in given if n in op.follows else n not in op.flags or options.get(n))]


def _rows_shape(op, given, options):
    """The shape of the output whose number of rows no input tells, by its name."""
    if not op.rows:
        return {}
    source, name, behind = op.rows
    return {name: (options[f"{source}_rows"], *given["dy"].shape[behind])}


def _shapes(op, given, options):
    """Shapes of the wanted outputs by name."""
    known = _rows_shape(op, given, options)
    known.update(traced_shapes(op.name, given, options, [n for n in _wanted(op, given, options) if n not in known]))
    return {n: known[n] for n in op.outputs if n in known}


def _all(op, given, made):
    """The outputs by name, and empty tensors for those that are not wanted: operators of PyTorch always return as many."""
    results = tuple([made[n] if n in made else next(iter(given.values())).new_empty(0) for n in op.outputs])
    return results[0] if len(results) == 1 else results


def _compute(op, tensors, options):
    """(The tensors of a call by name, the wanted outputs by name)."""
    tensors, drawn = _split(op, tensors)
    check(op.name, named(op, tensors))
    options = {**options, **{n: int(t) for n, t in drawn.items()}}
    given = _given(op, tensors)
    known = _rows_shape(op, given, options)
    wanted = _wanted(op, given, options)
    outputs = {n: True for n in wanted}
    outputs.update(zip(known, make(op.name, given, known)))
    results = _core.operators[op.name](**given, **outputs, **{n: v for n, v in options.items() if n in op.numbers})
    return given, dict(zip(wanted, results if len(wanted) != 1 else (results,)))


def kernel_of(op):
    return lambda *tensors, **options: _all(op, *_compute(op, tensors, options))


def compute_of(op):
    """compute(tensors, options): a tuple of all outputs, None for those that are not wanted."""
    function, inputs, numbers, count = _core.operators[op.name], op.inputs, op.numbers, len(op.outputs)
    always = [n for n in op.outputs if n not in op.flags and n not in op.follows]

    def of_any(tensors, options):
        made = _compute(op, [t if t is None else t.resolve_neg() for t in tensors], options)[1]
        return tuple([made.get(n) for n in op.outputs])

    def compute(tensors, options):
        given = {n: t if t.is_contiguous() and not t.is_neg() else side_by_side(t.resolve_neg())
                 for n, t in zip(inputs, tensors) if t is not None}
        if check(op.name, given).type == "npu":
            return of_any(tensors, options)
        asked = dict.fromkeys(always, True)
        for n, v in options.items():
            if n in numbers:
                given[n] = v
            elif v:
                asked[n] = True
        results = function(**given, **asked)
        if count == 1:
            return (results,)
        if len(always) == count:
            return results
        made = [n for n in op.outputs if n in asked or op.follows.get(n) in given]
        made = dict(zip(made, results if len(made) > 1 else (results,)))
        return tuple([made.get(n) for n in op.outputs])

    return of_any if op.drawn or op.rows else compute


def fake_of(op):
    def fake(*tensors, **options):
        tensors, _ = _split(op, tensors)
        given = named(op, tensors)
        check(op.name, given)
        shapes = _shapes(op, given, options)
        return _all(op, given, dict(zip(shapes, make(op.name, given, shapes))))
    return fake


def vmap_of(op):
    """One call for each entry of the batch; the results are stacked. Of an empty batch an entry of zeros tells their sizes."""
    target = getattr(torch.ops.tigon, op.name)

    def vmap(info, dimensions, *tensors, **options):
        size = info.batch_size

        def entry(i):
            return [t if d is None else t.select(d, i) if size else t.new_zeros(t.shape[:d] + t.shape[d + 1:])
                    for t, d in zip(tensors, dimensions)]
        results = [target(*entry(i), **options) for i in range(size or 1)]
        results = results if len(op.outputs) > 1 else [(r,) for r in results]
        stacked = tuple(torch.stack(r)[:size] for r in zip(*results))
        return (stacked, (0,) * len(stacked)) if len(stacked) > 1 else (stacked[0], 0)
    return vmap


def vmap_product_of(_op):
    """The batch is one dimension more of batched_gemm."""
    def vmap(info, dimensions, *factors, **options):
        a, b = (t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(factors, dimensions))
        return torch.ops.tigon.batched_gemm(a, b, **options), 0
    return vmap


def lowered(op, device, tensors):
    """The tensors of a call as autocast has them: products are computed in its type; elsewhere tensors that must be of one type get the
    widest of theirs."""
    given = dict(zip(op.inputs, tensors))
    mixed = [n for n in op.of_one_type if given.get(n) is not None and given[n].dtype != torch.float64]
    if op.family in LOWERED:
        to = torch.get_autocast_dtype(device)
    elif len({given[n].dtype for n in mixed}) > 1:
        to = torch.float32
    else:
        mixed = ()
    given.update({n: given[n].to(to) for n in mixed})
    return tuple(given.values())


def autocast_of(op, device):
    target = getattr(torch.ops.tigon, op.name)
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{KEYS[device]}"))

    def cast(*tensors, **options):
        given = lowered(op, device, tensors)
        with torch._C._ExcludeDispatchKeyGuard(key):
            return target(*given, **options)
    return cast
