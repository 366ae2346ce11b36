"""Liger-Kernel's own tests on Tigon, on a machine without a GPU:
pytest -p tigon.liger.pytest test/ops test/transformers test/chunked_loss test/megatron

Tigon's operators take the place of Liger's before any test is imported. Where Liger's tests ask for a GPU, the answer is for the CPU:
it has bf16, and in tests that name the device cuda a tensor of that device lies in host memory. Tests of several GPUs have a process for
each, and gloo between them.
"""
import contextlib
import os
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tigon.liger

# ---- PyTorch on the CPU, as tolerances expect it ----
# Some of its kernels for the CPU add up in one running sum of the tensors' own type, where those for CUDA, which Liger's tolerances are
# for, sum by pieces in f32. Here they compute as exactly, or in a wider type, and round once.

WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float64}


def _wide(x):
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _log_softmax(x, dim, half_to_float):
    """(Of f32 it is off by 1e-5 where one of 32000 classes has nearly all of the probability.)"""
    wide = x.to(WIDER.get(x.dtype, x.dtype))
    y = torch.empty_like(wide)
    torch.ops.aten._log_softmax.out(wide, dim, False, out=y)
    return y.to(x.dtype)


def _log_softmax_backward(dy, y, dim, dtype):
    """dy - exp(y) sum(dy)"""
    wide = dy.to(WIDER.get(dy.dtype, dy.dtype))
    dx = y.to(wide.dtype).exp().mul_(wide.sum(dim, keepdim=True))
    return torch.sub(wide, dx, out=dx).to(dtype)


def _nll_loss(x, target, weight, reduction, ignore_index):
    """The losses of targets, whose sum in f16 exceeds its range."""
    wide = _wide(x)
    loss, total = wide.new_empty(()), wide.new_empty(())
    weight = None if weight is None else weight.to(wide.dtype)
    torch.ops.aten.nll_loss_forward.output(wide, target, weight, reduction, ignore_index, output=loss, total_weight=total)
    return loss.to(x.dtype), total.to(x.dtype)


def _product(name):
    """Of 16 bits: accumulated in f32, rounded once. Processors without instructions for them take a hundred times as long as for f32."""
    compute = getattr(torch.ops.aten, name).out

    def product(*factors, **scales):
        wide = list(map(_wide, factors))
        return compute(*wide, **scales, out=wide[0].new_empty(0)).to(factors[0].dtype)

    return product


def _widened(function):
    """A function of tensors and options in a wider type, and its gradients, rounded once."""

    def wide(x, *args, **kwargs):
        if x.dtype not in WIDER:
            return function(x, *args, **kwargs)
        widened = [a.to(WIDER[x.dtype]) if isinstance(a, torch.Tensor) else a for a in (x, *args)]
        return function(*widened, **kwargs).to(x.dtype)

    return wide


aten = torch.library.Library("aten", "IMPL")


def _as_on_cuda():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that there was a kernel before
        aten.impl("_log_softmax", _log_softmax, "CPU")
        aten.impl("nll_loss_forward", _nll_loss, "CPU")
        aten.impl("_log_softmax_backward_data", _log_softmax_backward, "CPU")
        for name in ("mm", "addmm", "bmm", "baddbmm"):
            aten.impl(name, _product(name), "CPU")
    for name in ("layer_norm", "group_norm"):
        setattr(torch.nn.functional, name, _widened(getattr(torch.nn.functional, name)))


# ---- a CPU that answers for a GPU ----


def _cpu(value):
    named = isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"
    return "cpu" if named else value


def _on_cpu(function):
    return lambda *args, **kwargs: function(*map(_cpu, args), **{name: _cpu(value) for name, value in kwargs.items()})


# Files and folders of tests that name the device, and those that ask whether it is there when they are imported.
FOR_CUDA = ("/test/ops/", "/test/megatron/", "/test_fused_linear_scaled_cross_entropy_tp.py", "/test_selective_log_softmax_strides.py")
ASKING_AT_IMPORT = (*FOR_CUDA[1:3], "/test_norm_lora_parity.py", "/test_jsd_chunk_ignore_regression.py")
GPUS = 4  # that tests of several are told of


def _among(path, names):
    return any(name in path.as_posix() for name in names)


class CudaIsCpu(TorchFunctionMode):
    """Calls of PyTorch that name the device cuda mean the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return _on_cpu(function)(*args, **(kwargs or {}))


def _host_properties(device=None):
    return SimpleNamespace(total_memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    tigon.liger.apply(submodules=True)
    _as_on_cuda()
    torch.cpu.get_device_properties = _host_properties
    torch.cuda.is_bf16_supported = lambda: True


def pytest_configure(config):
    helpers = sys.modules.get("test.utils")
    if helpers:
        helpers.supports_bfloat16 = lambda: True


@contextlib.contextmanager
def _answering(needed):
    """While such a file is imported, or a test of it runs."""
    if not needed:
        yield
        return
    with pytest.MonkeyPatch.context() as patch, CudaIsCpu():
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: GPUS)
        patch.setattr(torch.multiprocessing, "spawn", _spawn)
        for name in ("Generator", "autocast"):
            patch.setattr(torch, name, _on_cpu(getattr(torch, name)))
        yield


_start = torch.multiprocessing.spawn


def _spawn(function, args=(), **options):
    """A test's processes, in each of which Tigon takes the place of Liger's as soon as that is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIGON_LIGER", "submodules")
        return _start(_process, (function, *args), **options)


_init_process_group = torch.distributed.init_process_group


def _init_gloo(backend, init_method, **options):
    """By a file of its own, which is gone at the end: the test removes the one that it has made."""
    _init_process_group(backend="gloo", init_method=f"{init_method}.gloo", **options)


def _process(rank, function, *args):
    with _answering(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "init_process_group", _init_gloo)
        for name in ("set_device", "synchronize"):
            patch.setattr(torch.cuda, name, lambda *given: None)
        function(rank, *args)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    with _answering(_among(item.path, FOR_CUDA)):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    with _answering(_among(collector.path, ASKING_AT_IMPORT)):
        yield


# ---- which tests, and what came of them ----


def pytest_addoption(parser):
    parser.addoption(
        "--left-out", type=Path, action="append", default=[],
        help="tests to skip: beginnings of their names, * for any text, behind lines '# why'; may be repeated",
    )  # fmt: skip
    parser.addoption("--steps", type=int, help="of tests of convergence: how many steps they train, in place of their own 20 to 100")
    parser.addoption("--rows", type=int, help="of tests of convergence: how many rows of text a step has, in place of 16")


def _shorten(module, steps, rows):
    """A module of test/convergence trains fewer steps, of fewer rows."""
    if rows:
        load = module.DataLoader
        module.DataLoader = lambda data, **options: load(data, **{**options, "batch_size": rows})
    for name, run in list(vars(module).items()):
        if steps and name.startswith("run_mini_model"):
            setattr(module, name, lambda run=run, **options: run(**{**options, "num_steps": min(steps, options["num_steps"])}))


def _left_out(path):
    """{beginning of tests' names, as a pattern: why} of such a file."""
    reasons, why = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            why = line.lstrip("# ")
        elif line.strip():
            reasons[re.compile(".*".join(map(re.escape, line.strip().split("*"))))] = why
    return reasons


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Skips what is left out. Liger's adapter of its Triton code calls what stands in its modules, Tigon here, and so does [tigon]."""
    for module in {item.module for item in items if _among(item.path, ("/test/convergence/",))}:
        _shorten(module, config.option.steps, config.option.rows)
    names = {item.nodeid for item in items}
    items[:] = [item for item in items if not ("triton" in item.nodeid and _twin(item.nodeid) in names)]
    reasons = {pattern: why for path in config.option.left_out for pattern, why in _left_out(path).items()}
    for item in items:
        for pattern, why in reasons.items():
            if pattern.match(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=f"left out: {why}"))


def _twin(nodeid):
    return nodeid.replace("nvidia-triton", "tigon")


OUTCOMES = ("passed", "failed", "skipped")


def pytest_terminal_summary(terminalreporter):
    """Passed, failed and skipped by file, and why tests were skipped."""
    files, reasons = {}, Counter()
    for outcome, kinds in zip(OUTCOMES, (("passed", "xpassed"), ("failed", "error"), ("skipped", "xfailed"))):
        for report in (r for kind in kinds for r in terminalreporter.stats.get(kind, ())):
            files.setdefault(report.nodeid.partition("::")[0], Counter())[outcome] += 1
            if outcome == "skipped":
                reasons[_reason(report)] += 1
    terminalreporter.section("Liger-Kernel's tests on Tigon")
    for name, counts in sorted(files.items()):
        terminalreporter.write_line(f"{name:72}" + "".join(f"{counts[outcome]:6} {outcome}" for outcome in OUTCOMES))
    terminalreporter.section("skipped")
    for why, count in reasons.most_common():
        terminalreporter.write_line(f"{count:6} {why}")
    total = sum(files.values(), Counter())
    terminalreporter.write_line(", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES))


def _reason(report):
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
    return text.removeprefix("Skipped: ")
