"""The operators in torch.library, under the name tigon: kernels, shapes for tracing, gradients, vmap and autocast. Everything here is one
function for all operators, which are described in _table.py."""
import torch
from torch.autograd import forward_ad

from tigon import _core
from tigon._devices import KEYS, rows
from tigon._once import final, no_forward_mode, no_second_gradient
from tigon._outputs import SCHEMA, main, make, traced_shapes
from tigon.torch._table import FAMILIES, LOWERED, PRODUCTS, UPDATES, WHOLE, Operator



def _refuse_tangents(name, tensors):
    """The tangent of a dual number would be lost."""
    if forward_ad._current_level < 0:
        return
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise no_forward_mode(name)


class _Library(torch.library.Library):
    """Kernels do not see the tangents of torch.func's transforms; what PyTorch calls before them, for gradients, does."""

    def impl(self, name, function, key="", **options):
        def autograd(keyset, *tensors, **given):
            _refuse_tangents(name, tensors)
            return function(keyset, *tensors, **given)
        super().impl(name, autograd if key == "Autograd" else function, key, **options)


library = _Library("tigon", "DEF")
functions = {}  # the operators that have gradients
_NONE = {}  # the options of an operator that has none


def _check(name, inputs, tensors):
    """All tensors are on one device (PyTorch takes a call for one on `meta`, which computes nothing, if a single one is there), and none
    has a tangent, which would be lost."""
    given = [(n, t) for n, t in zip(inputs, tensors) if t is not None]
    first, device = given[0][0], given[0][1].device
    for n, t in given:
        if t.device != device:
            raise ValueError(f"{name}: {n} is on {t.device}, expected {device}, the device of {first}")
    _refuse_tangents(name, tensors)


def _readable(tensor):
    """The operators take any strides but in the last dimension."""
    if tensor is not None and tensor.dim() and tensor.stride(-1) > 1 and tensor.size(-1) > 1:
        return tensor.contiguous()
    return tensor


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
    given = {n: t for n, t in zip(op.inputs, map(_readable, tensors)) if t is not None}
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
    return _result(tuple(made[n] if n in made else next(iter(given.values())).new_empty(0) for n in op.outputs))


def _result(results):
    return results[0] if len(results) == 1 else results


def _kernel(op):
    function = _core.operators[op.name]
    names = {a["name"] for a in op.options}

    def kernel(*tensors, **options):
        _check(op.name, op.inputs, tensors)
        given = _given(op, tensors)
        known = _rows_shape(op, given, options)
        wanted = _wanted(op, given, options)
        outputs = {n: True for n in wanted}
        outputs.update(zip(known, make(op.name, given, known)))
        results = function(*map(given.get, op.all_inputs), **outputs, **{n: v for n, v in options.items() if n in names})
        return _all(op, given, dict(zip(wanted, results if len(wanted) != 1 else (results,))))
    return kernel


def _fake(op):
    def fake(*tensors, **options):
        _check(op.name, op.inputs, tensors)
        given = {n: t for n, t in zip(op.inputs, tensors) if t is not None}
        shapes = _shapes(op, given, options)
        return _all(op, given, dict(zip(shapes, make(op.name, given, shapes))))
    return fake


def _vmap(op):
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


def _vmap_product(_op):
    """The batch is one dimension more of batched_gemm."""
    def vmap(info, dimensions, *factors, **options):
        a, b = (t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(factors, dimensions))
        return torch.ops.tigon.batched_gemm(a, b, **options), 0
    return vmap


def _autocast(op, device):
    """Products are computed in autocast's type; elsewhere tensors that must be of one type get the widest of theirs."""
    target = getattr(torch.ops.tigon, op.name)
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{KEYS[device]}"))

    def cast(*tensors, **options):
        given = dict(zip(op.inputs, tensors))
        mixed = [n for n in op.of_one_type if given.get(n) is not None and given[n].dtype != torch.float64]
        if op.family in LOWERED:
            to = torch.get_autocast_dtype(device)
        elif len({given[n].dtype for n in mixed}) > 1:
            to = torch.float32
        else:
            mixed = ()
        given.update({n: given[n].to(to) for n in mixed})
        with torch._C._ExcludeDispatchKeyGuard(key):
            return target(*given.values(), **options)
    return cast


def _setup_context(family):
    forward, saved = family.forward, family.saved + family.in_forward

    def setup_context(ctx, inputs, output, keyword_only_inputs=_NONE):
        outputs = dict(zip(forward.outputs, output if isinstance(output, tuple) else (output,)))
        known = {**dict(zip(forward.inputs, inputs)), **outputs}
        ctx.save_for_backward(*(known[n] for n in saved))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(outputs[n] for n in family.constant))
        ctx.options = keyword_only_inputs
        ctx.like = {n: known[n] for n in family.upstream.values()}
        ctx.like = {n: (t.shape, t.dtype, t.device) for n, t in ctx.like.items()}
        ctx.sizes = known[family.backward.rows[0]].shape[0] if family.backward.rows else None
    return setup_context


def _upstream(ctx, family, gradients):
    """The gradients of outputs that backward takes, by the names it gives them: zeros for a required one that nothing depends on."""
    found = {}
    for d, name in family.upstream.items():
        given = gradients[family.forward.outputs.index(name)]
        if given is None and d not in family.backward.optional:
            shape, dtype, device = ctx.like[name]
            given = torch.zeros(shape, dtype=dtype, device=device)
        found[d] = given
    return found


def _scaled(gradient, upstream, again):
    """A gradient that forward computed for an upstream gradient of 1, times the one that came: in place where no other backward can
    read it again, since that of a head's weight is large."""
    upstream = upstream.to(gradient.dtype).reshape(1)  # (vmap of PyTorch's product takes no number of each entry of an empty batch)
    return gradient * upstream if again else gradient.mul_(upstream)


def _backward(family):
    forward, backward = family.forward, family.backward
    target = getattr(torch.ops.tigon, backward.name)
    names = {a["name"] for a in backward.options}

    def compute(needed, ctx, known, again):
        results = {d: _scaled(known[d], known["dloss"], again) for d in needed if ctx.options.get(d)}
        if needed - set(results):
            options = {n: v for n, v in ctx.options.items() if n in names}
            options.update({n: n in needed for n in backward.flags})
            if ctx.sizes is not None:
                options[f"{backward.rows[0]}_rows"] = ctx.sizes
            computed = target(*(known[n] for n in backward.inputs), **options)
            computed = computed if isinstance(computed, tuple) else (computed,)
            results = {**dict(zip(backward.outputs, computed)), **results}
        return results

    def gradient(needs, ctx, *gradients):
        known = dict(zip(family.saved + family.in_forward, ctx.saved_tensors))
        known.update({n: None for n in family.on_request if not ctx.options.get(n)})
        known.update(_upstream(ctx, family, gradients))
        needed = {family.gradients[n] for n, need in zip(forward.inputs, needs) if need and n in family.gradients}
        needed = {d for d in needed if d not in backward.follows or known[backward.follows[d]] is not None}
        again = torch.is_grad_enabled() or torch._C._autograd._get_current_graph_task_keep_graph()
        with torch.no_grad():
            results = compute(needed, ctx, known, again)
        results = tuple(results[family.gradients[n]] if family.gradients.get(n) in needed else None for n in forward.inputs)
        return final(family.name, results, known.values())
    return gradient


def argument(op, name, args, options):
    """An input of a call, None if it is not given."""
    at = op.inputs.index(name)
    return args[at] if at < len(args) else options.get(name)


def _differentiable(op, gradient, setup):
    """Gives an operator its gradient, gradient(needs, ctx, *gradients of outputs). The transforms of torch.func do not see what
    torch.library is told: under them it is an autograd.Function of options and tensors."""
    operator = getattr(torch.ops.tigon, op.name)
    torch.library.register_autograd(f"tigon::{op.name}", lambda ctx, *given: gradient(ctx.needs_input_grad, ctx, *given),
                                    setup_context=setup, lib=library)

    class Function(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(options, *tensors):
            return operator(*tensors, **options)

        @staticmethod
        def setup_context(ctx, inputs, output):
            setup(ctx, inputs[1:], output, inputs[0])

        @staticmethod
        def backward(ctx, *given):
            return None, *gradient(ctx.needs_input_grad[1:], ctx, *given)

        @staticmethod
        def jvp(ctx, *tangents):
            raise no_forward_mode(op.name)

    def call(*args, **options):
        if not torch._C._are_functorch_transforms_active():
            return operator(*args, **options)
        tensors = [argument(op, n, args, options) for n in op.inputs]
        return Function.apply({n: v for n, v in options.items() if n not in op.inputs}, *tensors)

    functions[op.name] = call


def _define(op):
    library.define(op.schema())
    for key in KEYS.values():
        library.impl(op.name, _kernel(op), key)
    torch.library.register_fake(f"tigon::{op.name}", _fake(op), lib=library)
    vmap = _vmap_product if op.name in PRODUCTS else _vmap
    torch.library.register_vmap(f"tigon::{op.name}", vmap(op), lib=library)


def _define_autocast(op):
    for device, key in KEYS.items():
        library.impl(op.name, _autocast(op, device), f"Autocast{key}")


def _define_product(name):
    """c = alpha op(a) op(b), whose gradients are products again."""
    op = Operator(name)
    _define(op)
    _define_autocast(op)

    def gemm(*factors, **options):
        return functions[name](*factors, **options)

    def setup_context(ctx, inputs, output, keyword_only_inputs=_NONE):
        ctx.save_for_backward(*inputs)
        ctx.options = keyword_only_inputs

    def gradient(needs, ctx, dc):
        (a, b), o = ctx.saved_tensors, ctx.options
        ta, tb, alpha = bool(o.get("trans_a")), bool(o.get("trans_b")), o.get("alpha")
        da = (gemm(b, dc, trans_a=tb, trans_b=True, alpha=alpha) if ta else gemm(dc, b, trans_b=not tb, alpha=alpha)) \
            if needs[0] else None
        db = (gemm(dc, a, trans_a=True, trans_b=ta, alpha=alpha) if tb else gemm(a, dc, trans_a=not ta, alpha=alpha)) \
            if needs[1] else None
        return da, db

    _differentiable(op, gradient, setup_context)


def _define_update(name):
    """An operator that updates tensors in place, and has no gradient. lr may be a tensor of one number, as optimizers of torch.optim take
    it: torch.compile compiles a call again for each value of a number."""
    tensors, updated, options = UPDATES[name]
    known = {a["name"]: a for a in SCHEMA[name]}
    rate = ["lr"] if "lr" in known else []
    required = [f"SymInt {n}" for n, a in known.items() if a["required"]]

    def declared(n):
        alias = f"({'abcd'[updated.index(n)]}!)" if n in updated else ""
        return f"Tensor{alias}? {n}=None" if n == "master" else f"Tensor{alias} {n}"
    arguments = [*map(declared, tensors), *(f"Tensor? {n}_tensor=None" for n in rate), "*", *required,
                 *(f"{'bool' if known[n]['choices'] else 'float'}? {n}=None" for n in [*rate, *options])]
    library.define(f"{name}({', '.join(arguments)}) -> ()")
    function = _core.operators[name]

    def split(given):
        """Tensors, and the learning rate where it is one."""
        return given[:len(tensors)], dict(zip(rate, given[len(tensors):]))

    def kernel(*given, **options):
        given, rates = split(given)
        _check(name, tensors, given)
        named = dict(zip(tensors, given))
        options.update({n: t.item() for n, t in rates.items() if t is not None})
        inputs = [named.pop(n) for n in tensors if n not in updated]
        function(*inputs, **named, **options)
        torch.autograd.graph.increment_version([t for t in named.values() if t is not None])

    def fake(*given, **options):
        _check(name, tensors, split(given)[0])

    for key in KEYS.values():
        library.impl(name, kernel, key)
    torch.library.register_fake(f"tigon::{name}", fake, lib=library)


def _define_whole(name):
    """Without a gradient."""
    op = Operator(name)
    _define(op)
    torch.library.register_autograd(f"tigon::{name}", _refuse_gradient(name), lib=library)


def _refuse_gradient(name):
    def gradient(ctx, *gradients):
        raise NotImplementedError(f"{name}: there is no gradient")
    return gradient


def _refuse(name):
    """The gradient of an operator that has none, called by itself."""
    def gradient(ctx, *gradients):
        raise no_second_gradient(name)
    return gradient


def _define_family(family):
    _define(family.forward)
    _define(family.backward)
    torch.library.register_autograd(f"tigon::{family.backward.name}", _refuse(family.name), lib=library)
    _define_autocast(family.forward)
    _differentiable(family.forward, _backward(family), _setup_context(family))


for _family in FAMILIES.values():
    _define_family(_family)
for _name in PRODUCTS:
    _define_product(_name)
for _name in WHOLE:
    _define_whole(_name)
for _name in UPDATES:
    _define_update(_name)
