/* llama4_rope as an eager framework runs it: complex numbers exist in f32 alone there, so 16-bit
 * tensors are converted, multiplied by the table in one step, and converted back. */
#include "rotary.h"

/* The table of batch b: a row a position, each for `repeat` rows. */
static mat freqs_at(eager *e, const tg_tensor *t, int64_t b, const tg_tensor *x, int64_t repeat)
{
    const int64_t at = b * rotary_batch_stride(t, t->ndim - 4);
    const int type = tg_type_of(t);
    mat m = eager_wide(e, eager_view(element_at(tg_data(t), type, at), type, x->shape[1],
                                     x->shape[3], tg_stride(t, t->ndim - 3)));
    m.repeat = repeat;
    return m;
}

static void multiply(eager *e, eager_op op, const tg_tensor *freqs, const tg_tensor *x,
                     const tg_tensor *y)
{
    if (!x || tg_numel(x) == 0)
        return;
    const rotary_rows rows = rotary_rows_of(x, y);
    for (int64_t b = 0; b < x->shape[0]; b++) {
        const mat w = freqs_at(e, freqs, b, x, rows.repeat);
        for (int64_t h = 0; h < rows.groups; h++) {
            const mat from = rotary_rows_at(&rows, x, b, h), to = rotary_rows_at(&rows, y, b, h);
            if (from.type == TG_F32) {
                eager_binary(e, op, to, from, w);
                continue;
            }
            const mat z = eager_wide(e, from), product = eager_like(e, z);
            eager_binary(e, op, product, z, w);
            eager_unary(e, EAGER_COPY, to, product);
            eager_free(e, z);
            eager_free(e, product);
        }
        eager_free(e, w); /* if it is a copy */
    }
}

static tg_status forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args)
{
    eager e = eager_begin(ctx);
    multiply(&e, EAGER_COMPLEX_MUL, args->freqs, args->q, args->yq);
    multiply(&e, EAGER_COMPLEX_MUL, args->freqs, args->k, args->yk);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args)
{
    eager e = eager_begin(ctx);
    multiply(&e, EAGER_COMPLEX_MUL_CONJ, args->freqs, args->dyq, args->dq);
    multiply(&e, EAGER_COMPLEX_MUL_CONJ, args->freqs, args->dyk, args->dk);
    return eager_end(&e);
}

UNFUSED_IMPLS(llama4_rope) = {
    UNFUSED_IMPL(llama4_rope_forward, forward),
    UNFUSED_IMPL(llama4_rope_backward, backward),
    TG_IMPLS_END,
};
