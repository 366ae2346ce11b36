"""The functions of liger_kernel.transformers.functional for Tigon's families: the same names, arguments and defaults. They are made from
the entries of tigon/liger/_table.py."""
from dataclasses import dataclass
from typing import Optional

import torch

from tigon.liger import _table, ops  # noqa: F401 (what is made calls ops)


@dataclass
class CrossEntropyOutput:
    loss: torch.Tensor
    z_loss: Optional[torch.Tensor] = None
    token_accuracy: Optional[torch.Tensor] = None
    predicted_tokens: Optional[torch.Tensor] = None


def losses(results, *asked):
    """The loss alone, unless more was asked for."""
    return CrossEntropyOutput(*results) if any(asked) else results[0]


for _family, _entry in _table.FAMILIES.items():
    if _entry.functional:
        exec(_table.definition(_family))
