"""Losses of sequences and of a teacher's logits from the last layer's inputs, under the names of liger_kernel.chunked_loss: the same arguments, defaults and results.

The logits of a chunk alone exist at a time, and are multiplied once where a pair or a sequence lies whole in a chunk. __all__ is the export
list: what tigon.liger.apply() puts in the place of Liger's own."""
from tigon.liger.chunked_loss import distillation, functional, grpo, kto, preference

_MODULES = (distillation, preference, kto, grpo, functional)
_found = {name: value for module in _MODULES for name, value in vars(module).items() if name.lower().startswith("liger")}
globals().update(_found)

__all__ = sorted(_found)
