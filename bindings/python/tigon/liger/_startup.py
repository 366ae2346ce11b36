"""What the environment asks for as soon as a program imports Liger: TIGON_LIGER=1, or Liger's own LIGER_KERNEL_IMPL=tigon, has Tigon's
operators take the place of Liger's; TIGON_LIGER=submodules: in Liger's modules of single families too. tigon_liger.pth, beside the package,
imports tigon.liger where one of these is set, at Python's start."""
import os

from tigon._imports import when_loaded
from tigon.liger import _replace

_asked = os.environ.get("TIGON_LIGER", "0")

if _asked not in ("", "0") or _replace.choice() == _replace.NAME:
    when_loaded("liger_kernel.ops", lambda: _replace.apply(submodules=_asked == "submodules"), _replace.choice_set_aside)
