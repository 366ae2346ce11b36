"""A model's last layer under a loss of its tokens' log-probabilities, chunk by chunk: the logits of a chunk are kept until the loss has said
what each of its log-probabilities counts, and so are multiplied once; those of all tokens never exist."""
import torch

from tigon.liger.ops._shared import scaled
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import as_given, operands

# Bytes of the logits of a chunk: on the CPU, and on another device, where more rows a product pay for the sums of the weight's gradient.
ROOM, DEVICE_ROOM = 128 << 20, 1 << 30


def holds(x, weight):
    """Whether the gradient of all logits of x is held where it takes no more memory than f32 sums of the weight's gradient: products
    behind the last chunk then leave out to read and write these sums for each. On the CPU memory is dearer. f16 needs the scales of
    fused_linear_logp."""
    return x.device.type != "cpu" and weight.dtype == torch.bfloat16 and x[..., 0].numel() <= 2 * weight.shape[1]


class Held:
    """The gradients of logits, and x, of all rows, chunk behind chunk."""

    def __init__(self, x, weight):
        self.x = x.new_empty(x[..., 0].numel(), x.shape[-1])
        self.dlogits = x.new_empty(self.x.shape[0], weight.shape[0])
        self.parts = []  # and where their rows are
        self.count = 0

    def add(self, layer, part, target, logits, **given):
        rows = slice(self.count, self.count + target.numel())
        self.parts.append((part, rows))
        self.count = rows.stop
        self.x[rows] = layer.x[part].reshape(-1, self.x.shape[1])
        ops.softmax_logp_backward(logits, target, dlogits=self.dlogits[rows].view(logits.shape), **given, **layer.options)

    def multiply(self, layer):
        """Fills in the layer's gradients. The memory of x becomes that of dx."""
        if layer.wanted[2] and layer.bias is not None:
            layer.sums["dbias"] = layer.bias.new_empty(layer.bias.shape, dtype=torch.float32)
            ops.sum_rows_forward(self.dlogits, y=layer.sums["dbias"])
        layer.sums["dweight"] = torch.empty_like(layer.weight)
        ops.gemm(self.dlogits, self.x, c=layer.sums["dweight"], trans_a=True)
        if layer.dx is None:
            return
        ops.gemm(self.dlogits, layer.weight, c=self.x)
        for part, rows in self.parts:
            to = layer.dx[part]
            to.copy_(self.x[rows].view(to.shape))


class LastLayer:
    """logits = (x weight^T + bias) / temperature of sequences x [G,N,S,H], G of which belong together.

    wanted: which of the gradients of x, weight and bias are computed. They are sums over all rows in f32, rounded once. again: others are
    added to them."""

    def __init__(self, x, weight, bias, groups=1, wanted=(False, False, False), ignore_index=-100, temperature=1.0, again=False):
        self.given = x, weight, bias
        x, self.weight, self.bias = operands(x, weight, bias)
        self.x = x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
        self.options = {"ignore_index": ignore_index, "temperature": float(temperature)}
        self.dx = torch.empty_like(self.x) if wanted[0] else None
        self.wanted, self.again = wanted, again
        self.sums = {}  # of the gradients of weight and bias, by name

    def logp(self, target, part, **outputs):
        """Log-probabilities of the targets of a part; 0 of those that are ignored."""
        return ops.fused_linear_logp_forward(self.x[part], self.weight, target, bias=self.bias, logp=True, **outputs, **self.options)

    def run(self, target, loss, of_tokens=False):
        """Each chunk's log-probabilities to loss(part, logp), which returns what the loss derives by them. The part is some sequences of
        each group; where a token's derivative depends on no other token, some of its tokens if a sequence is too long."""
        groups, count, length = target.shape
        room = ROOM if self.x.device.type == "cpu" else DEVICE_ROOM
        tokens = room // max(4 * groups * self.weight.shape[0], 1)
        kept = tokens >= length or (of_tokens and tokens > 0)
        # Where they do not fit, all at once, in chunks that the operators cut and multiply twice.
        step, piece = (tokens // max(length, 1) or 1, tokens) if kept else (count, length)
        parts = [
            (slice(None), slice(n, n + step), slice(s, s + piece))
            for n in range(0, max(count, 1), max(step, 1))
            for s in range(0, max(length, 1), max(piece, 1))
        ]
        several = self.again or len(parts) > 1
        held = Held(self.x, self.weight) if kept and len(parts) > 1 and self._may_hold() else None
        for part in parts:
            self._run(target[part], part, loss, kept, several, held)
        if held:
            held.multiply(self)

    def _may_hold(self):
        return self.wanted[1] and not self.again and not self.sums and holds(self.x, self.weight)

    def _run(self, target, part, loss, keep, several, held):
        if not any(self.wanted):
            loss(part, self.logp(target, part))
            return
        logp, lse, *logits = self.logp(target, part, lse=True, logits=keep)
        if held:
            held.add(self, part, target, logits[0], lse=lse, dlogp=loss(part, logp).contiguous())
            return
        first = not self.sums
        if first:
            self._begin_sums(several)
        ops.fused_linear_logp_backward(
            self.x[part], self.weight, target, bias=self.bias, lse=lse, logits=logits[0] if keep else None,
            dlogp=loss(part, logp).contiguous(), dx=None if self.dx is None else self.dx[part], **self.sums, accumulate=int(not first),
            **self.options,
        )  # fmt: skip

    def _begin_sums(self, several):
        """Of gradients: in f32 over several chunks; a single one's is rounded where it is computed."""
        for name, tensor, want in zip(("dweight", "dbias"), (self.weight, self.bias), self.wanted[1:]):
            if want and tensor is not None:
                self.sums[name] = torch.empty(tensor.shape, dtype=torch.float32 if several else tensor.dtype, device=tensor.device)

    def gradients(self):
        """Of x, weight and bias, in their types, None for what is not wanted."""
        dx = None if self.dx is None else self.dx.reshape(self.given[0].shape)
        return as_given((dx, self.sums.get("dweight"), self.sums.get("dbias")), self.given)

    def mean_logits(self):
        """The mean of all logits of each group's sequences [G, N], which is of x times the mean row of the weight."""
        row = torch.empty(self.weight.shape[1:], dtype=torch.float32, device=self.weight.device)
        ops.sum_rows_forward(self.weight, y=row, scale=1 / max(self.weight.shape[0], 1))
        means = self.x.mean(2, dtype=torch.float32) @ row
        return means if self.bias is None else means + self.bias.mean(dtype=torch.float32)


def finish(ctx, layer, loss, metrics, bias_at):
    """What forward of a Function returns."""
    ctx.bias_at = bias_at
    ctx.save_for_backward(*layer.gradients())
    return loss, tuple(metrics)


def gradients_of(ctx, dloss):
    """What backward of a Function returns: x and weight come first."""
    found = [None] * max(len(ctx.needs_input_grad), ctx.bias_at + 1)
    found[0], found[1], found[ctx.bias_at] = scaled(dloss, *ctx.saved_tensors)
    return tuple(found)


def wanted_of(ctx, bias_at):
    """Whether x, weight and bias need a gradient."""
    return tuple(at < len(ctx.needs_input_grad) and ctx.needs_input_grad[at] for at in (0, 1, bias_at))


class Loss(torch.nn.Module):
    """A module that keeps what it was made with under the same names."""

    def __init__(self, given):
        super().__init__()
        for name, value in given.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)
