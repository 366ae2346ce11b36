/* llama4_rope as an eager framework runs it: complex numbers exist in f32 alone there, so 16-bit
 * tensors are converted, multiplied by the table in one step, and converted back. */
#include "eager/eager.h"
#include "rotary/rotary.h"

/* m in f32: itself, or a converted copy */
static mat wide(eager *e, mat m)
{
    if (m.type == TG_F32)
        return m;
    const mat copy = eager_new(e, TG_F32, m.rows, m.cols);
    eager_unary(e, EAGER_COPY, copy, m);
    return copy;
}

/* `rows` rows of batch b, head h that lie evenly. */
static mat rows_at(const tg_tensor *t, int64_t b, int64_t h, int64_t rows, int64_t stride)
{
    const int64_t at = b * tg_stride(t, 0) + h * tg_stride(t, 2);
    return eager_view((char *)tg_data(t) + at * (int64_t)tg_type_size(tg_type_of(t)), tg_type_of(t),
                      rows, t->shape[3], stride);
}

/* The table of batch b: a row a position, each for `repeat` rows. */
static mat freqs_at(eager *e, const tg_tensor *t, int64_t b, const tg_tensor *x, int64_t repeat)
{
    const int64_t at = b * rotary_batch_stride(t, t->ndim - 4);
    const int type = tg_type_of(t);
    mat m = wide(e, eager_view((char *)tg_data(t) + at * (int64_t)tg_type_size(type), type,
                               x->shape[1], x->shape[3], tg_stride(t, t->ndim - 3)));
    m.repeat = repeat;
    return m;
}

static int positions_and_heads_collapse(const tg_tensor *t)
{
    return t->shape[2] == 1 || tg_stride(t, 1) == t->shape[2] * tg_stride(t, 2);
}

static void multiply(eager *e, eager_op op, const tg_tensor *freqs, const tg_tensor *x,
                     const tg_tensor *y)
{
    if (!x || tg_numel(x) == 0)
        return;
    const int64_t positions = x->shape[1], heads = x->shape[2];
    const int together = positions_and_heads_collapse(x) && positions_and_heads_collapse(y);
    const int64_t groups = together ? 1 : heads, repeat = together ? heads : 1;
    const int dimension = together && heads > 1 ? 2 : 1;
    for (int64_t b = 0; b < x->shape[0]; b++) {
        const mat w = freqs_at(e, freqs, b, x, repeat);
        for (int64_t h = 0; h < groups; h++) {
            const mat from = rows_at(x, b, h, positions * repeat, tg_stride(x, dimension));
            const mat to = rows_at(y, b, h, positions * repeat, tg_stride(y, dimension));
            if (from.type == TG_F32) {
                eager_binary(e, op, to, from, w);
                continue;
            }
            const mat z = wide(e, from), product = eager_new(e, TG_F32, from.rows, from.cols);
            eager_binary(e, op, product, z, w);
            eager_unary(e, EAGER_COPY, to, product);
            eager_free(e, z);
            eager_free(e, product);
        }
        if (w.data != (char *)tg_data(freqs) && tg_type_of(freqs) != TG_F32)
            eager_free(e, w);
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

TG_UNFUSED_IMPLS(llama4_rope) = {
    TG_UNFUSED_IMPL(llama4_rope_forward, forward),
    TG_UNFUSED_IMPL(llama4_rope_backward, backward),
    TG_IMPLS_END,
};
