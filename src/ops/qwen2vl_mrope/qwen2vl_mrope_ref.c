/* qwen2vl_mrope, reference: the definition, pair by pair, in double. */
#include "rotary/rotary.h"

typedef struct tables {
    const tg_tensor *cos, *sin;
    int64_t t, h;     /* sections */
    double direction; /* 1 forward, -1 backward */
} tables;

/* Address of row (b, s, h) of a tensor [B,S,H,D], in elements. */
static int64_t row_of(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

static double at(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* Column d of the plane that it belongs to, in a table [3,B,S,C]. */
static double angle(const tables *by, const tg_tensor *t, int64_t b, int64_t s, int64_t d)
{
    const int64_t plane = d < by->t ? 0 : d < by->t + by->h ? 1 : 2;
    return at(t, plane * tg_stride(t, 0) + b * rotary_batch_stride(t, 1) + s * tg_stride(t, 2) + d);
}

static void rotate(const tables *by, const tg_tensor *x, const tg_tensor *y)
{
    if (!x)
        return;
    const int64_t width = x->shape[3], half = width / 2;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t s = 0; s < x->shape[1]; s++)
            for (int64_t h = 0; h < x->shape[2]; h++) {
                const int64_t xi = row_of(x, b, s, h), yi = row_of(y, b, s, h);
                for (int64_t d = 0; d < half; d++) {
                    const double c = angle(by, by->cos, b, s, d);
                    const double t = angle(by, by->sin, b, s, d) * by->direction;
                    const double first = at(x, xi + d), second = at(x, xi + d + half);
                    put(y, yi + d, first * c - second * t);
                    put(y, yi + d + half, second * c + first * t);
                }
                for (int64_t d = 2 * half; d < width; d++)
                    put(y, yi + d, at(x, xi + d));
            }
}

static tg_status forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args)
{
    (void)ctx;
    const tables by = {args->cos, args->sin, args->section_t, args->section_h, 1.0};
    rotate(&by, args->q, args->yq);
    rotate(&by, args->k, args->yk);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args)
{
    (void)ctx;
    const tables by = {args->cos, args->sin, args->section_t, args->section_h, -1.0};
    rotate(&by, args->dyq, args->dq);
    rotate(&by, args->dyk, args->dk);
    return TG_OK;
}

TG_REF_IMPLS(qwen2vl_mrope) = {
    TG_REF_IMPL(qwen2vl_mrope_forward, forward),
    TG_REF_IMPL(qwen2vl_mrope_backward, backward),
    TG_IMPLS_END,
};
