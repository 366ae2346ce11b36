"""rope under Liger-Kernel's names: heads come before positions there, after them in Tigon."""
from tigon._devices import side_by_side
from tigon.liger.ops._shared import Function, like
from tigon.liger.ops._traced import ops


def _table(table, unsqueeze_dim):
    """[1,S,C] or [B,S,C] of a table that may have a dimension for heads, or none for the batch."""
    if table.dim() == 4:
        heads = next((d for d in (unsqueeze_dim, 1) if table.shape[d] == 1), None)
        table = table.squeeze() if heads is None else table.squeeze(heads)
    return (table.unsqueeze(0) if table.dim() == 2 else table).contiguous()


def _rotary_dim(cos, head_dim, rotary_dim):
    if rotary_dim is None:
        return min(cos.shape[-1], head_dim) // 2 * 2
    if rotary_dim % 2 or not 0 < rotary_dim <= head_dim:
        raise ValueError(f"rotary_dim must be even and in (0, head_dim={head_dim}]; got {rotary_dim}")
    if cos.shape[-1] < rotary_dim // 2:
        raise ValueError(f"cos/sin need at least rotary_dim / 2 = {rotary_dim // 2} entries in the last dimension; got {cos.shape[-1]}")
    return rotary_dim


def rotate(op, names, q, k, *tables, **options):
    """A rotary operator on q and k of heads before positions; names: those of its two outputs."""
    q, k = side_by_side(q.transpose(1, 2)), side_by_side(k.transpose(1, 2))
    if q.dtype == k.dtype:
        outputs = op(q, k, *tables, **dict(zip(names, (like(q), like(k)))), **options)
    else:
        outputs = [op(x, None, *tables, **{names[0]: like(x)}, **options) for x in (q, k)]
    return tuple(y.transpose(1, 2) for y in outputs)


def rope_forward(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    cos, sin = _table(cos, unsqueeze_dim), _table(sin, unsqueeze_dim)
    width = _rotary_dim(cos, q.shape[-1], rotary_dim)
    return (*rotate(ops.rope_forward, ("yq", "yk"), q, k, cos, sin, rotary_dim=width), cos, sin)


def rope_backward(dq, dk, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    cos, sin = _table(cos, unsqueeze_dim), _table(sin, unsqueeze_dim)
    width = _rotary_dim(cos, dq.shape[-1], rotary_dim)
    return rotate(ops.rope_backward, ("dq", "dk"), dq, dk, cos, sin, rotary_dim=width)


class LigerRopeFunction(Function):
    """position_ids are taken and not used, as in Liger: cos and sin are those of the positions. q and k stay as they are."""

    @staticmethod
    def forward(ctx, q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
        q, k, cos, sin = rope_forward(q, k, cos, sin, position_ids, unsqueeze_dim, rotary_dim)
        ctx.save_for_backward(cos, sin)
        ctx.rotary_dim = rotary_dim
        return q, k

    @staticmethod
    def backward(ctx, dq, dk):
        return (*rope_backward(dq, dk, *ctx.saved_tensors, rotary_dim=ctx.rotary_dim), None, None, None, None, None)
