"""Tensors of torch_npu, by a stand-in for it on a stand-in for a card whose kernels run on the model: npu.sh runs this."""
import os
import subprocess
import sys
import types

import pytest
import torch

import tigon
import tigon.torch
from npu import stand_in
from problems import problems
from tigon import _check, _devices, ops
from tigon.liger.ops import LigerRMSNormFunction, LigerSiLUMulFunction
from tigon.torch._table import FAMILIES

npu = stand_in.begin(os.environ["NPU_STAND_IN"])
if not npu:
    pytest.skip("there is no C++ compiler, which the stand-in for torch_npu is made with", allow_module_level=True)

PROBLEMS = problems()
# (The model runs an instruction at a time: what the others have in common with these is tested on the CPU.)
FAMILIES_HERE = ["rms_norm", "swiglu", "softmax", "cross_entropy", "fused_linear_cross_entropy", "flash_attention", "rope", "embedding"]


@pytest.fixture(autouse=True)
def rules():
    """Nothing that a test does breaks a rule of the run time."""
    open(os.environ["STAND_IN_RECORD"], "w").close()
    yield
    assert not [line for line in record() if line.startswith("VIOLATION")]


def record():
    with open(os.environ["STAND_IN_RECORD"]) as file:
        return file.read().splitlines()


def results(name, tensors):
    got = getattr(tigon.torch, name)(**tensors, **PROBLEMS[name].options)
    return got if isinstance(got, tuple) else (got,)


def both(name, tensors):
    """Results and gradients, on the CPU."""
    got = results(name, tensors)
    leaves = [t for t in tensors.values() if t.requires_grad]
    gradients = torch.autograd.grad(sum(r.sum() * (i + 1) for i, r in enumerate(got)), leaves)
    return [t.detach().cpu() for t in (*got, *gradients)]


def near(got, expected, tolerance=1e-5):
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FAMILIES_HERE)
def test_results_and_gradients(name):
    assert name in FAMILIES
    near(both(name, PROBLEMS[name].copy("npu")), both(name, PROBLEMS[name].copy("cpu")), 1e-4)
    assert [line for line in record() if line.startswith("launch ")]


def test_functions_modules_and_lists():
    x, w = torch.randn(4, 64), torch.randn(64)
    assert torch.equal(ops.rms_norm_forward(x.to("npu"), w.to("npu")).cpu(), ops.rms_norm_forward(x.to("npu"), w.to("npu"), impl="ascend").cpu())
    near([tigon.torch.RMSNorm(64).to("npu")(x.to("npu")).detach().cpu()], [tigon.torch.rms_norm(x, torch.ones(64))])
    near([tigon.torch.rms_norm(x.to("npu"), w.to("npu")).cpu()], [tigon.torch.rms_norm(x, w)])
    tigon.sync()


def test_strides_and_types():
    """What PyTorch has to copy, since an NPU's backend cannot."""
    def loss(device):
        logits = torch.arange(24.0).reshape(6, 4).to(device).t().requires_grad_()
        target = torch.tensor([1, 2, 3, 4], dtype=torch.int32).to(device)
        value = tigon.torch.cross_entropy(logits, target, class_weight=torch.arange(1.0, 7.0).bfloat16().to(device))
        rows = tigon.torch.rms_norm(logits, torch.ones(6, dtype=torch.bfloat16).to(device))
        return [value.detach().cpu(), *(g.cpu() for g in torch.autograd.grad((rows.sum() + value).expand(3).sum(), logits))]
    near(loss("npu"), loss("cpu"))


def test_optimizer():
    weights = [torch.nn.Parameter(torch.ones(40).to(device)) for device in ("cpu", "npu")]
    for weight in weights:
        optimizer = tigon.torch.AdamW([weight], lr=0.1)
        (weight * torch.arange(40.0).to(weight.device)).sum().backward()
        optimizer.step()
    near([weights[1].detach().cpu()], [weights[0].detach()])
    matrices = [torch.nn.Parameter(torch.arange(240.0).reshape(12, 20).sin().to(device)) for device in ("cpu", "npu")]
    for matrix in matrices:
        optimizer = tigon.torch.Muon([matrix], lr=0.1)
        (matrix * torch.arange(240.0).reshape(12, 20).cos().to(matrix.device)).sum().backward()
        optimizer.step()
    torch.testing.assert_close(matrices[1].detach().cpu(), matrices[0].detach(), rtol=1e-2, atol=1e-2)


def test_liger():
    x, y, w = torch.randn(4, 64), torch.randn(4, 64), torch.randn(64)
    expected = LigerSiLUMulFunction.apply(LigerRMSNormFunction.apply(x, w, 1e-6), y)
    got = LigerSiLUMulFunction.apply(LigerRMSNormFunction.apply(x.to("npu"), w.to("npu"), 1e-6), y.to("npu"))
    assert tigon.last_impl() == "ascend/swiglu_forward"
    near([got.cpu()], [expected])


def test_calls_follow_the_current_stream():
    """Forward, and backward, which autograd runs in a thread of its own on the stream that forward had."""
    stream = npu.Stream()
    x = torch.randn(4, 64).to("npu").requires_grad_()
    with npu.stream(stream):
        y = tigon.torch.softmax(x)
    forward = [line for line in record() if line.startswith("stream ")]
    y.sum().backward()
    assert len(forward) == 1 and [line for line in record() if line.startswith("stream ")] == 2 * forward
    tigon.torch.softmax(x.detach())
    assert [line for line in record() if line.startswith("stream ")] == 2 * forward
    assert tigon.release(stream.npu_stream) == 1


def test_workspace_is_torch_npus():
    tigon.release()
    near(both("cross_entropy", PROBLEMS["cross_entropy"].copy("npu")), both("cross_entropy", PROBLEMS["cross_entropy"].copy("cpu")))
    assert npu.allocated and all(card == 0 for _, card, _ in npu.allocated.values())
    tigon.release()
    assert not npu.allocated


def test_cards():
    """A call runs where its tensors lie, whichever card is current, and leaves that as it was."""
    tensors = PROBLEMS["cross_entropy"].copy("npu:1")
    stream = npu.Stream(1)
    with npu.stream(stream):
        got = both("cross_entropy", tensors)
        assert {card for _, card, _ in npu.allocated.values()} == {1}
    assert npu.current_device() == 0
    assert {line.partition(" of ")[2] for line in record() if line.startswith("stream ")} == {"device 1"}
    near(got, both("cross_entropy", PROBLEMS["cross_entropy"].copy("npu:0")))
    tigon.sync()
    tigon.release()
    assert npu.current_device() == 0


def test_tensors_of_two_cards_are_refused():
    x, w = torch.ones(4, 64).to("npu:0"), torch.ones(64).to("npu:1")
    with pytest.raises(ValueError, match="rms_norm_forward: weight is on npu:1, expected npu:0, the device of x"):
        tigon.torch.rms_norm(x, w)
    with pytest.raises(ValueError, match="rms_norm_forward: weight"):
        ops.rms_norm_forward(x, w)
    with pytest.raises(ValueError, match="weight is on cpu, expected npu:0"):
        tigon.torch.rms_norm(x, w.cpu())


def test_compile():
    x, w = (torch.randn(4, 64).to("npu").requires_grad_(), torch.randn(64).to("npu"))

    def function(x):
        return tigon.torch.swiglu(tigon.torch.rms_norm(x, w), x).sum()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    one, two = (torch.autograd.grad(f(x), x)[0] for f in (function, compiled))
    assert torch.equal(one.cpu(), two.cpu())


def test_tensors_without_memory():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(4, 64, device="npu")
        y = tigon.torch.rms_norm(x, torch.empty(64, device="npu"))
    assert y.shape == (4, 64) and y.device == torch.device("npu:0")
    assert not [line for line in record() if line.startswith("launch")]


def test_autocast():
    x, w = torch.randn(4, 64).to("npu"), torch.randn(32, 64).to("npu")
    with torch.autocast("npu", torch.bfloat16):
        assert tigon.torch.gemm(x, w, trans_b=True).dtype == torch.bfloat16
        assert tigon.torch.rms_norm(x, w[0].bfloat16()).dtype == torch.float32


def test_what_is_no_npu_is_refused(monkeypatch):
    class External(_check.Array):
        def __dlpack_device__(self):
            return 12, 0
    x = External((1, 2), [1.0, 2.0])
    x.managed.tensor.device_type = 12
    with pytest.raises(ValueError, match="softmax_forward: x cannot be taken as a tensor: it lies on None, of which Tigon knows nothing"):
        ops.softmax_forward(x, y=x)
    with pytest.raises(ValueError, match="it lies on cpu"):
        _devices.stream(torch.ones(1), 1)
    monkeypatch.setitem(sys.modules, "torch_npu", types.SimpleNamespace(get_npu_format=lambda tensor: 29))
    with pytest.raises(ValueError, match="softmax_forward: x cannot be taken as a tensor: it is in torch_npu's own format 29"):
        tigon.torch.softmax(torch.ones(2, 2).to("npu"))


def test_a_library_without_kernels():
    program = "import torch, tigon.torch; from npu import stand_in; import os; stand_in.begin(os.environ['NPU_STAND_IN'])\n" \
              "try: tigon.torch.softmax(torch.ones(2, 2).to('npu'))\nexcept LookupError as e: print(e)"
    environment = {**os.environ, "LD_LIBRARY_PATH": os.environ["NPU_WITHOUT_KERNELS"]}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "tigon_ascend_kernels.o is not there: build Tigon with -DTIGON_ASCEND_CANN=ON" in run.stdout
