"""Tigon's operators under the names of liger_kernel.ops: the same arguments, defaults and results.

A file a family, of the name that the module has in Liger; what each exports stands in tigon/liger/_table.py. __all__ is the export list:
what tigon.liger.apply() puts in the place of Liger's own.
"""
import importlib

import torch

from tigon._imports import when_loaded
from tigon.liger import _table
from tigon.liger.ops import _shared
from tigon.liger.ops.grpo_loss import fused_selective_log_softmax

__all__ = sorted(name for family in _table.FAMILIES for name in _table.exports(family))

for _family in _table.FAMILIES:
    _module = importlib.import_module(f"{__name__}.{_family}")
    globals().update({name: getattr(_module, name) for name in _table.exports(_family)})

# torch.compile takes these whole: it traces what a call computes, not its Python.
when_loaded("torch._dynamo", lambda: torch.compiler.allow_in_graph([*_shared.Function.__subclasses__(), fused_selective_log_softmax]))
