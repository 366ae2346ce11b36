"""TIGON_LIGER=1: Tigon's operators take the place of Liger's as soon as a program imports those; TIGON_LIGER=submodules: in Liger's
modules of single families too. tigon_liger.pth, beside the package, loads this file where the variable is set, at Python's start."""
import os
import sys
from importlib.machinery import PathFinder

TARGET = "liger_kernel.ops"


class Finder:
    """Finds liger_kernel.ops as Python would, and has Tigon's operators put in its place once it is loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(cls)
        spec = PathFinder.find_spec(name, path, target)
        if spec:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), _apply())
        return spec


def _apply():
    from tigon.liger import apply

    apply(submodules=os.environ["TIGON_LIGER"] == "submodules")


if os.environ.get("TIGON_LIGER", "0") not in ("", "0"):
    sys.meta_path.insert(0, Finder)
