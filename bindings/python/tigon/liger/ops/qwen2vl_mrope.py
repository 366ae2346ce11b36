"""qwen2vl_mrope under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function
from tigon.liger.ops._traced import ops
from tigon.liger.ops.rope import rotate


def _sections(mrope_section):
    return dict(zip(("section_t", "section_h", "section_w"), mrope_section))


def qwen2vl_mrope_forward(q, k, cos, sin, mrope_section):
    return (*rotate(ops.qwen2vl_mrope_forward, ("yq", "yk"), q, k, cos, sin, **_sections(mrope_section)), cos, sin)


def qwen2vl_mrope_backward(dq, dk, cos, sin, mrope_section):
    return rotate(ops.qwen2vl_mrope_backward, ("dq", "dk"), dq, dk, cos, sin, **_sections(mrope_section))


class LigerQwen2VLMRopeFunction(Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, mrope_section, unsqueeze_dim=1):
        q, k, cos, sin = qwen2vl_mrope_forward(q, k, cos, sin, mrope_section)
        ctx.save_for_backward(cos, sin)
        ctx.mrope_section = mrope_section
        return q, k

    @staticmethod
    def backward(ctx, dq, dk):
        return (*qwen2vl_mrope_backward(dq, dk, *ctx.saved_tensors, ctx.mrope_section), None, None, None, None)
