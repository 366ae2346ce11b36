"""Tigon in the place of an installed Liger-Kernel, and back."""
import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("liger_kernel")
import tigon.liger  # noqa: E402
import tigon.liger.ops as ours  # noqa: E402


@pytest.fixture(autouse=True)
def undone():
    yield
    tigon.liger.undo()


def places():
    """(module, name) of every attribute of Liger's loaded modules that is Tigon's."""
    return {
        (module_name, name)
        for module_name, module in list(sys.modules.items())
        if module_name.partition(".")[0] == "liger_kernel"
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) and str(value.__module__).startswith("tigon.")
    }


def test_top_level_alone():
    import liger_kernel.ops.geglu
    import liger_kernel.transformers.functional

    original = liger_kernel.ops.geglu.geglu_forward
    tigon.liger.apply()
    assert liger_kernel.ops.LigerRMSNormFunction is ours.LigerRMSNormFunction
    assert liger_kernel.transformers.functional.LigerRMSNormFunction is ours.LigerRMSNormFunction
    assert liger_kernel.ops.geglu.geglu_forward is original
    tigon.liger.apply(submodules=True)
    assert liger_kernel.ops.geglu.geglu_forward is ours.geglu_forward


def test_undo():
    import liger_kernel.ops

    names = set(vars(liger_kernel.ops))
    tigon.liger.apply(submodules=True)
    import liger_kernel.transformers.rms_norm  # noqa: F401  (a module that was not there, or was, when Tigon came)

    assert places()
    tigon.liger.undo()
    assert not places()
    assert set(vars(liger_kernel.ops)) == names
    assert "tigon" not in liger_kernel.ops.backends.IMPL_REGISTRY


def forwards_of_chunked_losses():
    """Classes of Liger's chunked losses that compute something."""
    import liger_kernel.chunked_loss.functional  # noqa: F401  (loads all of them)

    modules = [m for n, m in list(sys.modules.items()) if n.startswith("liger_kernel.chunked_loss.")]
    return {c for m in modules for c in vars(m).values() if isinstance(c, type) and issubclass(c, torch.autograd.Function)}


def run_chunked_losses(loss):
    """Each of the losses of sequences, and the functions."""
    torch.manual_seed(0)
    x, weight = torch.randn(4, 5, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    ids, ones = torch.randint(0, 11, (4, 5)), torch.ones(4, 5)
    for name in ("CPO", "SimPO", "ORPO"):
        yield getattr(loss, f"LigerFusedLinear{name}Loss")(compiled=False)(weight, x, ids)
        yield getattr(loss.functional, f"liger_fused_linear_{name.lower()}")(x, weight, ids)
    yield loss.LigerFusedLinearDPOLoss(compiled=False)(weight, x, ids, None, x.detach(), weight.detach())
    yield loss.functional.liger_fused_linear_dpo(x, weight, ids, None, x.detach(), weight.detach())
    yield loss.LigerFusedLinearKTOLoss(compiled=False)(x, weight, ids, preference_labels=ones[:, 0].bool())
    yield loss.functional.liger_fused_linear_kto(x, weight, ids, ones[:, 0].bool(), None, x.detach(), weight.detach())
    for name in ("JSD", "CosineSimilarity"):
        yield getattr(loss, f"LigerFusedLinear{name}Loss")(compiled=False)(x[0], weight, x[1], weight, ids[0]), ()
        function = getattr(loss.functional, f"liger_fused_linear_{name.lower().removesuffix('similarity')}")
        yield function(x[0], weight, x[1], weight, ids[0], None, None), ()
    yield loss.LigerFusedLinearGRPOLoss(compiled=False, use_ref_model=False)(x, weight, ids, ones, ones[:, 0])
    yield loss.functional.liger_fused_linear_grpo(x, weight, ids, ones, ones[:, 0], None, ones)


def test_chunked_losses(monkeypatch):
    """No forward of Liger's runs, from its package as a program imports it."""
    originals = forwards_of_chunked_losses()

    def fail(*args, **kwargs):
        raise AssertionError("Liger's forward runs")

    before = [float(loss) for loss, _ in run_chunked_losses(sys.modules["liger_kernel.chunked_loss"])]
    tigon.liger.apply()
    preserved = set(places())
    for c in originals:
        monkeypatch.setattr(c, "forward", staticmethod(fail))
    liger = sys.modules["liger_kernel.chunked_loss"]
    after = [loss for loss, _ in run_chunked_losses(liger)]
    torch.testing.assert_close([float(loss) for loss in after], before, atol=1e-4, rtol=1e-4)
    for loss in after:
        loss.backward()
    assert {m.rpartition(".")[2] for m, n in preserved if n.startswith("LigerFusedLinear") and "chunked_loss" in m} >= {
        "chunked_loss", "cosine_similarity_loss", "cpo_loss", "dpo_loss", "fused_linear_ppo", "grpo_loss", "jsd_loss", "kto_loss",
        "orpo_loss", "simpo_loss",
    }  # fmt: skip
    tigon.liger.undo()
    assert not places()
    monkeypatch.undo()
    assert [float(loss) for loss, _ in run_chunked_losses(liger)] == before


def test_dispatcher():
    import liger_kernel
    from liger_kernel.functional import rms_norm

    tigon.liger.apply()
    assert liger_kernel.available_impls("rms_norm")[0] == "tigon"
    x, weight = torch.randn(3, 8, requires_grad=True), torch.randn(8)
    expected = torch.nn.functional.rms_norm(x, (8,), weight, 1e-6)
    torch.testing.assert_close(rms_norm(x, weight, 1e-6), expected)
    with pytest.raises(ValueError, match="wide"):
        rms_norm(x, weight, 1e-6, mode="wide")
    tigon.liger.undo()
    assert "tigon" not in liger_kernel.available_impls("rms_norm")


def test_another_choice_is_refused(monkeypatch):
    monkeypatch.setenv("LIGER_KERNEL_IMPL", "ascend")
    with pytest.raises(RuntimeError, match="ascend"):
        tigon.liger.apply()
    assert not places()


def test_status(capsys):
    tigon.liger.apply()
    tigon.liger.status()
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert lines["LigerRMSNormFunction"] == "tigon.liger.ops.rms_norm"
    assert lines["LigerFusedLinearDPOLoss"] == "tigon.liger.chunked_loss.preference"
    assert lines["liger_fused_linear_grpo"] == "tigon.liger.chunked_loss.grpo"
    assert lines["LigerMegatronCrossEntropy"] == "tigon.liger.megatron.modules"
    assert {module.partition(".")[0] for module in lines.values()} == {"tigon"}  # nothing stays Liger's


def python(program, **variables):
    """What a process prints whose environment has these variables."""
    environment = {n: v for n, v in os.environ.items() if n not in ("TIGON_LIGER", "LIGER_KERNEL_IMPL")}
    environment.update(variables, PYTHONPATH=os.pathsep.join(sys.path))
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


MODULES = """
import liger_kernel.ops
from liger_kernel.ops.geglu import geglu_forward
print(liger_kernel.ops.geglu_forward.__module__, geglu_forward.__module__)
"""


@pytest.mark.parametrize(
    "variables, top, submodule",
    [
        ({"TIGON_LIGER": "1"}, "tigon", "liger_kernel"),
        ({"TIGON_LIGER": "submodules"}, "tigon", "tigon"),
        ({"TIGON_LIGER": "0"}, "liger_kernel", "liger_kernel"),
        ({"LIGER_KERNEL_IMPL": "tigon"}, "tigon", "liger_kernel"),
        ({"LIGER_KERNEL_IMPL": " Tigon", "TIGON_LIGER": "submodules"}, "tigon", "tigon"),
    ],
)
def test_at_start(variables, top, submodule):
    """The line of tigon_liger.pth, which Python runs as it starts, and then a program that knows nothing of Tigon."""
    with open(os.path.join(os.path.dirname(__file__), "../../bindings/python/tigon_liger.pth")) as file:
        start = file.read()
    found = python(start + MODULES, **variables)
    assert [name.partition(".")[0] for name in found] == [top, submodule]


@pytest.mark.parametrize("program", ["import tigon.liger" + MODULES, "import tigon.liger; tigon.liger.apply()" + MODULES])
def test_liger_is_told_to_take_tigon(program):
    """Liger refuses a name that is not registered when it is imported, and Tigon registers with what is imported then."""
    call = """
import os, torch
from liger_kernel.functional import softmax
print(os.environ["LIGER_KERNEL_IMPL"], float(softmax(torch.zeros(1, 4))[0, 0]))
"""
    assert python(program + call, LIGER_KERNEL_IMPL="tigon") == ["tigon.liger.ops.geglu", "liger_kernel.ops.geglu", "tigon", "0.25"]


def test_every_device_is_tigons(monkeypatch):
    """Also those that are the default of an implementation of Liger's own, which was registered before."""
    import liger_kernel.ops
    import liger_kernel.utils

    before = list(liger_kernel.ops.backends.IMPL_REGISTRY)
    for device in tigon.liger._replace.DEVICES:
        monkeypatch.setattr(liger_kernel.utils, "infer_device", lambda: device)
        tigon.liger.apply()
        assert liger_kernel.ops.LigerRMSNormFunction is ours.LigerRMSNormFunction
        assert liger_kernel.ops.backends.select_impl(device).name == "tigon"
        tigon.liger.undo()
        assert list(liger_kernel.ops.backends.IMPL_REGISTRY) == before
