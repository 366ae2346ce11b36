"""Outputs that a call does not give: their shapes, element types, and who allocates them. tigon.torch asks here as well, with tensors
that have shapes alone."""
import sys

from tigon import _core

SCHEMA = _core.schema()


def _rows(t, o):
    return t["x"].shape[:-1]


def _loss(t, o):
    if o.get("reduction") not in ("none", 2):
        return ()
    return next(t[name] for name in ("target", "y_pred", "p") if name in t).shape


def _product(t, o):
    rows, columns = t["a"].shape[_is(o, "trans_a") - 2], t["b"].shape[-1 - _is(o, "trans_b")]
    return tuple(t["a"].shape[:-2]) + (rows, columns)


def _is(o, name):
    return int(o.get(name) in ("yes", 1))


def _groups(t, o):
    return (t["x"].shape[0], o["num_groups"])


# What holds for an output of that name, unless its operator says otherwise.
SHAPES = {
    "y": ("x", "gate", "q"), "s": ("x",), "yq": ("q",), "yk": ("k",),
    "rstd": _rows, "mean": _rows,
    "loss": _loss, "z_loss": _loss, "accuracy": _loss, "kl": _loss, "clipped": _loss,
    "lse": ("target",), "predicted": ("target",), "logp": ("target",),
    "dbeta": ("gamma",),
}
SHAPES_OF = {
    "gemm": {"c": _product},
    "batched_gemm": {"c": _product},
    "embedding_forward": {"y": lambda t, o: tuple(t["indices"].shape) + tuple(t["weight"].shape[1:])},
    "sum_rows_forward": {"y": lambda t, o: t["x"].shape[1:]},
    "sum_squares_forward": {"y": lambda t, o: ()},
    "layer_norm_backward": {"dbias": lambda t, o: t["x"].shape[-1:]},
    "group_norm_forward": {"mean": _groups, "rstd": _groups},
    "group_norm_backward": {"dbias": lambda t, o: t["x"].shape[1:2]},
    "poly_norm_forward": {"rstd": lambda t, o: tuple(_rows(t, o)) + (3,)},
    "poly_norm_backward": {"dbias": lambda t, o: (1,)},
    "flash_attention_forward": {"lse": lambda t, o: tuple(t["q"].shape[i] for i in (0, 2, 1))},
    "fused_neighborhood_attention_forward": {"lse": lambda t, o: t["q"].shape[:-1]},
    "fused_linear_cross_entropy_forward": {"dbias": lambda t, o: t["weight"].shape[:1]},
    "fused_linear_cross_entropy_backward": {"dbias": lambda t, o: t["weight"].shape[:1]},
    "kl_div_backward": {"dy_pred": ("y_true",)},
    # (How many rows the input of forward had is not to be seen here: tigon.torch says it.)
    "embedding_backward": {"dweight": lambda t, o: (o["weight_rows"],) + tuple(t["dy"].shape[-1:])},
    "sum_rows_backward": {"dx": lambda t, o: (o["x_rows"],) + tuple(t["dy"].shape)},
}


RULES = {op: {arg["name"]: arg["rule"] for arg in args if arg["rule"]} for op, args in SCHEMA.items()}
MAIN = {op: next((name for name, rule in rules.items() if rule == "T"), next(iter(rules))) for op, rules in RULES.items()}


def main(op, tensors):
    """The tensor whose type is that of the call."""
    name = MAIN[op]
    return tensors[name] if name in tensors else next(iter(tensors.values()))


def _like_input(name, rules):
    """The input that a gradient is like: x of dx, dyq of dq, dy of dx where there is no x."""
    return next((n for n in (name[1:], "dy" + name[1:], "dy") if n in rules), None)


def _rule(op, name):
    """The inputs of which the first that is given has the output's shape, or shape(tensors, options)."""
    if name in SHAPES_OF.get(op, {}):
        return SHAPES_OF[op][name]
    return SHAPES[name] if name in SHAPES else (_like_input(name, RULES[op]),)


def _kind(op, name):
    """The output's type: its name, or the inputs of which the first that is given has it; none: that of the call."""
    rule = RULES[op][name]
    if rule in ("I64", "STAT"):
        return {"I64": "int64", "STAT": "float32"}[rule]
    return () if rule in ("T", "FLOAT", "ANY_OF_F32") else (name[1:], "weight", "gamma")


PLANS = {op: {name: (_rule(op, name), _kind(op, name)) for name in rules
              if next(a for a in SCHEMA[op] if a["name"] == name)["kind"] in ("out", "out_opt")} for op, rules in RULES.items()}


def _dtype(kind, tensors, first):
    """An element type, or its name."""
    if kind == "float32" and str(first.dtype).endswith("float64"):
        return "float64"
    return kind if isinstance(kind, str) else next((tensors[n] for n in kind if n in tensors), first).dtype


def _torch_empty(torch, first):
    def empty(model, shape, dtype):
        if model is not None and model.dtype is dtype and model.is_contiguous():
            return torch.empty_like(model)  # half as long as with a shape
        return torch.empty(shape, dtype=dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype)), device=first.device)
    return empty


def _array_empty(numpy):
    def empty(model, shape, dtype):
        return numpy.empty(shape, str(dtype).rpartition(".")[2])
    return empty


def _jax_empty(jax):
    def empty(model, shape, dtype):
        if str(dtype) == "int64" and not jax.config.jax_enable_x64:
            import numpy

            return numpy.empty(shape, "int64")
        return jax.numpy.empty(shape, dtype).block_until_ready()
    return empty


def _maker(first):
    """empty(tensor of the shape or None, shape, type) of the framework of a tensor: PyTorch's, CuPy's, JAX's, else NumPy's, in whose
    memory all others can be read."""
    torch = sys.modules.get("torch")
    if torch and isinstance(first, torch.Tensor):
        return _torch_empty(torch, first)
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


def make(op, tensors, options, names):
    """Outputs of these names, not yet written."""
    first = main(op, tensors)
    empty, plan, made = _maker(first), PLANS[op], []
    for name in names:
        rule, kind = plan[name]
        model = next(tensors[n] for n in rule if n in tensors) if isinstance(rule, tuple) else None
        made.append(empty(model, rule(tensors, options) if model is None else model.shape, _dtype(kind, tensors, first)))
    return tuple(made)


def allocate(op, tensors, options, names):
    """As the extension calls it. What is wrong with shapes is said by the operator's check, where there is something to check."""
    try:
        return make(op, tensors, options, names)
    except (LookupError, StopIteration, TypeError, AttributeError, ValueError, OverflowError) as error:
        shapes = ", ".join(f"{name} {list(getattr(tensor, 'shape', ()))}" for name, tensor in tensors.items())
        raise ValueError(f"{op}: {' and '.join(names)} cannot be made for {shapes}; give a tensor to write to ({error})") from None
