"""Tigon where Trainer and TRL ask for Liger-Kernel: use_liger_kernel=True runs on tigon.transformers, with or without Liger installed.

Where Liger is missing, its names are there that transformers and TRL import. TRL's fused head and its loss of distillation are exchanged too.
Nothing is imported before a program does: this module loads neither PyTorch nor transformers.
"""
import importlib
import importlib.machinery
import importlib.metadata
import sys
import warnings
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Dict

from tigon._imports import when_loaded

VERSION = "0.8.5"  # the release of Liger-Kernel whose names these are
PATCH = "_apply_liger_kernel_to_instance"  # what Trainer calls

# Options of Liger's patches: that of apply_to(), None for what models have of their own.
OPTIONS = {
    "rope": "rope",
    "rms_norm": "rms_norm",
    "layer_norm": "layer_norm",
    "swiglu": "mlp",
    "geglu": "mlp",
    "relu_squared": "mlp",
    "fused_linear_cross_entropy": "fused_linear_cross_entropy",
}

_replaced: Dict[Any, Any] = {}  # (module, name): what was there
_installed = False


# ---- what Trainer asks for ----


def options_of(config: Dict[str, Any]) -> Dict[str, bool]:
    """Options of apply_to() from a liger_kernel_config, which may name either's."""
    from tigon import transformers as own

    options, named = {}, {}
    for name, value in config.items():
        option = name if name in own.OPTIONS else OPTIONS.get(name)
        if option is None:
            known = sorted({*OPTIONS, *own.OPTIONS, "cross_entropy"})
            raise TypeError(f"liger_kernel_config has {name!r}, expected one of {', '.join(known)}")
        if options.get(option, value) != value:
            raise ValueError(f"liger_kernel_config: {named[option]} and {name} are one option, {option}, and differ")
        options[option], named[option] = value, name
    return {option: bool(value) for option, value in options.items() if option in own.OPTIONS}


def _loss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
    """ForCausalLMLoss of transformers by Tigon's cross entropy, of logits that are there."""
    import torch

    import tigon.torch

    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = tigon.torch.cross_entropy(logits.reshape(-1, vocab_size), target, ignore_index=ignore_index, reduction=reduction)
    if num_items_in_batch is None:  # the mean over no token is NaN in PyTorch
        return torch.where((target != ignore_index).any(), loss, torch.nan)
    return loss / (num_items_in_batch.to(loss.device) if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch)


def apply_for_trainer(model: Any, cross_entropy: bool = False, **config: Any) -> None:
    """Liger's _apply_liger_kernel_to_instance on apply_to(). A model that has nothing of Tigon's is left as it is, with a warning."""
    from tigon import transformers as own

    if cross_entropy and config.get("fused_linear_cross_entropy"):
        raise ValueError("liger_kernel_config: cross_entropy and fused_linear_cross_entropy cannot both be asked for")
    options = options_of(config)
    if cross_entropy:
        from transformers.loss.loss_utils import ForCausalLMLoss

        options["fused_linear_cross_entropy"] = False
        if model.loss_function is ForCausalLMLoss:
            model.loss_function = _loss
    try:
        own.apply_to(model, **options)
    except ValueError as error:
        warnings.warn(f"{error}; the model is as transformers made it")


# ---- Liger's names where it is missing ----


def _names_of_transformers():
    from tigon import transformers as own
    from tigon.liger import transformers as modules

    return {**vars_of(modules), PATCH: apply_for_trainer, "AutoLigerKernelForCausalLM": own.AutoTigonModelForCausalLM}


def vars_of(module):
    return {name: getattr(module, name) for name in module.__all__}


NAMES = {
    "liger_kernel": lambda: {"__version__": VERSION},
    "liger_kernel.chunked_loss": lambda: vars_of(importlib.import_module("tigon.liger.chunked_loss")),
    "liger_kernel.transformers": _names_of_transformers,
}


class _Loader:
    def create_module(self, spec):
        return ModuleType(spec.name, "Tigon under Liger-Kernel's names: tigon.transformers.install() put it here.")

    def exec_module(self, module):
        vars(module).update(NAMES[module.__name__]())


class _Liger(importlib.metadata.DistributionFinder):
    """The last finder of modules, so that an installed Liger-Kernel is found before."""

    def find_spec(self, name, path=None, target=None):
        if name not in NAMES:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(), origin=__file__, is_package=name == "liger_kernel")

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        named = (context.name or "").lower().replace("_", "-") == "liger-kernel"
        return iter([_Distribution()] if named else [])


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata.version("liger_kernel") asks, which transformers does."""

    def read_text(self, filename):
        return f"Metadata-Version: 2.1\nName: liger-kernel\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path):
        return path


_finder = _Liger()


def _ask_again():
    """transformers and TRL keep the answer to whether Liger is there."""
    for name in ("transformers.utils.import_utils", "trl.import_utils"):
        module = sys.modules.get(name)
        getattr(getattr(module, "is_liger_kernel_available", None), "cache_clear", lambda: None)()
        if hasattr(module, "_liger_kernel_available"):  # releases before 5
            module._liger_kernel_available = find_spec("liger_kernel") is not None
            module._liger_kernel_version = VERSION


# ---- there and back ----


def _owner(module, path):
    """(What has the last name of a path in a module, that name): "DPOTrainer.__init__" is the class's."""
    *front, attribute = path.split(".")
    for name in front:
        module = getattr(module, name, None)
    return module, attribute


def _replace(name, replacements):
    """In the module of this name, which is loaded: what `replacements` makes of what is there."""
    module = sys.modules[name]
    if not _installed or not isinstance(module, ModuleType):
        return
    for path, make in replacements.items():
        owner, attribute = _owner(module, path)
        if hasattr(owner, attribute) and (name, path) not in _replaced:
            _replaced[name, path] = getattr(owner, attribute)
            setattr(owner, attribute, make(_replaced[name, path]))


def _of_trl(name):
    def make(original):
        return getattr(importlib.import_module("tigon.transformers._trl"), name)(original)

    return make


REPLACED = {
    "liger_kernel.transformers": {PATCH: lambda original: apply_for_trainer},
    "trl.trainer.utils": {"_ChunkedLogProbFunction": _of_trl("FusedHead"), "_use_triton": _of_trl("some_positions")},
    "trl.trainer.distillation_trainer": {
        "_chunked_divergence_loss": _of_trl("divergence_loss"), "DistillationTrainer.__init__": _of_trl("with_frozen_models"),
    },
    **{f"trl.trainer.{name.lower()}_trainer": {f"{name}Trainer.__init__": _of_trl("with_frozen_models")} for name in ("DPO", "KTO", "GRPO", "RLOO")},
}  # fmt: skip
_awaited = set()  # modules whose names are replaced once they are loaded


def install() -> None:
    """From now on use_liger_kernel=True of Trainer and TRL means apply_to(), with the options of liger_kernel_config, of the reference model
    and the teacher of TRL's trainers as well, and TRL's fused head and loss of distillation run on Tigon. Liger-Kernel need not be installed;
    where it is missing its losses that TRL imports are Tigon's.

    TIGON_TRANSFORMERS=1 in the environment does this as Python starts."""
    global _installed
    _installed = True
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    _ask_again()
    for name, replacements in REPLACED.items():
        if name in sys.modules:
            _replace(name, replacements)
        elif name not in _awaited:
            _awaited.add(name)
            when_loaded(name, lambda name=name: _replace(name, REPLACED[name]))


def uninstall() -> None:
    """Everything as it was before install(). Models that were patched stay so."""
    global _installed
    _installed = False
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for (name, path), original in _replaced.items():
        if name in sys.modules:
            setattr(*_owner(sys.modules[name], path), original)
    _replaced.clear()
    for name in NAMES:
        if isinstance(getattr(getattr(sys.modules.get(name), "__spec__", None), "loader", None), _Loader):
            del sys.modules[name]
            _awaited.discard(name)
    _ask_again()
