"""Tigon from Python: calls built from the run-time schema of libtigon.so, on the memory of torch's tensors."""

import ctypes
import struct

import torch

# enum tg_arg_kind of tigon/registry.h
IN, OPT, OUT, OUT_OPT, F64, I64 = range(6)
DEVICES = {"cpu": 1, "cuda": 2}  # TG_DEVICE_* of tigon/tensor.h
# DLPack's code and bits
TYPES = {torch.float32: (2, 32), torch.bfloat16: (4, 16), torch.int64: (0, 64)}


class TgTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64)]


class ArgInfo(ctypes.Structure):
    """tg_arg_info of tigon/registry.h."""
    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("reads", ctypes.c_int), ("over", ctypes.c_char_p),
        ("types", ctypes.c_void_p), ("layout", ctypes.c_int), ("value", ctypes.c_double),
        ("default_text", ctypes.c_char_p), ("required", ctypes.c_int), ("choices", ctypes.c_void_p)]


class OpInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("nargs", ctypes.c_int), ("args", ctypes.POINTER(ArgInfo))]


class TigonError(Exception):
    """What tg_last_error() said."""


def view(tensor: torch.Tensor) -> TgTensor:
    """A tg_tensor on a torch tensor's memory, which must outlive it."""
    code, bits = TYPES[tensor.dtype]
    sizes = ctypes.c_int64 * max(tensor.dim(), 1)
    where = DEVICES[tensor.device.type]
    return TgTensor(tensor.data_ptr(), where, tensor.device.index or 0, tensor.dim(),
                    code, bits, 1, sizes(*tensor.shape), sizes(*tensor.stride()), 0)


class Tigon:
    """One context of a libtigon.so."""

    def __init__(self, path: str, threads: int):
        self.lib = lib = ctypes.CDLL(path)
        lib.tg_op_at.restype = ctypes.POINTER(OpInfo)
        lib.tg_call.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        lib.tg_ctx_workspace_peak.restype = ctypes.c_size_t
        for name in ("tg_last_error", "tg_version", "tg_cpu_level"):
            getattr(lib, name).restype = ctypes.c_char_p
        handle = ctypes.c_void_p()
        self.must(lib.tg_ctx_create(ctypes.byref(handle)))
        self.ctx = handle
        self.must(lib.tg_ctx_set_threads(handle, threads))
        self.ids = {lib.tg_op_at(i).contents.name.decode(): i for i in range(lib.tg_op_count())}

    def must(self, status: int) -> None:
        if status:
            raise TigonError(self.lib.tg_last_error().decode())

    def prepare(self, op: str, args: dict):
        """The call tg_<op>(ctx, args) as a function without arguments. Every argument is one 8-byte slot."""
        info = self.lib.tg_op_at(self.ids[op]).contents
        names = [info.args[i].name.decode() for i in range(info.nargs)]
        if unknown := set(args) - set(names):
            raise TigonError(f"{op}: no argument {sorted(unknown)[0]}; there are {', '.join(names)}")
        slots, kept = bytearray(), []
        for i, name in enumerate(names):
            value = args.get(name)
            if info.args[i].kind == F64:
                slots += struct.pack("=d", value or 0)
            elif info.args[i].kind == I64:
                slots += struct.pack("=q", value or 0)
            else:
                kept += [value, view(value) if value is not None else None]
                slots += struct.pack("=Q", ctypes.addressof(kept[-1]) if value is not None else 0)
        buffer = ctypes.create_string_buffer(bytes(slots), len(slots))
        call, context, op_id = self.lib.tg_call, self.ctx.value, self.ids[op]
        address = ctypes.addressof(buffer)

        def run(_alive=(buffer, kept)) -> None:
            if call(context, op_id, address):
                raise TigonError(self.lib.tg_last_error().decode())

        return run

    def trim(self) -> None:
        """Gives the workspace back, and begins to count its peak anew."""
        self.lib.tg_ctx_workspace_trim(self.ctx)
        self.lib.tg_ctx_workspace_reset_peak(self.ctx)

    def workspace_peak(self) -> int:
        return self.lib.tg_ctx_workspace_peak(self.ctx)

    def describe(self) -> str:
        return f"Tigon {self.lib.tg_version().decode()}, level {self.lib.tg_cpu_level().decode()}"
