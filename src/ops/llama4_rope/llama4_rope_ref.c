/* llama4_rope, reference: products of complex numbers, pair by pair, in double. */
#include "rotary/rotary.h"

/* Address of row (b, s, h) of a tensor [B,S,H,D], in elements. */
static int64_t row_of(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

/* The same of position s in a table [P,C,2] or [B,P,C,2]. */
static int64_t freqs_row(const tg_tensor *t, int64_t b, int64_t s)
{
    return b * rotary_batch_stride(t, t->ndim - 4) + s * tg_stride(t, t->ndim - 3);
}

static double at(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* y = x w (direction 1) or x conj(w) (direction -1). */
static void multiply(const tg_tensor *x, const tg_tensor *y, const tg_tensor *freqs,
                     double direction)
{
    if (!x)
        return;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t s = 0; s < x->shape[1]; s++)
            for (int64_t h = 0; h < x->shape[2]; h++) {
                const int64_t xi = row_of(x, b, s, h), yi = row_of(y, b, s, h);
                const int64_t wi = freqs_row(freqs, b, s);
                for (int64_t d = 0; d < x->shape[3]; d += 2) {
                    const double real = at(x, xi + d), imaginary = at(x, xi + d + 1);
                    const double c = at(freqs, wi + d), t = at(freqs, wi + d + 1) * direction;
                    put(y, yi + d, real * c - imaginary * t);
                    put(y, yi + d + 1, imaginary * c + real * t);
                }
            }
}

static tg_status forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args)
{
    (void)ctx;
    multiply(args->q, args->yq, args->freqs, 1.0);
    multiply(args->k, args->yk, args->freqs, 1.0);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args)
{
    (void)ctx;
    multiply(args->dyq, args->dq, args->freqs, -1.0);
    multiply(args->dyk, args->dk, args->freqs, -1.0);
    return TG_OK;
}

TG_REF_IMPLS(llama4_rope) = {
    TG_REF_IMPL(llama4_rope_forward, forward),
    TG_REF_IMPL(llama4_rope_backward, backward),
    TG_IMPLS_END,
};
