/* layer_norm as an eager framework runs its formula: one pass and one temporary a step, f32 inside,
 * as under autocast. */
#include "eager.h"

static mat like(eager *e, mat a)
{
    return eager_new(e, TG_F32, a.rows, a.cols);
}

static tg_status forward(tg_ctx *ctx, const tg_layer_norm_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_wide(&e, eager_rows(a->x)), y = eager_rows(a->y),
              mean = eager_row_mean(&e, x);
    const mat centred = eager_less(&e, x, mean), rstd = eager_row_rstd(&e, centred, a->eps);
    if (a->mean)
        eager_unary(&e, EAGER_COPY, eager_column(a->mean), mean);
    if (a->rstd)
        eager_unary(&e, EAGER_COPY, eager_column(a->rstd), rstd);
    const mat normal = a->weight || a->bias ? like(&e, x) : y;
    eager_binary(&e, EAGER_MUL, normal, centred, rstd);
    eager_free(&e, centred);
    const mat scaled = a->weight && a->bias ? like(&e, x) : y;
    if (a->weight)
        eager_binary(&e, EAGER_MUL, scaled, normal, eager_vector(a->weight));
    if (a->bias)
        eager_binary(&e, EAGER_ADD, y, a->weight ? scaled : normal, eager_vector(a->bias));
    return eager_end(&e);
}

/* ---- backward ---- */

/* a * mean(b), row by row */
static mat times_mean(eager *e, mat a, mat b)
{
    const mat product = like(e, a);
    eager_binary(e, EAGER_MUL, product, a, eager_row_mean(e, b));
    return product;
}

/* dx = r (m - normal mean(m normal) - mean(m)), normal = (x - mean) r, m = dy weight */
static tg_status backward(tg_ctx *ctx, const tg_layer_norm_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_wide(&e, eager_rows(a->x)), dy = eager_wide(&e, eager_rows(a->dy)),
              r = eager_column(a->rstd);
    const mat centred = eager_less(&e, x, eager_column(a->mean)), normal = like(&e, x),
              product = like(&e, x);
    eager_binary(&e, EAGER_MUL, normal, centred, r);
    eager_free(&e, centred);
    if (a->dweight) {
        eager_binary(&e, EAGER_MUL, product, dy, normal);
        eager_gradient(&e, eager_vector(a->dweight), product, a->accumulate);
    }
    if (a->dbias)
        eager_gradient(&e, eager_vector(a->dbias), dy, a->accumulate);
    const mat m = a->weight ? like(&e, dy) : dy;
    if (a->weight)
        eager_binary(&e, EAGER_MUL, m, dy, eager_vector(a->weight));
    eager_binary(&e, EAGER_MUL, product, m, normal);
    const mat along = times_mean(&e, normal, product), less = like(&e, m);
    eager_free(&e, normal);
    eager_free(&e, product);
    eager_binary(&e, EAGER_SUB, less, m, along);
    eager_free(&e, along);
    const mat rest = eager_less(&e, less, eager_row_mean(&e, m));
    eager_binary(&e, EAGER_MUL, eager_rows(a->dx), rest, r);
    return eager_end(&e);
}

UNFUSED_IMPLS(layer_norm) = {
    UNFUSED_IMPL(layer_norm_forward, forward),
    UNFUSED_IMPL(layer_norm_backward, backward),
    TG_IMPLS_END,
};
