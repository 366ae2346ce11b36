"""Liger-Kernel's own tests on Tigon, on a machine without a GPU: pytest -p tigon.liger.pytest test/ops test/transformers

Tigon's operators take the place of Liger's before any test is imported. Where Liger's tests ask for a GPU, the answer is for the CPU:
it has bf16, and a tensor on "cuda" lies in host memory.
"""
import contextlib
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tigon.liger


class CudaIsCpu(TorchFunctionMode):
    """Calls of PyTorch that name the device cuda mean the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*map(_cpu, args), **{name: _cpu(value) for name, value in (kwargs or {}).items()})


def _cpu(value):
    named = isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"
    return "cpu" if named else value


def _log_softmax(x, dim, half_to_float):
    """PyTorch's on the CPU rounds the sum of exponentials to bf16 where its kernel for CUDA, which tolerances are for, keeps f32."""
    y = torch.empty(x.shape, dtype=torch.float32)
    torch.ops.aten._log_softmax.out(x.float(), dim, False, out=y)
    return y.to(x.dtype)


aten = torch.library.Library("aten", "IMPL")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    tigon.liger.apply(submodules=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that there was a kernel before
        aten.impl("_log_softmax", _log_softmax, "CPU")
    if not hasattr(torch.cpu, "get_device_properties"):
        torch.cpu.get_device_properties = lambda device=None: SimpleNamespace(total_memory=_host_memory())


def pytest_configure():
    helpers = sys.modules.get("test.utils")
    if helpers:
        helpers.supports_bfloat16 = lambda: True


def _host_memory():
    import os

    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Tests of Liger's dispatcher, in test/ops, are written for cuda."""
    with contextlib.ExitStack() as stack:
        if "/test/ops/" in str(item.path):
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(torch.cuda, "is_available", lambda: True)
            stack.enter_context(CudaIsCpu())
        yield
