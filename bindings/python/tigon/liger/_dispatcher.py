"""Tigon's entries in liger_kernel.backends, the registry behind liger_kernel.functional: an implementation `tigon` of each operator."""
from tigon.liger import ops
from tigon.liger._table import FAMILIES, function_of

NAME = "tigon"
# Lower than the ranks of Liger's own, which are 10 and more: the first that can run.
RANK = 0

FUNCTIONS = {family: getattr(ops, function_of(family)) for family, entry in FAMILIES.items() if entry.dispatched}


def _call(function):
    def call(*args, mode=None, rotary_dim=None):
        if mode not in (None, "default"):
            raise ValueError(f"tigon has no mode {mode!r}")
        return function.apply(*args, rotary_dim) if rotary_dim is not None else function.apply(*args)

    return call


def register():
    from liger_kernel.backends import register_impl

    for op, function in FUNCTIONS.items():
        register_impl(op, impl_name=NAME, modes=("default",), default_mode="default", preference_rank=RANK)(_call(function))


def unregister():
    from liger_kernel.backends import clear_available_cache, registry

    for op in FUNCTIONS:
        registry._REGISTRY.pop((op, NAME), None)
    clear_available_cache()
