"""Calls past PyTorch's dispatcher, which takes longer to reach an operator that is registered from Python than the operator takes to start
on a card. The same is computed; an operator of torch.library is called where anybody looks on who would not see it otherwise."""
import torch

from tigon._devices import KEYS
from tigon.torch._kernels import compute_of, lowered

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, type(None)))
_modes, _functions = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_transforms, _autocast, _traces = torch._C._are_functorch_transforms_active, torch._C._is_any_autocast_enabled, torch._C._get_tracing_state
_profiled = torch._C._autograd._profiler_enabled


def is_watched():
    """Does a compiler, a mode, a transformation or a profiler look on at what is computed?"""
    return torch.compiler.is_compiling() or _modes() or _functions() or _transforms() or _profiled() or _traces() is not None


def _arguments(op, args, options):
    """(The tensors of a call in the order of the operator's inputs, its options), None where they are not so that this call is Tigon's."""
    if len(args) < len(op.inputs):
        args = (*args, *[options.get(n) for n in op.inputs[len(args):]])
        options = {n: v for n, v in options.items() if n not in op.inputs}
    if len(args) > len(op.inputs) or not _PLAIN.issuperset(map(type, args)) or not op.known.issuperset(options):
        return None
    first = args[0]
    if first is None or first.device.type not in KEYS:
        return None
    if op.has_autocast and _autocast() and torch.is_autocast_enabled(first.device.type):
        args = lowered(op, first.device.type, args)
    return args, options


def direct(op, target):
    """torch.ops.tigon's operator as a function of tensors that need no gradient. What is not asked for may be None."""
    compute, alone = compute_of(op), len(op.outputs) == 1

    def call(*args, **options):
        given = None if is_watched() or torch.is_grad_enabled() else _arguments(op, args, options)
        if given is None:
            return target(*args, **options)
        results = compute(*given)
        return results[0] if alone else results

    return call


def differentiable(op, target, gradient, setup):
    """The same of tensors that may need a gradient: gradient(needs, ctx, *gradients of outputs), setup(ctx, inputs, output, options)."""
    compute, alone = compute_of(op), len(op.outputs) == 1

    def forward(ctx, options, *tensors):
        results = compute(tensors, options)
        results = results[0] if alone else results
        setup(ctx, tensors, results, options)
        return results

    def backward(ctx, *given):
        return None, *gradient(ctx.needs_input_grad[1:], ctx, *given)

    function = type(op.name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    needs = torch._C._any_requires_grad

    def call(*args, **options):
        given = None if is_watched() else _arguments(op, args, options)
        if given is None:
            return target(*args, **options)
        tensors, options = given
        if torch.is_grad_enabled() and needs(*tensors):
            return function.apply(options, *tensors)
        results = compute(tensors, options)
        return results[0] if alone else results

    return call


def eager(cls):
    """apply() of an autograd.Function that has setup_context(), for which PyTorch looks at the signature of forward at each call: where
    neither a compiler nor a transformation asks for that form, it is called in the other one. There the gradient of an output on which
    nothing depends is None."""
    def forward(ctx, *inputs):
        ctx.set_materialize_grads(False)
        output = cls.forward(*inputs)
        cls.setup_context(ctx, inputs, output)
        return output

    twin = type(cls.__name__, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(cls.backward)})

    def apply(*inputs):
        return (cls if torch.compiler.is_compiling() or _transforms() else twin).apply(*inputs)

    return apply
