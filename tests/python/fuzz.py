"""Random calls of tigon.ops, most of them wrong: each must return or raise an exception that names the operator.
    fuzz.py COUNT [SEED]
"""
import random
import sys

import numpy as np
import torch
import tigon
from tigon._outputs import SCHEMA
from torch._subclasses.fake_tensor import FakeTensorMode

TYPES = [torch.float32] * 6 + [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool,
                               torch.complex64, torch.float8_e4m3fn]
EXPECTED = (TypeError, ValueError, NotImplementedError, MemoryError, LookupError, RuntimeError, BufferError, OverflowError)


class Strange:
    """An object whose __dlpack__ is not what it should be."""

    def __init__(self, what):
        self.what = what

    def __dlpack_device__(self):
        return self.what if isinstance(self.what, (tuple, int)) else (1, 0)

    def __dlpack__(self, **options):
        if isinstance(self.what, Exception):
            raise self.what
        return self.what


def freed(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor


def read_only(array):
    array.flags.writeable = False
    return array


class Caller:
    def __init__(self, seed):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.fake = FakeTensorMode()

    def shape(self):
        usual = [(4, 8), (8,), (2, 3, 8), (2, 5, 4, 8), (4,), (1,), (), (3, 2, 5, 4), (5, 4), (2, 2, 7, 8), (0, 8), (4, 0), (2, 3)]
        if self.random.random() < 0.9:
            return self.random.choice(usual)
        return tuple(self.random.randint(0, 4) for _ in range(self.random.randint(0, 10)))

    def plain(self, dtype=None, shape=None):
        dtype = dtype or self.random.choice(TYPES)
        shape = self.shape() if shape is None else shape
        if dtype in (torch.int64, torch.int32, torch.int16, torch.uint8):
            low = 0 if dtype == torch.uint8 or self.random.random() < 0.8 else -200
            return torch.randint(low, 9, shape, dtype=dtype)
        if dtype == torch.bool:
            return torch.rand(shape) < 0.5
        return torch.randn(shape).to(dtype)

    def tensor(self):
        t = self.plain()
        kinds = ["plain"] * 12 + ["transposed", "expanded", "strided", "freed", "meta", "sparse", "numpy", "read_only", "reversed", "fake",
                                  "leaf", "offset", "inference", "view"]
        kind = self.random.choice(kinds)
        if kind == "transposed" and t.dim() > 1:
            return t.transpose(0, -1)
        if kind == "expanded" and t.dim() and t.shape[0]:
            return t[:1].expand(3, *t.shape[1:])
        if kind == "strided" and t.dim():
            return t[..., ::2]
        if kind == "freed":
            return freed(t)
        if kind == "meta":
            return t.to("meta")
        if kind == "sparse" and t.dtype == torch.float32 and t.dim():
            return t.to_sparse()
        if kind in ("numpy", "read_only", "reversed") and t.dtype not in (torch.bfloat16, torch.float8_e4m3fn):
            array = t.numpy().copy()
            return {"numpy": array, "read_only": read_only(array), "reversed": array[..., ::-1] if array.ndim else array}[kind]
        if kind == "fake":
            return self.fake.from_tensor(self.plain(torch.float32))
        if kind == "leaf" and t.is_floating_point():
            return t.requires_grad_()
        if kind == "offset" and t.dim() and t.shape[0] > 1:
            return t[1:]
        if kind == "inference":
            with torch.inference_mode():
                return self.plain(torch.float32)
        return t

    def anything(self):
        return self.random.choice([None, True, False, 1, -1, 2.5, "x", b"x", [1.0, 2.0], (), {}, object(), torch.Tensor, np.float32(1), np.ndarray,
                                   memoryview(b"1234"), Strange(None), Strange(1), Strange((2, 0)), Strange("capsule"), Strange((99, 5)),
                                   Strange(ValueError("no")), Strange(torch.utils.dlpack.to_dlpack(torch.ones(3))), range(3), len])

    def option(self, argument):
        choices = list(argument["choices"] or {})
        return self.random.choice([None, 0, 1, 2, 3, -1, True, False, 0.5, 1e-6, 0.0, -0.0, float("nan"), float("inf"), -1e300, 2**31, 2**62,
                                   -2**63, 2**63, 10**30, "mean", "yes", "", "\0", [], b"none", torch.tensor(2.0), np.int64(1)]
                                  + choices * 10)

    def call(self):
        name = self.random.choice(list(SCHEMA))
        wrong = self.random.choice([0.0, 0.02, 0.2])
        good = self.plain(torch.float32)
        arguments = {}
        for a in SCHEMA[name]:
            tensor = a["kind"] in ("in", "opt", "out", "out_opt")
            if not tensor and self.random.random() < (1.0 if a["required"] else 0.2):
                arguments[a["name"]] = self.option(a) if self.random.random() < 0.7 else 1
            elif tensor and self.random.random() < {"in": 0.98, "opt": 0.5, "out": 0.2, "out_opt": 0.3}[a["kind"]]:
                pick = self.random.random()
                if pick < wrong:
                    arguments[a["name"]] = self.anything()
                elif pick < 0.5:
                    arguments[a["name"]] = good  # one tensor in many places
                elif a["kind"] == "out_opt" and pick < 0.7:
                    arguments[a["name"]] = True
                else:
                    index = a["rule"] == "INDEX" and self.random.random() < 0.8
                    arguments[a["name"]] = self.plain(torch.int64, good.shape[:-1]) if index else self.tensor()
        if self.random.random() < 0.02:
            arguments[self.random.choice(["impl", "other", "accumulate"])] = self.random.choice(["ref", "cpu", "unfused", "x/y", "a" * 500, 1])
        return name, arguments


def main(count, seed=0):
    caller = Caller(int(seed))
    returned = 0
    for i in range(int(count)):
        name, arguments = caller.call()
        try:
            getattr(tigon.ops, name)(**arguments)
            returned += 1
        except EXPECTED as error:
            words = str(error)
            assert words.startswith(f"{name}: ") or isinstance(error, (MemoryError, RuntimeError)), f"{name}: {error!r}"
    print(f"{count} calls, of which {returned} were right")


if __name__ == "__main__":
    import tigon.ops
    main(*sys.argv[1:])
