/* rope, reference: the definition, pair by pair, in double. */
#include "rotary/rotary.h"

/* Address of row (b, s, h) of a tensor [B,S,H,D], in elements. */
static int64_t row_of(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

/* Row of a table [P,C] or [B,P,C]. */
static int64_t angle_row(const tg_tensor *t, int64_t b, int64_t p)
{
    return b * rotary_batch_stride(t, t->ndim - 3) + p * tg_stride(t, t->ndim - 2);
}

static double at(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* y = x rotated by the angle (direction 1) or by its negative (direction -1). */
static void rotate(const tg_tensor *x, const tg_tensor *y, const tg_tensor *cos,
                   const tg_tensor *sin, int64_t rotary_dim, int64_t offset, double direction)
{
    if (!x)
        return;
    const int64_t width = x->shape[3], half = (rotary_dim ? rotary_dim : width) / 2;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t s = 0; s < x->shape[1]; s++)
            for (int64_t h = 0; h < x->shape[2]; h++) {
                const int64_t xi = row_of(x, b, s, h), yi = row_of(y, b, s, h);
                for (int64_t d = 0; d < half; d++) {
                    const double c = at(cos, angle_row(cos, b, offset + s) + d);
                    const double t = at(sin, angle_row(sin, b, offset + s) + d) * direction;
                    const double first = at(x, xi + d), second = at(x, xi + d + half);
                    put(y, yi + d, first * c - second * t);
                    put(y, yi + d + half, second * c + first * t);
                }
                for (int64_t d = 2 * half; d < width; d++)
                    put(y, yi + d, at(x, xi + d));
            }
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    (void)ctx;
    rotate(args->q, args->yq, args->cos, args->sin, args->rotary_dim, args->position_offset, 1.0);
    rotate(args->k, args->yk, args->cos, args->sin, args->rotary_dim, args->position_offset, 1.0);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    (void)ctx;
    rotate(args->dyq, args->dq, args->cos, args->sin, args->rotary_dim, args->position_offset,
           -1.0);
    rotate(args->dyk, args->dk, args->cos, args->sin, args->rotary_dim, args->position_offset,
           -1.0);
    return TG_OK;
}

TG_REF_IMPLS(rope) = {
    TG_REF_IMPL(rope_forward, forward),
    TG_REF_IMPL(rope_backward, backward),
    TG_IMPLS_END,
};
