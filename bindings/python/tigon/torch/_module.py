"""The class that a family's module is of (modules.py)."""
import inspect

from torch import nn

from tigon.torch import functional
from tigon.torch._table import FAMILIES


def _forward(family, takes):
    """forward(self, x): the family's inputs that are no parameters, by their names. (torch.fx and others read them from the code.)"""
    function = getattr(functional, family)
    inputs = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    head = ", ".join(["self"] + [str(p) for p in inputs if p.name not in takes])
    given = ", ".join(f"{p.name}={'self.' * (p.name in takes)}{p.name}" for p in inputs)
    names = {"function": function}
    exec(f"def forward({head}):\n    return function({given}, **self.given())", names)
    return names["forward"]


class Module(nn.Module):
    """A family's function with its options, and with its parameters where it has some. These are read as attributes, since they need not be
    parameters of the module itself: with torch.nn.utils.parametrize they are computed."""

    family = None
    takes = ()

    def __init_subclass__(cls):
        if "family" in vars(cls):
            cls.forward = _forward(cls.family, cls.takes)

    def __init__(self, **options):
        super().__init__()
        forward = FAMILIES[self.family].forward
        known = {a["name"] for a in forward.options} | set(forward.flags)
        for name in set(options) - known:
            raise TypeError(f"{type(self).__name__}: there is no option {name}; there are {', '.join(sorted(known))}")
        self.options = options

    def given(self):
        """The options of a call: dropout is for training alone."""
        return self.options if self.training else {n: v for n, v in self.options.items() if n != "dropout"}

    def extra_repr(self):
        sizes = [f"{name}={list(p.shape)}" for name, p in self.named_parameters(recurse=False)]
        return ", ".join(sizes + [f"{name}={value!r}" for name, value in self.options.items()])
