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
    rows, columns = (t["a"].shape[_is(o, "trans_a")], t["b"].shape[1 - _is(o, "trans_b")])
    return (rows, columns)


def _is(o, name):
    return int(o.get(name) in ("yes", 1))


def _groups(t, o):
    return (t["x"].shape[0], o["num_groups"])


def _like(*names):
    return lambda t, o: next(t[name] for name in names if name in t).shape


# What holds for an output of that name, unless its operator says otherwise.
SHAPES = {
    "y": _like("x", "gate", "q"), "s": _like("x"), "yq": _like("q"), "yk": _like("k"),
    "rstd": _rows, "mean": _rows,
    "loss": _loss, "z_loss": _loss, "accuracy": _loss, "kl": _loss, "clipped": _loss,
    "lse": _like("target"), "predicted": _like("target"), "logp": _like("target"),
    "dbeta": _like("gamma"),
}
SHAPES_OF = {
    "gemm": {"c": _product},
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
    "kl_div_backward": {"dy_pred": _like("y_true")},
    # (How many rows the input of forward had is not to be seen here: tigon.torch says it.)
    "embedding_backward": {"dweight": lambda t, o: (o["weight_rows"],) + tuple(t["dy"].shape[-1:])},
    "sum_rows_backward": {"dx": lambda t, o: (o["x_rows"],) + tuple(t["dy"].shape)},
}


def _like_which(name, tensors):
    """The input that a gradient is like: x of dx, dyq of dq, dy of dx; None if there is none."""
    return next((n for n in (name[1:], "dy" + name[1:]) if n in tensors), "dy" if name == "dx" else None)


def shape(op, name, tensors, options):
    rule = SHAPES_OF.get(op, {}).get(name) or SHAPES.get(name)
    if name in ("dq", "dk") or not rule:
        return tensors[_like_which(name, tensors)].shape
    return rule(tensors, options)


RULES = {op: {arg["name"]: arg["rule"] for arg in args if arg["rule"]} for op, args in SCHEMA.items()}
MAIN = {op: next((name for name, rule in rules.items() if rule == "T"), next(iter(rules))) for op, rules in RULES.items()}


def main(op, tensors):
    """The tensor whose type is that of the call."""
    return tensors.get(MAIN[op]) if MAIN[op] in tensors else next(iter(tensors.values()))


def dtype(op, name, tensors):
    """A tensor whose type the output shall have, or the type's name."""
    rule = RULES[op][name]
    first = main(op, tensors)
    if rule == "I64":
        return "int64"
    if rule == "STAT":
        return "float64" if str(first.dtype).endswith("float64") else "float32"
    if rule in ("T", "FLOAT", "ANY_OF_F32"):
        return first
    return next((tensors[n] for n in (name[1:], "weight", "gamma") if n in tensors), first)


def _torch(torch, like):
    def empty(shape, kind):
        return torch.empty(shape, dtype=kind.dtype if isinstance(kind, torch.Tensor) else getattr(torch, kind), device=like.device)
    return empty


def _arrays(numpy):
    def empty(shape, kind):
        return numpy.empty(shape, kind if isinstance(kind, str) else str(kind.dtype).rpartition(".")[2])
    return empty


def _maker(like):
    """empty(shape, type) of the framework of a tensor: PyTorch's, CuPy's, else NumPy's, in whose memory all others can be read."""
    torch = sys.modules.get("torch")
    if torch and isinstance(like, torch.Tensor):
        return _torch(torch, like)
    if type(like).__module__.split(".")[0] == "cupy":
        return _arrays(sys.modules["cupy"])
    try:
        import numpy
    except ImportError:
        raise TypeError("without NumPy or PyTorch every output must be given") from None
    return _arrays(numpy)


def make(op, tensors, options, names):
    """Outputs of these names, not yet written."""
    empty = _maker(main(op, tensors))
    return tuple(empty(tuple(shape(op, name, tensors, options)), dtype(op, name, tensors)) for name in names)


def allocate(op, tensors, options, names):
    """As the extension calls it. What is wrong with shapes is said by the operator's check, where there is something to check."""
    try:
        return make(op, tensors, options, names)
    except (LookupError, StopIteration, TypeError) as error:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        raise ValueError(f"{op}: {' and '.join(names)} cannot be made for {shapes}; give a tensor to write to ({error})") from None
