"""torch.npu as torch_npu makes it, on a device that does not exist: device.cpp in the place of torch_npu's library, the stand-in for CANN's
run time (LD_LIBRARY_PATH) in the place of a card. begin() makes it."""
import contextlib
import ctypes
import os
import subprocess
import types

import torch


def _library(folder):
    """device.cpp, compiled once for this PyTorch; None without a compiler."""
    from torch.utils.cpp_extension import include_paths, library_paths

    source = os.path.join(os.path.dirname(__file__), "device.cpp")
    library = os.path.join(folder, f"libnpu_stand_in-{torch.__version__}.so")
    if not os.path.exists(library) or os.path.getmtime(library) < os.path.getmtime(source):
        os.makedirs(folder, exist_ok=True)
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
        command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared", "-w", abi, "-o", f"{library}.{os.getpid()}", source,
                   *(f"-I{p}" for p in include_paths()), *(f"-L{p}" for p in library_paths()), "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError:
            return None
        os.replace(f"{library}.{os.getpid()}", library)
    return ctypes.CDLL(library)


class Stream:
    def __init__(self, npu, card, address=None):
        self.npu, self.card = npu, card
        if address is None:
            made = ctypes.c_void_p()
            with npu.device(card):
                npu.acl("aclrtCreateStream", ctypes.byref(made))
            address = made.value
        self.npu_stream = address or 0


class Npu(types.ModuleType):
    """What torch_npu registers as torch.npu, as far as PyTorch and Tigon ask for it."""

    def __init__(self, library):
        super().__init__("torch.npu")
        self.library, self.run_time = library, ctypes.CDLL("libascendcl.so")
        library.stand_in_stream.restype = ctypes.c_void_p
        self.allocated = {}  # workspace by its address: bytes, card, stream

    def acl(self, name, *arguments):
        error = getattr(self.run_time, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} answers error {error}")

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        pass

    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]

    def device_count(self):
        count = ctypes.c_uint32()
        self.acl("aclrtGetDeviceCount", ctypes.byref(count))
        return count.value

    def current_device(self):
        card = ctypes.c_int32()
        self.acl("aclrtGetDevice", ctypes.byref(card))
        return card.value

    def set_device(self, card):
        self.acl("aclrtSetDevice", ctypes.c_int32(torch.device("npu", card).index))

    @contextlib.contextmanager
    def device(self, card):
        before = self.current_device()
        self.set_device(card)
        try:
            yield
        finally:
            self.set_device(before)

    def Stream(self, card=0):
        return Stream(self, card)

    def current_stream(self, card):
        return Stream(self, card, self.library.stand_in_stream(card) or 0)

    @contextlib.contextmanager
    def stream(self, stream):
        before = self.library.stand_in_stream(stream.card)
        self.library.stand_in_set_stream(stream.card, ctypes.c_void_p(stream.npu_stream))
        try:
            yield
        finally:
            self.library.stand_in_set_stream(stream.card, ctypes.c_void_p(before))

    def caching_allocator_alloc(self, size, device, stream):
        memory = ctypes.c_void_p()
        with self.device(device):
            self.acl("aclrtMalloc", ctypes.byref(memory), ctypes.c_size_t(size), 0)
        self.allocated[memory.value] = size, device, stream
        return memory.value

    def caching_allocator_delete(self, address):
        del self.allocated[address]
        self.acl("aclrtFree", ctypes.c_void_p(address))


def begin(folder):
    """torch.npu; None without a compiler."""
    library = _library(folder)
    if library:
        library.stand_in_begin()
        torch.utils.rename_privateuse1_backend("npu")
        torch._register_device_module("npu", Npu(library))
        torch.utils.generate_methods_for_privateuse1_backend()
    return library and torch.npu
