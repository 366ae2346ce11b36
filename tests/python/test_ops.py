"""tigon.ops: operators as plain functions, on PyTorch's tensors and NumPy's arrays, and what is said where a call is wrong."""
import inspect
import os
import re
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import torch

import tigon
from tigon import ops
from tigon._imports import when_loaded
from tigon._outputs import SCHEMA

HERE = os.path.dirname(os.path.abspath(__file__))


def reference(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def test_numpy_and_torch(x):
    weight = np.full(8, 2, np.float32)
    y = ops.rms_norm_forward(x, weight)
    assert isinstance(y, np.ndarray) and y.dtype == np.float32
    np.testing.assert_allclose(y, reference(x, weight), rtol=1e-5)
    t = ops.rms_norm_forward(torch.from_numpy(x), torch.from_numpy(weight))
    assert isinstance(t, torch.Tensor) and np.array_equal(t.numpy(), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_types(dtype):
    x = torch.randn(4, 8).to(dtype)
    y, rstd = ops.rms_norm_forward(x, rstd=True)
    assert y.dtype == dtype and rstd.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(y.double(), torch.nn.functional.rms_norm(x.double(), (8,), eps=1e-6), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_indices_and_masks(dtype):
    table, ids = torch.randn(5, 8), torch.tensor([4, 0], dtype=dtype)
    assert torch.equal(ops.embedding_forward(table, ids), table[ids])
    logits = torch.randn(1, 2, 5)
    logp = ops.selective_log_softmax_forward(logits, ids[None], torch.tensor([[True, False]]), temperature=1)
    assert logp[0, 1] == 0 and logp[0, 0] != 0


def test_outputs_that_are_given_are_written_and_returned(x):
    y, rstd = np.empty_like(x), np.empty(4, np.float32)
    assert ops.rms_norm_forward(x, y=y) is y
    first, second = ops.rms_norm_forward(x, y=y, rstd=rstd)
    assert first is y and second is rstd
    assert ops.softmax_forward(y, y=y) is y


def test_optional_outputs_are_computed_where_they_are_asked_for(x):
    weight = np.ones(8, np.float32)
    y, rstd = ops.rms_norm_forward(x, weight, rstd=True)
    assert isinstance(ops.rms_norm_backward(y, x, weight, rstd, dweight=False), np.ndarray)
    dx, dweight = ops.rms_norm_backward(y, x, weight, rstd, dweight=True)
    assert dx.shape == x.shape and dweight.shape == (8,)


def test_zero_is_zero_and_none_is_the_default():
    x = np.zeros((1, 8), np.float32)
    assert ops.rms_norm_forward(x, rstd=True)[1] == pytest.approx(1e3)
    assert ops.rms_norm_forward(x, rstd=True, eps=None)[1] == pytest.approx(1e3)
    assert np.isinf(ops.rms_norm_forward(x, rstd=True, eps=0)[1])


def test_choices_by_name_by_number_and_by_bool():
    logits, target = torch.randn(4, 8), torch.arange(4)
    total = ops.cross_entropy_forward(logits, target, reduction="sum")
    assert ops.cross_entropy_forward(logits, target, reduction=1) == total
    assert ops.cross_entropy_forward(logits, target, reduction="none").shape == (4,)
    gate = torch.randn(2, 8)
    assert torch.equal(ops.geglu_forward(gate, gate, exact=True), ops.geglu_forward(gate, gate, exact="yes"))


def test_a_certain_implementation(x):
    ops.softmax_forward(x)
    assert tigon.last_impl().startswith("cpu/softmax_forward.")
    ops.softmax_forward(x, impl="ref")
    assert tigon.last_impl() == "ref/softmax_forward"


def test_workspace():
    x = torch.randn(64, 512)
    ops.rms_norm_backward(x, x, torch.ones(512), torch.ones(64), dweight=True)
    assert tigon.workspace_peak() >= 4 * 512
    tigon.workspace_trim()
    assert tigon.workspace_peak() == 0 and tigon.cpu_level()


def test_strides(x):
    wide = torch.from_numpy(np.tile(x, 2))
    gate, up = wide.chunk(2, -1)
    assert torch.equal(ops.swiglu_forward(gate, up), ops.swiglu_forward(gate.contiguous(), up.contiguous()))
    np.testing.assert_array_equal(ops.softmax_forward(x[::2]), ops.softmax_forward(x)[::2])


def freed():
    tensor = torch.randn(4, 8)
    tensor.untyped_storage().resize_(0)
    return tensor


def read_only(array):
    array.flags.writeable = False
    return array


X, ONE = torch.ones(4, 8), torch.ones(8)
WRONG = [
    (TypeError, "rms_norm_forward: x is missing", lambda: ops.rms_norm_forward()),
    (TypeError, "rms_norm_forward: x is a list, expected a tensor (an object with __dlpack__)", lambda: ops.rms_norm_forward([1.0])),
    (TypeError, "rms_norm_forward: x is a torch._C._TensorMeta, expected a tensor (an object with __dlpack__)",
     lambda: ops.rms_norm_forward(torch.Tensor)),
    (TypeError, "rms_norm_forward: there is no argument 'wieght'", lambda: ops.rms_norm_forward(X, wieght=ONE)),
    (TypeError, "rms_norm_forward: x is given twice", lambda: ops.rms_norm_forward(X, x=X)),
    (TypeError, "rms_norm_forward: 6 arguments by position, expected at most 5; outputs and options are given by name",
     lambda: ops.rms_norm_forward(X, ONE, None, None, None, 1e-6)),
    (TypeError, "rms_norm_forward: eps is 'small', expected a number", lambda: ops.rms_norm_forward(X, eps="small")),
    (TypeError, "group_norm_forward: num_groups is 1.5, expected an integer of 64 bits", lambda: ops.group_norm_forward(X, num_groups=1.5)),
    (ValueError, "group_norm_forward: y and mean cannot be made for x [4, 8, 1]; give a tensor to write to (array is too big; "
     "`arr.size * arr.dtype.itemsize` is larger than the maximum possible size.)",
     lambda: ops.group_norm_forward(np.ones((4, 8, 1), np.float32), num_groups=2**61, mean=True)),
    (ValueError, "embedding_backward: the shape of dweight is [V,8], which does not follow from what is given; give a tensor to write to",
     lambda: ops.embedding_backward(X, torch.zeros(4, dtype=torch.int64))),
    (ValueError, "cross_entropy_forward: reduction is 'average', expected one of mean, sum, none",
     lambda: ops.cross_entropy_forward(X, torch.arange(4), reduction="average")),
    (ValueError, "rms_norm_forward: weight is [7], expected [8], the last dimension of x", lambda: ops.rms_norm_forward(X, torch.ones(7))),
    (ValueError, "softmax_forward: y is [3], expected [4,8], the shape of x", lambda: ops.softmax_forward(X, y=torch.ones(3))),
    (ValueError, "softmax_forward: x is of type i64, expected f32, bf16 or f16", lambda: ops.softmax_forward(X.long())),
    (ValueError, "softmax_forward: y is read-only, expected memory that can be written",
     lambda: ops.softmax_forward(np.ones((4, 8), np.float32), y=read_only(np.ones((4, 8), np.float32)))),
    (ValueError, "softmax_forward: x has no memory (has it been freed?)", lambda: ops.softmax_forward(freed())),
    (ValueError, "softmax_forward: x cannot be taken as a tensor: Cannot pack tensors on meta", lambda: ops.softmax_forward(X.to("meta"))),
    (ValueError, "softmax_forward: x has 9 dimensions, expected at most 8", lambda: ops.softmax_forward(torch.ones([1] * 9))),
    (ValueError, "softmax_forward: x has stride -8 in dimension 0, expected 0 or more",
     lambda: ops.softmax_forward(np.ones((4, 8), np.float32)[::-1])),
    (ValueError, "swiglu_forward: up has stride 4 in its last dimension, expected 1 (contiguous); it is in Fortran order: "
     "numpy.ascontiguousarray(up), or up.contiguous() of PyTorch, is a copy that is taken",
     lambda: ops.swiglu_forward(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32, order="F"))),
    (ValueError, "softmax_forward: x has stride 2 in its last dimension, expected 1 (contiguous); its rows are not contiguous: "
     "numpy.ascontiguousarray(x), or x.contiguous() of PyTorch, is a copy that is taken", lambda: ops.softmax_forward(X[:, ::2])),
    (ValueError, "softmax_forward: y has stride 4 in its last dimension, expected 1 (contiguous); it is in Fortran order: one in C order, "
     "or none, is what an output may be", lambda: ops.softmax_forward(X.numpy(), y=np.ones((4, 8), np.float32, order="F"))),
    (ValueError, "softmax_forward: x is of type complex64, expected f32, bf16 or f16", lambda: ops.softmax_forward(X.to(torch.complex64))),
    (ValueError, "softmax_forward: x is of type float8_e5m2, expected f32, bf16 or f16", lambda: ops.softmax_forward(X.to(torch.float8_e5m2))),
    (LookupError, "softmax_forward: there is no implementation gpu/softmax_forward", lambda: ops.softmax_forward(X, impl="gpu")),
]


@pytest.mark.parametrize("type,words,call", WRONG, ids=[w for _, w, _ in WRONG])
def test_what_is_wrong_is_said(type, words, call):
    with pytest.raises(type) as error:
        call()
    assert str(error.value) == words


def test_read_only_inputs_are_read(x):
    np.testing.assert_array_equal(ops.softmax_forward(read_only(x.copy())), ops.softmax_forward(x))


def test_arrays_of_jax_are_read_and_not_written(x):
    """One that computes with JAX's, where that is installed, and a stand-in where it is not."""
    class Array:
        __module__ = "jaxlib._jax"
        __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    expected, before = ops.softmax_forward(x), x.copy()
    np.testing.assert_array_equal(ops.softmax_forward(Array(), y=np.empty_like(x)), expected)
    with pytest.raises(ValueError, match="softmax_forward: y is an array of JAX, which never changes, expected memory that can be written"):
        ops.softmax_forward(x, y=Array())
    np.testing.assert_array_equal(x, before)


def test_outputs_of_jax():
    jax = pytest.importorskip("jax")
    for dtype in ("float32", "bfloat16", "float16"):
        x = jax.random.normal(jax.random.key(0), (65, 33), dtype)
        y = ops.softmax_forward(x + x)
        assert isinstance(y, jax.Array) and y.dtype == dtype
        np.testing.assert_allclose(np.asarray(y, np.float32), np.asarray(jax.nn.softmax(x + x), np.float32), rtol=1e-2)


def test_every_operator_is_documented_and_has_a_signature():
    for name in SCHEMA:
        function = getattr(ops, name)
        parameters = inspect.signature(function).parameters
        assert set(parameters) == {a["name"] for a in SCHEMA[name]} | {"impl"}
        assert len(function.__doc__) > 40
        assert all(re.search(rf"^  {a['name']}: ", function.__doc__, re.M) for a in SCHEMA[name] if a["shape"]), name


def test_outputs_have_the_shapes_that_the_library_tells(x):
    target = np.zeros(x.shape[0], np.int64)
    assert ops.cross_entropy_forward(x, target).shape == ()
    assert ops.cross_entropy_forward(x, target, reduction="none").shape == target.shape
    assert ops.gemm(x, x, trans_a=True).shape == (x.shape[1], x.shape[1])
    heads = torch.ones(2, 3, 4, 8)
    assert ops.flash_attention_forward(heads, heads, heads, lse=True)[1].shape == (2, 4, 3)
    assert ops.group_norm_forward(heads, num_groups=3, mean=True)[1].shape == (2, 3)


def test_help_is_of_python():
    """What the manual says for C, where zero in an option is its default and TG_ZERO zero itself, is not said of Python."""
    for name, arguments in SCHEMA.items():
        text = getattr(ops, name).__doc__
        assert not re.search("TG_ZERO|NULL|HUGE_VAL", text), name
        zero = [n for n in re.findall(r"(\w+): 0 means", text) if {a["name"]: a["default"] for a in arguments}[n] == 0]
        assert text.count("0 means") == len(zero), name
    assert "eps: the default is 1e-6." in ops.rms_norm_forward.__doc__


def test_threads_have_contexts_of_their_own(x):
    expected, wrong = ops.softmax_forward(x), []

    def work():
        for _ in range(50):
            if not np.array_equal(ops.softmax_forward(x), expected):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_fork(x):
    expected = ops.softmax_forward(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(ops.softmax_forward(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_references_are_neither_lost_nor_kept(x):
    y, before = np.empty_like(x), sys.getrefcount(x)
    for _ in range(100):
        ops.rms_norm_forward(x, y=y, rstd=True)
        with pytest.raises(ValueError):
            ops.rms_norm_forward(x, x)
    assert sys.getrefcount(x) == before
    made, rstd = ops.rms_norm_forward(x, rstd=True)
    own = np.empty_like(x)
    assert sys.getrefcount(made) == sys.getrefcount(rstd) == sys.getrefcount(own)


def _refused(function, *args, **named):
    def call():
        try:
            function(*args, **named)
        except (TypeError, ValueError, LookupError):
            return
        raise AssertionError("the call is not refused")
    return call


@pytest.mark.parametrize("take", [np.asarray, torch.from_numpy])
def test_a_call_leaves_no_memory_behind(x, take):
    """Whether it succeeds or fails, early or late: 300 times as much as once."""
    x, weight, y = take(x), take(np.ones(8, np.float32)), take(np.empty_like(x))
    calls = {
        "made": lambda: ops.rms_norm_forward(x, weight, rstd=True),
        "given": lambda: ops.rms_norm_forward(x, weight, y=y),
        "a choice": lambda: ops.rms_norm_forward(x, casting_mode="gemma"),
        "an implementation": lambda: ops.rms_norm_forward(x, impl="ref"),
        "no implementation": _refused(ops.rms_norm_forward, x, impl="cpu/rms_norm_forward.v9"),
        "a wrong shape": _refused(ops.rms_norm_forward, x, x, rstd=True),
        "a wrong choice": _refused(ops.rms_norm_forward, x, casting_mode="nothing"),
        "a wrong type": _refused(ops.rms_norm_forward, x, eps="much"),
        "no tensor": _refused(ops.rms_norm_forward, x, "weight"),
        "an argument too many": _refused(ops.rms_norm_forward, x, weight, None, None, None, y),
        "an unknown name": _refused(ops.rms_norm_forward, x, bias=weight),
    }
    for what, call in calls.items():
        for _ in range(300):  # Python has caches of its own
            call()
        tracemalloc.start()
        for _ in range(300):
            call()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert kept < 300 * 8, f"{what}: {kept} bytes of 300 calls stay"


def test_random_calls_do_not_crash():
    count = os.environ.get("TIGON_PYTHON_CALLS", "100000")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-X", "faulthandler", os.path.join(HERE, "fuzz.py"), count], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{count} calls" in done.stdout


def test_the_check():
    tigon.check()


def test_two_wait_for_a_module(tmp_path, monkeypatch):
    """What is to be done once a module is loaded is done for all who ask."""
    (tmp_path / "awaited.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    done = []
    for i in range(2):
        when_loaded("awaited", lambda i=i: done.append(i))
    import awaited  # noqa: F401

    assert sorted(done) == [0, 1]
