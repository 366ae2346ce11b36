"""What TRL computes of a model's last layer, on Tigon: log-probabilities of tokens, and a student's divergence from its teacher."""
import functools
from types import SimpleNamespace

import torch
from transformers import PreTrainedModel

import tigon.torch
from tigon._devices import KEYS
from tigon.liger.chunked_loss._last_layer import DEVICE_ROOM, ROOM
from tigon.liger.ops._shared import Function, like, scaled
from tigon.liger.ops._traced import ops
from tigon.liger.ops.fused_linear_cross_entropy import as_given, operands
from tigon.transformers._install import apply_for_trainer

TYPES = (torch.float32, torch.bfloat16, torch.float16)


def _is_taken(*tensors):
    """On a device of Tigon's, of its types, and whole: DeepSpeed's ZeRO-3 takes a layer's matrix away until backward."""
    return all(
        t is None or (t.device.type in KEYS and t.dtype in TYPES and type(t) in (torch.Tensor, torch.nn.Parameter) and not hasattr(t, "ds_id"))
        for t in tensors
    )


def some_positions(original):
    """Whether TRL projects the positions alone whose log-probabilities count: Tigon's operators take any number of them."""
    return lambda device: device.type in KEYS or original(device)


def FusedHead(original):
    """ChunkedLogProbFunction, whose apply() gives log-probabilities, entropies and the like, in the place of TRL's."""

    def apply(
        hidden, weight, bias, targets, temperature, chunk_size, final_logit_softcapping=None, logit_scale=1.0,
        outputs=("entropy", "log_sum_sq_probs", "mean_logits", "is_top1"),
    ):  # fmt: skip
        capped_mean = final_logit_softcapping is not None and "mean_logits" in outputs  # of logits behind the cap
        if not _is_taken(hidden, weight, bias) or capped_mean or not logit_scale:
            return original.apply(hidden, weight, bias, targets, temperature, chunk_size, final_logit_softcapping, logit_scale, outputs)
        if not torch.is_autocast_enabled(hidden.device.type):
            weight, bias = weight.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype)
        names = {"entropy": "entropy", "mean_logits": "mean_logits", "log_sum_sq_probs": "log_sum_sq_probs", "is_top1": "predicted"}
        asked = {name: True for output, name in names.items() if output in outputs}
        found = tigon.torch.fused_linear_logp(
            hidden, weight, targets, bias, temperature=temperature, softcap=final_logit_softcapping, logit_scale=logit_scale, **asked
        )
        logp, *others = found if asked else (found,)
        # Results come in the order of the operator's.
        found = dict(zip([n for n in ("entropy", "mean_logits", "log_sum_sq_probs", "predicted") if n in asked], others))
        mean, predicted = found.get("mean_logits"), found.get("predicted")
        return (
            logp, found.get("entropy"), found.get("log_sum_sq_probs"), None if mean is None else mean / temperature,
            None if predicted is None else predicted == targets,
        )  # fmt: skip

    return SimpleNamespace(apply=apply)


def with_frozen_models(original):
    """__init__() of a trainer of TRL's. Its reference model and its teacher are patched as the model that it trains is, which is the one that
    transformers knows of."""

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        for name in ("ref_model", "teacher_model"):
            frozen = getattr(self, name, None)
            frozen = None if frozen is None else self.accelerator.unwrap_model(frozen)
            if self.args.use_liger_kernel and isinstance(frozen, PreTrainedModel):
                apply_for_trainer(frozen, **(self.args.liger_kernel_config or {}))

    return init


class Head:
    """A model's last layer: logits = softcap(scale (x weight^T + bias)), in f32."""

    def __init__(self, x, weight, bias, scale, softcap):
        self.x, self.weight, self.bias = operands(x, weight, bias)
        self.scale, self.softcap = scale, softcap

    def logits(self, rows):
        x = self.x[rows]
        z = ops.gemm(x, self.weight, c=x.new_empty(x.shape[0], self.weight.shape[0], dtype=torch.float32), trans_b=True)
        if self.bias is not None:
            z += self.bias
        if self.scale != 1:
            z *= self.scale
        if self.softcap is not None:
            z.div_(self.softcap).tanh_().mul_(self.softcap)
        return z

    def through(self, dz, z):
        """The gradient of x weight^T + bias from that of the logits, which it overwrites."""
        if self.softcap is not None:
            dz *= 1 - (z / self.softcap).square_()
        if self.scale != 1:
            dz *= self.scale
        return dz


class Divergence(Function):
    """The sums over all rows of the divergence and of the student's entropy; the gradients are computed while a chunk's logits are there."""

    @staticmethod
    def forward(ctx, x, weight, bias, teacher_x, teacher_weight, teacher_bias, beta, temperature, scales, softcaps):
        student = Head(x, weight, bias, scales[0], softcaps[0])
        teacher = Head(teacher_x, teacher_weight, teacher_bias, scales[1], softcaps[1])
        wanted = ctx.needs_input_grad[:3]
        sums = [x.new_zeros((), dtype=torch.float32), x.new_zeros((), dtype=torch.float32)]
        dx, dweight = like(student.x) if wanted[0] else None, like(student.weight, torch.float32).zero_() if wanted[1] else None
        dbias = like(student.bias, torch.float32).zero_() if wanted[2] else None
        # Of a row: the logits of both, and the gradient of the student's.
        room = ROOM if x.device.type == "cpu" else DEVICE_ROOM
        step = max(room // (12 * max(weight.shape[0], 1)), 1)
        for begin in range(0, x.shape[0], step):
            rows = slice(begin, begin + step)
            dz = _chunk(student, teacher, rows, sums, beta, temperature, any(wanted))
            if dx is not None:
                ops.gemm(dz.to(dx.dtype), student.weight, c=dx[rows])
            if dweight is not None:
                ops.gemm(dz.to(student.x.dtype), student.x[rows], c=dweight, trans_a=True, beta=1.0)
            if dbias is not None:
                dbias += dz.sum(0)
        ctx.save_for_backward(*as_given((dx, dweight, dbias), (x, weight, bias)))
        ctx.mark_non_differentiable(sums[1])
        return tuple(sums)

    @staticmethod
    def backward(ctx, upstream, _):
        return (*scaled(upstream, *ctx.saved_tensors), *(None,) * 7)


def _chunk(student, teacher, rows, sums, beta, temperature, with_gradient):
    """Adds a chunk's divergence and entropy, and returns the gradient of the student's product, if it is wanted."""
    z, target = student.logits(rows), teacher.logits(rows)
    nothing = torch.zeros(z.shape[0], dtype=torch.int64, device=z.device)
    sums[1] += ops.softmax_logp_forward(z, nothing, entropy=True, temperature=float(temperature))[1].sum()
    count = torch.full((), z.shape[0], dtype=torch.float32, device=z.device)  # the operator's loss is a mean
    found = ops.softmax_jsd_forward(z, target, dloss=count, dstudent=with_gradient, beta=float(beta), temperature=float(temperature))
    loss, dz = found if with_gradient else (found, None)
    sums[0] += loss * count
    return student.through(dz, z) if with_gradient else None


def divergence_loss(original):
    """_chunked_divergence_loss of TRL, with its arguments."""

    def loss(
        student_hidden_states, teacher_hidden_states, student_lm_head_weight, teacher_lm_head_weight, completion_mask, beta,
        num_items_in_batch=None, student_lm_head_bias=None, teacher_lm_head_bias=None, student_logit_scale=1.0, teacher_logit_scale=1.0,
        student_final_logit_softcapping=None, teacher_final_logit_softcapping=None, temperature=1.0,
    ):  # fmt: skip
        given = dict(locals())
        given.pop("original", None)
        heads = student_lm_head_weight, teacher_lm_head_weight, student_lm_head_bias, teacher_lm_head_bias
        if not _is_taken(student_hidden_states, teacher_hidden_states, *heads):
            return original(**given)
        valid = completion_mask.reshape(-1) != 0
        x, teacher_x = (t.reshape(-1, t.shape[-1])[valid] for t in (student_hidden_states, teacher_hidden_states))
        total, entropy = Divergence.apply(
            x, student_lm_head_weight, student_lm_head_bias, teacher_x.detach(), teacher_lm_head_weight.detach(),
            None if teacher_lm_head_bias is None else teacher_lm_head_bias.detach(), beta, temperature,
            (student_logit_scale, teacher_logit_scale), (student_final_logit_softcapping, teacher_final_logit_softcapping),
        )  # fmt: skip
        count = valid.sum()
        if num_items_in_batch is None:
            return total / count.clamp(min=1), entropy, count
        items = num_items_in_batch.to(total.device) if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch
        return total / items, entropy, count

    return loss
