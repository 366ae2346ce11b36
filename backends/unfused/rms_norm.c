/* rms_norm and fused_add_rms_norm as an eager framework runs them: one pass and one temporary a
 * step, f32 inside, as Hugging Face's LlamaRMSNorm does. */
#include "eager.h"

/* offset + weight in f32 */
static mat load_scale(eager *e, const tg_tensor *weight, double offset)
{
    const mat w = eager_vector(weight);
    const mat scale = eager_new(e, TG_F32, 1, w.cols);
    eager_scalar(e, EAGER_ADD, scale, w, offset);
    return scale;
}

static void normalise(eager *e, mat x, const tg_tensor *weight, mat y, const tg_tensor *rstd,
                      double eps, double offset, int64_t casting_mode)
{
    const mat wide = eager_copy(e, TG_F32, x);
    const mat r = eager_row_rstd(e, wide, eps);
    if (rstd)
        eager_unary(e, EAGER_COPY, eager_column(rstd), r);
    const int type = casting_mode == 0 ? x.type : TG_F32;
    const mat normal = eager_new(e, type, x.rows, x.cols);
    eager_binary(e, EAGER_MUL, normal, wide, r);
    eager_free(e, wide);
    if (weight)
        eager_binary(e, EAGER_MUL, y, normal, load_scale(e, weight, offset));
    else
        eager_unary(e, EAGER_COPY, y, normal);
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    eager e = eager_begin(ctx);
    normalise(&e, eager_rows(a->x), a->weight, eager_rows(a->y), a->rstd, a->eps, a->offset,
              a->casting_mode);
    return eager_end(&e);
}

static tg_status fused_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat s = eager_rows(a->s);
    eager_binary(&e, EAGER_ADD, s, eager_rows(a->x), eager_rows(a->residual));
    normalise(&e, s, a->weight, eager_rows(a->y), a->rstd, a->eps, a->offset, a->casting_mode);
    return eager_end(&e);
}

/* ---- backward ---- */

typedef struct gradients {
    mat dy, x, dx;
    const tg_tensor *weight, *rstd, *ds;
    const tg_tensor *dweight;
    double offset;
    int64_t casting_mode, accumulate;
} gradients;

static void weight_gradient(eager *e, const gradients *g, mat dy, mat normal)
{
    const mat rounded =
        eager_new(e, g->casting_mode == 0 ? g->x.type : TG_F32, normal.rows, normal.cols);
    eager_unary(e, EAGER_COPY, rounded, normal);
    const mat product = eager_new(e, TG_F32, normal.rows, normal.cols);
    eager_binary(e, EAGER_MUL, product, dy, rounded);
    eager_free(e, rounded);
    eager_gradient(e, eager_vector(g->dweight), product, g->accumulate);
    eager_free(e, product);
}

/* dx = r (m - normal mean(m normal)) + ds, normal = x r, m = dy (offset + weight) */
static tg_status backward_of(eager *e, const gradients *g)
{
    const mat dy = eager_copy(e, TG_F32, g->dy), wide = eager_copy(e, TG_F32, g->x),
              r = eager_column(g->rstd);
    const mat normal = eager_new(e, TG_F32, wide.rows, wide.cols);
    eager_binary(e, EAGER_MUL, normal, wide, r);
    eager_free(e, wide);
    if (g->dweight)
        weight_gradient(e, g, dy, normal);
    const mat m = eager_new(e, TG_F32, dy.rows, dy.cols);
    if (g->weight)
        eager_binary(e, EAGER_MUL, m, dy, load_scale(e, g->weight, g->offset));
    else
        eager_unary(e, EAGER_COPY, m, dy);
    eager_free(e, dy);
    const mat product = eager_new(e, TG_F32, m.rows, m.cols),
              mean = eager_new(e, TG_F32, m.rows, 1);
    eager_binary(e, EAGER_MUL, product, m, normal);
    eager_reduce_rows(e, EAGER_SUM, mean, product);
    eager_scalar(e, EAGER_DIV, mean, mean, (double)m.cols);
    eager_binary(e, EAGER_MUL, product, normal, mean);
    eager_free(e, normal);
    const mat difference = eager_new(e, TG_F32, m.rows, m.cols);
    eager_binary(e, EAGER_SUB, difference, m, product);
    eager_free(e, product);
    if (!g->ds) {
        eager_binary(e, EAGER_MUL, g->dx, difference, r);
        return eager_end(e);
    }
    const mat dx = eager_new(e, g->dx.type, m.rows, m.cols);
    eager_binary(e, EAGER_MUL, dx, difference, r);
    eager_binary(e, EAGER_ADD, g->dx, dx, eager_rows(g->ds));
    return eager_end(e);
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    eager e = eager_begin(ctx);
    const gradients g = {
        eager_rows(a->dy), eager_rows(a->x), eager_rows(a->dx), a->weight,    a->rstd, NULL,
        a->dweight,        a->offset,        a->casting_mode,   a->accumulate};
    return backward_of(&e, &g);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    eager e = eager_begin(ctx);
    const gradients g = {
        eager_rows(a->dy), eager_rows(a->s), eager_rows(a->dx), a->weight,    a->rstd, a->ds,
        a->dweight,        a->offset,        a->casting_mode,   a->accumulate};
    return backward_of(&e, &g);
}

UNFUSED_IMPLS(rms_norm) = {UNFUSED_IMPL(rms_norm_forward, forward),
                           UNFUSED_IMPL(rms_norm_backward, backward),
                           UNFUSED_IMPL(fused_add_rms_norm_forward, fused_forward),
                           UNFUSED_IMPL(fused_add_rms_norm_backward, fused_backward), TG_IMPLS_END};
