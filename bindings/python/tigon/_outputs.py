"""Outputs that a call does not give: their element types, and who allocates them. Their shapes are those of the library. tigon.torch asks
here as well, with tensors that have shapes alone."""
import sys

from tigon import _core

SCHEMA = _core.schema()


RULES = {op: {arg["name"]: arg["rule"] for arg in args if arg["rule"]} for op, args in SCHEMA.items()}
MAIN = {op: next((name for name, rule in rules.items() if rule == "T"), next(iter(rules))) for op, rules in RULES.items()}


def main(op, tensors):
    """The tensor whose type is that of the call."""
    name = MAIN[op]
    return tensors[name] if name in tensors else next(iter(tensors.values()))


# Products of numbers of 8 bits: the type of what is added to them, else bf16.
_OF_BYTES = ("addend",)


def _kind(op, output):
    """The output's type: its name, or the inputs of which the first that is given has it; none: that of the call. A gradient whose input is
    not given has the type of one of that shape: dshift that of scale."""
    rule = output["rule"]
    if rule in ("I64", "STAT", "F8"):
        return {"I64": "int64", "STAT": "float32", "F8": "float8_e4m3fn"}[rule]
    if rule in ("T", "FLOAT", "ANY_OF_F32"):
        return _OF_BYTES if RULES[op].get("a") == "F8" else ()
    alike = [a["name"] for a in SCHEMA[op] if a["kind"] in ("in", "opt") and (a["rule"], a["shape"]) == (rule, output["shape"])]
    return (output["name"][1:], *alike, "weight", "gamma")


KINDS = {op: {a["name"]: _kind(op, a) for a in args if a["kind"] in ("out", "out_opt")} for op, args in SCHEMA.items()}


def _dtype(kind, tensors, first):
    """An element type, or its name."""
    if isinstance(kind, str):
        return "float64" if kind != "int64" and str(first.dtype).endswith("float64") else kind
    if kind is _OF_BYTES and "addend" not in tensors:
        return "bfloat16"
    return next((tensors[n] for n in kind if n in tensors), first).dtype


def _array_empty(numpy):
    def empty(shape, dtype):
        return numpy.empty(shape, str(dtype).rpartition(".")[2])
    return empty


def _jax_empty(jax):
    def empty(shape, dtype):
        if str(dtype) == "int64" and not jax.config.jax_enable_x64:
            import numpy

            return numpy.empty(shape, "int64")
        return jax.numpy.empty(shape, dtype).block_until_ready()
    return empty


def _maker(first):
    """empty(shape, type) of the framework of a tensor: CuPy's, JAX's, else NumPy's, in whose memory all others can be read."""
    root = type(first).__module__.split(".")[0]
    if root == "cupy":
        return _array_empty(sys.modules["cupy"])
    if root in ("jax", "jaxlib"):
        return _jax_empty(sys.modules["jax"])
    try:
        import numpy
    except ImportError:
        raise TypeError("without NumPy or PyTorch every output must be given") from None
    return _array_empty(numpy)


def _make_torch(torch, kinds, tensors, shapes, first):
    own, made = first.dtype, []
    for name, shape in shapes.items():
        kind = kinds[name]
        if isinstance(kind, str):
            dtype = own if kind != "int64" and own is torch.float64 else getattr(torch, kind)
        else:
            dtype = _dtype(kind, tensors, first) if kind else own
            dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        if dtype is own and first.shape == shape and first.is_contiguous():
            made.append(torch.empty_like(first))  # half as long as with a shape
        else:
            made.append(torch.empty(shape, dtype=dtype, device=first.device))
    return tuple(made)


def make(op, tensors, shapes):
    """Outputs of these shapes, which are by name, not yet written."""
    first, kinds, torch = main(op, tensors), KINDS[op], sys.modules.get("torch")
    if torch and isinstance(first, torch.Tensor):
        return _make_torch(torch, kinds, tensors, shapes, first)
    empty = _maker(first)
    return tuple([empty(shape, _dtype(kinds[name], tensors, first)) for name, shape in shapes.items()])


def traced_shapes(op, tensors, options, names):
    """Shapes of outputs by name, for tensors of PyTorch whose sizes may be symbols. The library does not know those: large numbers stand for
    them, of which it may give the half, the double, one or two more, or blocks of 128."""
    torch, sizes = sys.modules["torch"], {}

    def stand_in(size):
        number = (1 << 40) + (len(sizes) << 20)
        sizes.update({number: size, number // 2: size // 2, 2 * number: 2 * size, number + 1: size + 1, number + 2: size + 2,
                      number // 128: (size + 127) // 128})
        return number
    options = {n: stand_in(v) if isinstance(v, torch.SymInt) else v for n, v in options.items()}
    shapes = {n: tuple(map(stand_in, t.shape)) for n, t in tensors.items()}
    made = _core.output_shapes(op, shapes, options, names)
    return {n: tuple(sizes.get(s, s) for s in shape) for n, shape in made.items()}


def allocate(op, tensors, shapes):
    """As the extension calls it."""
    try:
        return make(op, tensors, shapes)
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        given = ", ".join(f"{name} {list(getattr(tensor, 'shape', ()))}" for name, tensor in tensors.items())
        raise ValueError(f"{op}: {' and '.join(shapes)} cannot be made for {given}; give a tensor to write to ({error})") from None
