"""tigon.check(): operators beside their reference, on memory of the standard library alone, so that it needs neither NumPy nor PyTorch."""
import ctypes
import math

from tigon import _core


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor. Who gives the capsule away keeps the memory."""
    _fields_ = [("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_FLOAT, _INTEGER = (ctypes.c_float, 2, 32), (ctypes.c_int64, 0, 64)


class Array:
    """A compact tensor of f32 or i64 in host memory."""

    def __init__(self, shape, values=None, kind=_FLOAT):
        element, code, bits = kind
        self.shape, count = shape, math.prod(shape)
        self.values = (element * count)(*(values or ()))
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        view = _Tensor(ctypes.addressof(self.values), 1, 0, len(shape), code, bits, 1, self.sizes, None, 0)
        self.managed = _Managed(view, None, None)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


def _wave(*shape, phase=0.0):
    return Array(shape, [2 * math.sin(12.9898 * i + phase) for i in range(math.prod(shape))])


def _problems():
    """(operator, inputs, outputs, options)"""
    rows, width = 8, 256
    x, up, weight = _wave(rows, width), _wave(rows, width, phase=1), _wave(width, phase=2)
    q, k, v = (_wave(1, 16, 2, 64, phase=p) for p in range(3))
    target = Array((rows,), [31 * i for i in range(rows)], _INTEGER)
    return [
        ("gemm", (x, up), {"c": (rows, rows)}, {"trans_b": True}),
        ("rms_norm_forward", (x, weight), {"y": x.shape, "rstd": (rows,)}, {}),
        ("layer_norm_forward", (x, weight, weight), {"y": x.shape}, {}),
        ("swiglu_forward", (x, up), {"y": x.shape}, {}),
        ("swiglu_backward", (up, x, up), {"dgate": x.shape, "dup": x.shape}, {}),
        ("softmax_forward", (x,), {"y": x.shape}, {}),
        ("cross_entropy_forward", (x, target), {"loss": (1,), "dlogits": x.shape}, {}),
        ("fused_linear_cross_entropy_forward", (up, x, Array((rows,), range(rows), _INTEGER)), {"loss": (1,), "dx": x.shape}, {}),
        ("flash_attention_forward", (q, k, v), {"y": q.shape}, {"causal": True}),
        ("sum_squares_forward", (x,), {"y": (1,)}, {}),
    ]


def _difference(found, expected):
    """The largest, over the largest expected value."""
    scale = max(map(abs, expected.values)) or 1.0
    return max(abs(f - e) for f, e in zip(found.values, expected.values)) / scale


def run(tolerance=1e-5):
    print(f"tigon {_core.version}, CPU level {_core.cpu_level()}")
    for device, (count, words) in _core.devices().items():
        print(f"  {device}: {count if count else 'none'}{f', {words}' if words else ''}")
    for name, inputs, shapes, options in _problems():
        found, expected = ({n: Array(shape) for n, shape in shapes.items()} for _ in range(2))
        _core.operators[name](*inputs, **found, **options)
        ran = _core.last_impl()
        _core.operators[name](*inputs, **expected, **options, impl="ref")
        worst = max(_difference(found[n], expected[n]) for n in shapes)
        print(f"  {ran:50} {worst:.1e}")
        # (Written so that NaN fails, too.)
        if not worst <= tolerance:
            raise AssertionError(f"{ran} differs from ref/{name} by {worst:.1e}, expected at most {tolerance:.0e} of the largest value")
    print("all agree with their reference")
