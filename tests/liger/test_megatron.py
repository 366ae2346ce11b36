"""tigon.liger.megatron without Megatron: its places are modules that are made here, and what they had fails when it is called."""
import importlib
import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import tigon.liger.megatron as megatron
from tigon.liger.megatron import patch
from tigon.liger.transformers import LigerVocabParallelCrossEntropy

CORE = "megatron.core"


def fail(*args, **kwargs):
    raise AssertionError("Megatron's own is called")


@pytest.fixture
def core(monkeypatch):
    """Makes the module megatron.core.<name>, and its packages, with some attributes."""

    def make(name, **attributes):
        parts = f"{CORE}.{name}".split(".")
        for i in range(1, len(parts) + 1):
            full = ".".join(parts[:i])
            if full not in sys.modules:
                monkeypatch.setitem(sys.modules, full, ModuleType(full))
        module = sys.modules[f"{CORE}.{name}"]
        vars(module).update(attributes)
        return module

    return make


@pytest.fixture
def losses(core):
    """Both cross entropies, and where a model calls them."""
    fused = core("fusions.fused_cross_entropy", fused_vocab_parallel_cross_entropy=lambda *args: fail())
    unfused = core("tensor_parallel.cross_entropy", vocab_parallel_cross_entropy=lambda *args: fail())
    core("tensor_parallel", vocab_parallel_cross_entropy=unfused.vocab_parallel_cross_entropy)
    bound = {"fused_vocab_parallel_cross_entropy": fused.fused_vocab_parallel_cross_entropy}
    caller = core("models.common.language_module.language_module", **bound)
    return SimpleNamespace(fused=fused, unfused=unfused, caller=caller, package=sys.modules[f"{CORE}.tensor_parallel"])


def problem():
    torch.manual_seed(0)
    logits, target = torch.randn(5, 2, 23), torch.randint(23, (5, 2))
    target[3, 1] = -100
    return logits, target


def expected(logits, target, smoothing=0.0):
    """Megatron's smoothing leaves the target's class out of the mean."""
    a = smoothing * 23 / 22
    return F.cross_entropy(logits.flatten(0, 1).double(), target.flatten(), reduction="none", label_smoothing=a).view(5, 2).float()


def test_both_cross_entropies_and_where_they_are_called(losses, caplog):
    native = losses.fused.fused_vocab_parallel_cross_entropy
    for _ in range(2):  # the second time changes nothing
        megatron.apply_liger_kernel_to_megatron(rms_norm=False, cross_entropy=True)
    assert losses.caller.fused_vocab_parallel_cross_entropy is losses.fused.fused_vocab_parallel_cross_entropy
    assert losses.fused.fused_vocab_parallel_cross_entropy.__wrapped__ is native
    logits, target = problem()
    for group in (None, SimpleNamespace(size=lambda: 1)):
        torch.testing.assert_close(losses.caller.fused_vocab_parallel_cross_entropy(logits, target, group), expected(logits, target))
    unfused = losses.package.vocab_parallel_cross_entropy
    for smoothing in (0.0, 0.1):
        torch.testing.assert_close(unfused(logits, target, smoothing), expected(logits, target, smoothing))
        torch.testing.assert_close(unfused(logits, target, label_smoothing=smoothing, tp_group=None), expected(logits, target, smoothing))
    assert "Could not find" not in caplog.text


def test_the_group_is_passed_on(losses, monkeypatch):
    seen = []
    monkeypatch.setattr(LigerVocabParallelCrossEntropy, "forward", lambda self, logits, target, group=None: seen.append((self, group)))
    megatron.apply_liger_kernel_to_megatron(rms_norm=False, cross_entropy=True)
    losses.fused.fused_vocab_parallel_cross_entropy(*problem(), "group")
    losses.unfused.vocab_parallel_cross_entropy(*problem(), 0.3, "other")
    assert [(m.label_smoothing, m.label_smoothing_formula, m.label_smoothing_mode, g) for m, g in seen] == [
        (0.0, "megatron", "partition", "group"), (0.3, "megatron", "partition", "other")
    ]  # fmt: skip


def test_versions_with_another_caller(core, losses):
    """One that looks the unfused one up where it is defined, and has the fused one by a name of its own."""
    backends = core("models.backends", _fused_ce=losses.fused.fused_vocab_parallel_cross_entropy)
    megatron.apply_liger_kernel_to_megatron(rms_norm=False, cross_entropy=True)
    assert backends._fused_ce is losses.fused.fused_vocab_parallel_cross_entropy
    torch.testing.assert_close(backends._fused_ce(*problem(), None), expected(*problem()))


def test_what_another_has_put_there_stays(losses, caplog):
    losses.caller.fused_vocab_parallel_cross_entropy = fail
    with caplog.at_level(logging.WARNING):
        megatron.apply_liger_kernel_to_megatron(rms_norm=False, cross_entropy=True)
    assert losses.caller.fused_vocab_parallel_cross_entropy is fail
    assert "Could not find where this Megatron version calls fused_vocab_parallel_cross_entropy" in caplog.text


def test_layer_norms(core):
    class LocalSpecProvider:
        def layer_norm(self, rms_norm=False, for_qk=False):
            return "layer norm", for_qk

    torch_norm = core("transformer.torch_norm", WrappedTorchNorm=lambda config, hidden_size, eps: ("torch", hidden_size, eps))
    block = core("transformer.transformer_block", LayerNormImpl=torch_norm.WrappedTorchNorm)
    provider = core("models.backends", LocalSpecProvider=LocalSpecProvider).LocalSpecProvider()
    for _ in range(2):
        megatron.apply_liger_kernel_to_megatron()
    assert provider.layer_norm(rms_norm=True) is provider.layer_norm(True, for_qk=True) is megatron.LigerMegatronRMSNorm
    assert provider.layer_norm(for_qk=True) == ("layer norm", True)
    config = SimpleNamespace(normalization="RMSNorm", sequence_parallel=True, layernorm_zero_centered_gamma=True)
    norm = block.LayerNormImpl(config=config, hidden_size=8)
    assert isinstance(norm, megatron.LigerMegatronRMSNorm) and norm.weight.sequence_parallel and not norm.weight.any()
    x = torch.randn(3, 8)
    torch.testing.assert_close(norm(x), F.rms_norm(x, (8,), eps=1e-5))
    assert block.LayerNormImpl(SimpleNamespace(normalization="LayerNorm"), 8, 1e-6) == ("torch", 8, 1e-6)
    block.LayerNormImpl = other = object()
    megatron.apply_liger_kernel_to_megatron()
    assert block.LayerNormImpl is other
    with pytest.raises(ValueError, match="'LayerNorm', expected 'RMSNorm'"):
        megatron.LigerMegatronRMSNorm(SimpleNamespace(normalization="LayerNorm"), 8)


def test_swiglu(core):
    calls = []
    native = SimpleNamespace(apply=lambda *args: calls.append(args))
    module = core("fusions.fused_bias_swiglu", SwiGLUFunction=native)
    megatron.apply_liger_kernel_to_megatron(rms_norm=False, swiglu=True)
    x = torch.randn(3, 16, requires_grad=True)
    gate, up = x.chunk(2, -1)
    y = module.SwiGLUFunction.apply(x, False, False)
    torch.testing.assert_close(y, F.silu(gate) * up)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad((F.silu(gate) * up).sum(), x))
    module.SwiGLUFunction.apply(x, True, False)
    module.SwiGLUFunction.apply(x, cpu_offload_input=True)
    assert [c[1:] for c in calls] == [(True, False), (False, True)]


def test_swiglu_module_tells_once_that_it_falls_back(caplog):
    module = megatron.LigerMegatronSwiGLU(fallback_impl=lambda input, bias, fp8, offload: (bias, fp8, offload))
    x = torch.randn(2, 3, 16)
    assert module(x).shape == (2, 3, 8)
    with caplog.at_level(logging.INFO, logger="tigon.liger.megatron.modules"):
        assert [module(x, None, True) for _ in range(3)] == [(None, True, False)] * 3
    assert len(caplog.records) == 1


def test_without_megatron():
    with pytest.raises(ImportError, match="requires megatron-core"):
        megatron.apply_liger_kernel_to_megatron(rms_norm=False, swiglu=True)


def test_names_that_are_not_there(core):
    core("fusions.fused_cross_entropy")
    with pytest.raises(ImportError, match="fused_vocab_parallel_cross_entropy: its symbol path may have changed"):
        megatron.apply_liger_kernel_to_megatron(rms_norm=False, cross_entropy=True)


def test_liger_installed():
    """apply() puts these names in the place of Liger's, and the module of transformers runs on Tigon's function."""
    pytest.importorskip("liger_kernel")
    import tigon.liger

    liger = importlib.import_module("liger_kernel.megatron")
    originals = {name: getattr(liger, name) for name in megatron.__all__}
    tigon.liger.apply()
    try:
        assert all(getattr(liger, name) is getattr(megatron, name) for name in megatron.__all__)
        module = importlib.import_module("liger_kernel.transformers").LigerVocabParallelCrossEntropy()
        torch.testing.assert_close(module(*problem()), expected(*problem()))
        assert tigon.liger.implementations()["LigerMegatronCrossEntropy"] == "tigon.liger.megatron.modules"
    finally:
        tigon.liger.undo()
    assert all(getattr(liger, name) is value for name, value in originals.items())
    assert patch.PATCHED == importlib.import_module("liger_kernel.megatron.monkey_patch")._PATCH_MARKER
