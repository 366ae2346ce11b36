"""Which operators of the library make up a family for PyTorch, and how its gradients follow from their names.

An operator is described by the library's schema. A family's backward takes what forward took or gave by the same names, the gradient of
an output under that name with a d in front, and gives the gradient of an input in the same way: dx of x. What follows no such rule is
named here.
"""
from tigon._outputs import SCHEMA

# Outputs of forward that are gradients, which it computes in the same pass: worth it where backward would multiply all logits again.
GRADIENTS_IN_FORWARD = {"fused_linear_cross_entropy", "fused_linear_jsd", "fused_linear_kl_div"}
# The gradient of an input that another input shares.
SHARED = {"fused_add_rms_norm": {"residual": "dx"}}
# The gradient of an input that is the upstream one of an output.
PASSED = {"fused_moe": {"addend": "dy"}}
# Options that are about gradients that are accumulated or scaled, which autograd does itself, and of slices of a vocabulary,
# whose losses are no losses by themselves (parallel.py); logits that a backward could read, where all gradients are made in forward.
_SLICE = {"vocab_start", "vocab_size"}
LEFT_OUT = {"gemm": {"beta", "addend"}, "batched_gemm": {"beta", "addend"}, "cross_entropy": {"grad_scale"} | _SLICE, "softmax_jsd": {"grad_scale"},
            "softmax_kl_div": {"grad_scale"},
            "softmax_logp": {"grad_scale"} | _SLICE, "fused_linear_cross_entropy": _SLICE, "fused_linear_logp": _SLICE,
            "fused_linear_jsd": {"logits", "teacher_logits"}, "fused_linear_kl_div": {"logits"},
            "grouped_gemm": {"gather", "top_k"}}
# The output whose first size no input tells, the input of forward that has it, and what follows it in the shape of dy.
ROWS = {"embedding_backward": ("weight", "dweight", slice(-1, None)), "sum_rows_backward": ("x", "dx", slice(None))}
# Gradients of which all rows are the upstream one, scaled: a view of it, as PyTorch's own sum gives, and no call of the library.
REPEATED = {"sum_rows": "dx"}
# Outputs that backward reads for their own gradient alone, or can do without: computed where they are asked for.
ON_REQUEST = {"softmax_logp": {"entropy"}, "fused_linear_logp": {"entropy", "logits"}, "fused_linear_cross_entropy": {"logits"},
              "moe_router": {"counts"}, "fused_moe": {"pre"}}
# Results that have no gradient, and are returned nevertheless.
SHOWN = {"moe_router": {"index"}}
# Options that PyTorch sees as tensors of one number on the CPU, so that a program that was traced draws anew each time that it runs.
DRAWN = {"flash_attention": {"seed"}}
# Operators without forward and backward: the gradients of products are products.
PRODUCTS = ("gemm", "batched_gemm")
# Operators that have no gradient: of a whole batch or of numbers of 8 bits, and of tensors that are updated in place, (tensors, those that are updated, options).
WHOLE = ("newton_schulz", "moe_route", "quantize_block", "quantize_rms_norm", "quantize_swiglu", "quantize_swiglu_gradient",
         "gemm_block_scaled")
UPDATES = {
    "adamw": (("param", "grad", "m", "v", "master"), ("param", "m", "v", "master"), ("beta1", "beta2", "eps", "weight_decay", "grad_scale")),
    "muon_momentum": (("grad", "m", "update"), ("m", "update"), ("momentum", "grad_scale", "plain")),
    "muon_update": (("param", "update", "master"), ("param", "master"), ("weight_decay", "factor")),
}
# Families whose inputs autocast lowers, as it does for products in PyTorch; of the others it makes the types one.
LOWERED = {*PRODUCTS, "flash_attention", "fused_neighborhood_attention", "fused_linear_cross_entropy", "fused_linear_jsd",
           "fused_linear_kl_div", "fused_linear_logp", "grouped_gemm", "fused_moe"}


class Operator:
    """An operator as PyTorch sees it: tensors by position, options by name, and for each output that is optional a flag."""

    def __init__(self, name):
        self.name = name
        self.family = name.removesuffix("_forward").removesuffix("_backward")
        forward = not name.endswith("_backward")
        arguments = SCHEMA[name]
        names = [a["name"] for a in arguments]
        drawn = DRAWN.get(self.family, set())
        hidden = LEFT_OUT.get(self.family, set()) | {"accumulate"} | ({"dloss"} if forward else set())
        if forward and self.family not in GRADIENTS_IN_FORWARD:
            hidden |= {f"d{n}" for n in names if f"d{n}" in names}
        shown = [a for a in arguments if a["name"] not in hidden]
        self.all_inputs = [a["name"] for a in arguments if a["kind"] in ("in", "opt")]
        self.drawn = [n for n in names if n in drawn]
        self.inputs = [a["name"] for a in shown if a["kind"] in ("in", "opt")] + self.drawn
        self.optional = {a["name"] for a in shown if a["kind"] == "opt"} | drawn
        self.outputs = [a["name"] for a in shown if a["kind"] in ("out", "out_opt")]
        # Optional outputs that are computed whenever the input is given whose memory they may share.
        self.follows = {a["name"]: a["over"] for a in shown if a["kind"] == "out_opt" and a["over"] in self.optional}
        self.flags = [a["name"] for a in shown if a["kind"] == "out_opt" and a["name"] not in self.follows]
        self.options = [a for a in shown if a["kind"] in ("f64", "i64") and a["name"] not in drawn]
        self.rules = {a["name"]: a["rule"] for a in arguments}
        self.of_one_type = [a["name"] for a in shown if a["rule"] == "T" and a["kind"] in ("in", "opt")]
        self.rows = ROWS.get(name)
        self.numbers = {a["name"] for a in self.options} | drawn
        self.known = self.numbers.union(self.flags, [f"{self.rows[0]}_rows"] if self.rows else ())
        self.has_autocast = forward and name not in WHOLE

    def schema(self):
        """The operator in the language of torch.library."""
        last = max((i for i, n in enumerate(self.inputs) if n not in self.optional), default=-1)
        tensors = [f"Tensor{'?' * (n in self.optional)} {n}{'=None' * (n in self.optional and i > last)}"
                   for i, n in enumerate(self.inputs)]
        named = [f"SymInt {self.rows[0]}_rows"] if self.rows else []
        named += [_option(a) for a in self.options] + [f"bool {n}=False" for n in self.flags]
        results = ", ".join(["Tensor"] * len(self.outputs))
        results = results if len(self.outputs) == 1 else f"({results})"
        return f"{self.name}({', '.join(tensors + ['*'] * bool(named) + named)}) -> {results}"


def _option(argument):
    kind = {"f64": "float", "i64": "SymInt"}[argument["kind"]]
    if argument["choices"]:
        kind = "bool" if set(argument["choices"]) == {"no", "yes"} else "str"
    return f"{kind} {argument['name']}" if argument["required"] else f"{kind}? {argument['name']}=None"


class Family:
    """Forward and backward, and what goes between them."""

    def __init__(self, name):
        self.name = name
        self.forward = Operator(f"{name}_forward")
        self.backward = Operator(f"{name}_backward")
        forward, backward = self.forward, self.backward
        # Outputs that backward reads are always computed, but for those that it can do without.
        self.on_request = ON_REQUEST.get(name, set())
        forward.flags = [n for n in forward.flags if n not in backward.inputs or n in self.on_request]
        self.saved = [n for n in backward.inputs if n in forward.inputs + forward.outputs]
        self.upstream = {f"d{n}": n for n in forward.outputs if f"d{n}" in backward.inputs}
        self.gradients = {n: {**SHARED, **PASSED}.get(name, {}).get(n, f"d{n}") for n in forward.inputs}
        self.gradients = {n: d for n, d in self.gradients.items() if d in backward.outputs or d in self.upstream}
        self.in_forward = [n for n in forward.outputs if n in self.gradients.values()]
        self.constant = [n for n in forward.outputs if n not in self.upstream.values()]
        # Results that a call always returns.
        self.shown = set(self.upstream.values()) - set(forward.flags) | SHOWN.get(name, set())


FAMILIES = {op.removesuffix("_forward"): Family(op.removesuffix("_forward")) for op in SCHEMA if op.endswith("_forward")}
