"""PyTorch's devices as Tigon has them, and what DLPack cannot say of an NPU. torch_npu makes PyTorch's PrivateUse1 the device npu, which
DLPack calls an external one: it has no word for its streams."""
import os
import sys

# What kernels are registered for.
KEYS = {"cpu": "CPU", "cuda": "CUDA", "npu": "PrivateUse1"}
# Formats of torch_npu in which elements lie where their strides say: undefined, NCHW, NHWC, ND, NCDHW, NC, NCL.
_PLAIN = (-1, 0, 1, 2, 30, 35, 47)


def rows(x):
    """x, if its rows follow each other evenly and each is contiguous; else a copy of which that holds. None stays None."""
    if x is None or x.is_contiguous():
        return x
    if x.dim() and x.stride(-1) == 1:
        try:
            x.view(-1, x.shape[-1])
            return x
        except RuntimeError:
            pass
    return x.contiguous()


def side_by_side(x):
    """x, or a copy where the elements of its last dimension lie apart: operators take any strides but there. None stays None."""
    return x.contiguous() if x is not None and x.dim() and x.stride(-1) > 1 and x.shape[-1] > 1 else x


# What the library gives by default to the logits of a chunk of rows (ops.h, fused_linear_cross_entropy), on the CPU and elsewhere.
_CHUNK_BYTES = {"cpu": min(max(56, 16 * (os.cpu_count() or 1)), 1024) << 20}
_DEVICE_CHUNK_BYTES = 1 << 30


def keeps_logits(weight, target, chunk_bytes=None):
    """Whether fused_linear_cross_entropy keeps its logits for a separate backward: where those of all rows take no more memory than a
    chunk of them, which the call would take anyway. Not on a CUDA card, where its own kernels write none, so that other rows in a call
    choose no other implementation: there a caller asks for them."""
    if target.device.type == "cuda":
        return False
    return 4 * target.numel() * weight.shape[0] <= (chunk_bytes or _CHUNK_BYTES.get(target.device.type, _DEVICE_CHUNK_BYTES))


def stream(tensor, wanted):
    """The address of the stream that PyTorch works on now where a tensor lies, if it is wanted; 0 otherwise. torch_npu puts its own work
    there from a queue of the host; what is in it has been put there when its `npu_stream` is known."""
    torch = sys.modules.get("torch")
    device = getattr(tensor, "device", None)
    if not torch or not isinstance(tensor, torch.Tensor) or device.type != "npu":
        raise ValueError(f"it lies on {device}, of which Tigon knows nothing; of PyTorch's devices these are known: {', '.join(KEYS)}")
    torch_npu = sys.modules.get("torch_npu")
    layout = torch_npu.get_npu_format(tensor) if torch_npu else -1
    if layout not in _PLAIN:
        raise ValueError(f"it is in torch_npu's own format {layout}; torch_npu.npu_format_cast(tensor, 2) is a copy that is taken")
    return torch.npu.current_stream(device.index).npu_stream if wanted else 0


def card(number):
    """A context in which a card is current."""
    return sys.modules["torch"].npu.device(number)


def allocate(size, number, address):
    return sys.modules["torch"].npu.caching_allocator_alloc(size, number, address)


def release(address):
    sys.modules["torch"].npu.caching_allocator_delete(address)
