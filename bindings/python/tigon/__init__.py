"""Tigon: fused operators for training language models, forward and backward, on PyTorch tensors, NumPy arrays and others.

tigon.ops      every operator as a plain function on tensors
tigon.torch    the same with gradients, for PyTorch
"""
from tigon import _core, _devices, _outputs, ops

__version__ = _core.version
cpu_level = _core.cpu_level
last_impl = _core.last_impl
sync = _core.sync
release = _core.release
workspace_peak = _core.workspace_peak
workspace_trim = _core.workspace_trim

_core.set_allocator(_outputs.allocate)
_core.set_external(_devices.stream, _devices.card)


class batch_invariant:
    """From here on, results of a row have the same bits whatever other rows are in a call (TIGON_BATCH_INVARIANT, context.h): in all threads,
    backward passes too. `with tigon.batch_invariant(): ...` puts back what was set before; batch_invariant(False) ends it."""

    def __init__(self, on: bool = True) -> None:
        self._before = _core.set_batch_invariant(on)

    def __enter__(self) -> "batch_invariant":
        return self

    def __exit__(self, *_: object) -> None:
        _core.set_batch_invariant(self._before)


def check() -> None:
    """Compares operators with their reference on this machine and prints what was found; raises AssertionError if they differ."""
    from tigon import _check

    _check.run()
