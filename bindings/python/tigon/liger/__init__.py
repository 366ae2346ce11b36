"""Liger-Kernel's operators on Tigon, with or without Liger installed.

tigon.liger.ops           the names of liger_kernel.ops
tigon.liger.transformers  the modules and functions of liger_kernel.transformers for the same families
tigon.liger.megatron      the names of liger_kernel.megatron
apply(), undo(), status() Tigon in the place of an installed liger_kernel's operators
"""
from tigon.liger import _startup  # noqa: F401
from tigon.liger._replace import apply, implementations, status, undo

__all__ = ["apply", "implementations", "status", "undo"]
