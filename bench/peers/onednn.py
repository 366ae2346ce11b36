"""oneDNN's own primitives as one more contestant, where it has them: softmax and layer_norm."""

import ctypes

import torch

from measure import Contestant
from problem import Problem, Tensor
from rows import EPS


class OneDNN:
    """libpeers_onednn.so, or nothing where it was not built; missing: why."""

    def __init__(self, path: str):
        self.missing = []
        try:
            self.lib = ctypes.CDLL(path)
        except OSError:
            self.lib = None
            self.missing = ["oneDNN's own primitives: not built here"]
            return
        self.lib.peers_onednn_create.restype = ctypes.c_void_p
        self.lib.peers_onednn_create.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_float]
        self.lib.peers_onednn_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def prepare(self, name: str, buffers: list[Tensor]):
        """The primitive on these buffers as a function without arguments; None if there is none."""
        rows, n = buffers[0].shape
        handle = self.lib.peers_onednn_create(name.encode(), rows, n, buffers[0].dtype == torch.bfloat16, EPS)
        if not handle:
            return None
        addresses = (ctypes.c_void_p * len(buffers))(*[b.data_ptr() for b in buffers])
        execute, pointer = self.lib.peers_onednn_run, ctypes.addressof(addresses)

        def run(_alive=(addresses, buffers)) -> None:
            if execute(handle, pointer):
                raise RuntimeError(f"oneDNN: {name} failed")

        return run

    def contestants(self, operator: str, sizes: dict[str, int], problem: Problem, mode: str) -> list[Contestant]:
        """One or none. Weights and their gradients are f32, whatever the rows are."""
        if not self.lib or operator not in ("softmax", "layer_norm"):
            return []
        x, dy = problem.inputs[0], problem.upstream[0]
        y, dx = torch.zeros_like(x), torch.zeros_like(x)
        outputs, grads = [y], [dx]
        forward_buffers, backward_buffers = [x, y], [dy, y, dx]
        if operator == "layer_norm":
            w, b = (v.float() for v in problem.inputs[1:])
            dw, db, mean, variance = (torch.zeros(k) for k in (len(w), len(w), len(x), len(x)))
            grads += [dw, db]
            forward_buffers, backward_buffers = [x, w, b, y, mean, variance], [dy, x, w, b, mean, variance, dx, dw, db]
        forward = self.prepare(operator + "_forward", forward_buffers)
        backward = self.prepare(operator + "_backward", backward_buffers)
        if not forward or not backward:
            return []
        runs = {"forward": [forward], "backward": [backward], "full": [forward, backward]}[mode]
        written = {"forward": outputs, "backward": grads, "full": outputs + grads}[mode]

        def run():
            for call in runs:
                call()

        def results():
            forward()
            run()
            return written

        return [Contestant("onednn", run, results)]
