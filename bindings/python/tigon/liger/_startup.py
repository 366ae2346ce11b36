"""TIGON_LIGER=1: Tigon's operators take the place of Liger's as soon as a program imports those; TIGON_LIGER=submodules: in Liger's
modules of single families too. tigon_liger.pth, beside the package, loads this file where the variable is set, at Python's start."""
import os

from tigon._imports import when_loaded


def _apply():
    from tigon.liger import apply

    apply(submodules=os.environ["TIGON_LIGER"] == "submodules")


if os.environ.get("TIGON_LIGER", "0") not in ("", "0"):
    when_loaded("liger_kernel.ops", _apply)
