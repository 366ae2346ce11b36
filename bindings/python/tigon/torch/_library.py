"""The operators in torch.library, under the name tigon: what _kernels.py makes of each, and gradients. Everything here is one function for
all operators, which are described in _table.py."""
import torch

from tigon import _core
from tigon._devices import KEYS
from tigon._once import final, no_forward_mode, no_second_gradient
from tigon._outputs import SCHEMA
from tigon.torch._direct import differentiable, direct, is_watched
from tigon.torch._kernels import autocast_of, check, fake_of, kernel_of, refuse_tangents, vmap_of, vmap_product_of
from tigon.torch._table import FAMILIES, PRODUCTS, REPEATED, SHARED, UPDATES, WHOLE, Operator


class _Library(torch.library.Library):
    """Kernels do not see the tangents of torch.func's transforms; what PyTorch calls before them, for gradients, does."""

    def impl(self, name, function, key="", **options):
        def autograd(keyset, *tensors, **given):
            refuse_tangents(name, tensors)
            return function(keyset, *tensors, **given)
        super().impl(name, autograd if key == "Autograd" else function, key, **options)


library = _Library("tigon", "DEF")
functions = {}  # the operators, with their gradients
direct_calls = {}  # and without
_NONE = {}  # the options of an operator that has none


def _setup_context(family):
    forward, saved = family.forward, family.saved + family.in_forward

    def setup_context(ctx, inputs, output, keyword_only_inputs=_NONE):
        outputs = dict(zip(forward.outputs, output if isinstance(output, tuple) else (output,)))
        known = {**dict(zip(forward.inputs, inputs)), **outputs}
        ctx.save_for_backward(*(known[n] for n in saved))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(outputs[n] for n in family.constant if outputs[n] is not None))
        ctx.options = keyword_only_inputs
        ctx.like = {n: (t.shape, t.dtype, t.device) for n in family.upstream.values() if (t := known[n]) is not None}
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
    upstream = upstream.to(gradient.dtype)
    if again or is_watched():
        upstream = upstream.reshape(1)  # (vmap of PyTorch's product takes no number of each entry of an empty batch)
        return gradient * upstream if again else gradient.mul_(upstream)
    torch._foreach_mul_([gradient], upstream.reshape(()))  # mul_() by a number on a card reads element by element
    return gradient


def _repeated(known, options, rows):
    """The upstream gradient, scaled, for each of so many rows: all of them are one in memory."""
    dy, factor, scale = known["dy"], known["factor"], options.get("scale")
    if factor is not None:
        dy = (dy.float() * factor.float() * (1 if scale is None else scale)).to(dy.dtype)
    elif scale is not None:
        dy = dy * scale
    return dy.expand(rows, *dy.shape)


def _backward(family):
    forward, backward = family.forward, family.backward
    target = direct_calls[backward.name]
    names = {a["name"] for a in backward.options}

    def compute(needed, ctx, known, again):
        results = {d: _scaled(known[d], known["dloss"], again) for d in needed if ctx.options.get(d)}
        results.update({d: known[d] for d in needed if d in family.upstream})
        if family.name in REPEATED:
            results[REPEATED[family.name]] = _repeated(known, ctx.options, ctx.sizes)
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
        if family.name in SHARED and gradients[0] is None:  # the sum alone has a gradient, of which no parameter is part
            needed &= set(SHARED[family.name].values())
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
    eager = differentiable(op, operator, gradient, setup)
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
            return eager(*args, **options)
        tensors = [argument(op, n, args, options) for n in op.inputs]
        return Function.apply({n: v for n, v in options.items() if n not in op.inputs}, *tensors)

    functions[op.name] = call


def _define(op):
    library.define(op.schema())
    direct_calls[op.name] = direct(op, getattr(torch.ops.tigon, op.name))
    for key in KEYS.values():
        library.impl(op.name, kernel_of(op), key)
    torch.library.register_fake(f"tigon::{op.name}", fake_of(op), lib=library)
    vmap = vmap_product_of if op.name in PRODUCTS else vmap_of
    torch.library.register_vmap(f"tigon::{op.name}", vmap(op), lib=library)


def _define_autocast(op):
    for device, key in KEYS.items():
        library.impl(op.name, autocast_of(op, device), f"Autocast{key}")


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
        named = dict(zip(tensors, given))
        check(name, {n: t for n, t in named.items() if t is not None})
        options.update({n: t.item() for n, t in rates.items() if t is not None})
        inputs = [named.pop(n) for n in tensors if n not in updated]
        function(*inputs, **named, **options)
        torch.autograd.graph.increment_version([t for t in named.values() if t is not None])

    def fake(*given, **options):
        check(name, {n: t for n, t in zip(tensors, split(given)[0]) if t is not None})

    for key in KEYS.values():
        library.impl(name, kernel, key)
    torch.library.register_fake(f"tigon::{name}", fake, lib=library)


def _define_whole(name):
    """Without a gradient."""
    op = Operator(name)
    _define(op)
    torch.library.register_autograd(f"tigon::{name}", _refuse_gradient(name), lib=library)
    functions[name] = direct_calls[name]


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
