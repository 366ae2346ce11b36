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

/* y = x rstd (offset + weight) */
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

/* silu of f32, which stays as it is */
static mat silu_of(eager *e, mat z)
{
    const mat s = eager_new(e, TG_F32, z.rows, z.cols);
    eager_unary(e, EAGER_SIGMOID, s, z);
    return eager_then_by(e, EAGER_MUL, s, z);
}

/* The rows of scale or shift, each for several of `rows`. */
static mat shared_rows(const tg_tensor *t, int64_t rows)
{
    mat m = eager_rows(t);
    m.repeat = m.rows > 0 ? rows / m.rows : 0;
    return m;
}

/* 1 + scale in f32, likewise */
static mat one_plus(eager *e, const tg_tensor *scale, int64_t rows)
{
    const mat given = eager_rows(scale);
    mat m = eager_new(e, TG_F32, given.rows, given.cols);
    eager_scalar(e, EAGER_ADD, m, given, 1);
    m.repeat = shared_rows(scale, rows).repeat;
    return m;
}

/* y = normal, which is f32, by silu(gate), or by 1 + scale and with shift. */
static void finish(eager *e, const tg_rms_norm_forward_args *a, mat y, mat normal)
{
    if (a->gate) {
        const mat z = eager_copy(e, TG_F32, eager_rows(a->gate));
        eager_binary(e, EAGER_MUL, y, normal, silu_of(e, z));
        return;
    }
    const mat factor = one_plus(e, a->scale, y.rows);
    if (!a->shift) {
        eager_binary(e, EAGER_MUL, y, normal, factor);
        return;
    }
    const mat scaled = eager_new(e, TG_F32, y.rows, y.cols);
    eager_binary(e, EAGER_MUL, scaled, normal, factor);
    eager_binary(e, EAGER_ADD, y, scaled, shared_rows(a->shift, y.rows));
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(a->x), y = eager_rows(a->y);
    if (!a->gate && !a->scale) {
        normalise(&e, x, a->weight, y, a->rstd, a->eps, a->offset, a->casting_mode);
    } else {
        const mat normal = eager_new(&e, TG_F32, x.rows, x.cols);
        normalise(&e, x, a->weight, normal, a->rstd, a->eps, a->offset, -1);
        finish(&e, a, y, normal);
    }
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
    const tg_tensor *dweight, *gate, *scale, *dgate, *dscale, *dshift;
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

/* product = dy normal (offset + weight), in f32 */
static mat weighed_product(eager *e, const gradients *g, mat dy, mat normal)
{
    const mat product = eager_new(e, TG_F32, dy.rows, dy.cols);
    eager_binary(e, EAGER_MUL, product, dy, normal);
    return g->weight ? eager_then_by(e, EAGER_MUL, product, load_scale(e, g->weight, g->offset))
                     : product;
}

/* dy becomes dy silu(gate). */
static mat gate_gradient(eager *e, const gradients *g, mat dy, mat normal)
{
    const mat z = eager_copy(e, TG_F32, eager_rows(g->gate));
    if (g->dgate) { /* dy normal weight s (1 + z (1 - s)) */
        const mat s = eager_new(e, TG_F32, z.rows, z.cols),
                  rest = eager_new(e, TG_F32, z.rows, z.cols);
        eager_unary(e, EAGER_SIGMOID, s, z);
        eager_unary(e, EAGER_NEG, rest, z);
        mat slope = eager_then(e, EAGER_SIGMOID, rest);
        slope = eager_then_by(e, EAGER_MUL, slope, z);
        slope = eager_then_scalar(e, EAGER_ADD, slope, 1);
        slope = eager_then_by(e, EAGER_MUL, slope, s);
        eager_free(e, s);
        const mat product = weighed_product(e, g, dy, normal);
        eager_binary(e, EAGER_MUL, eager_rows(g->dgate), product, slope);
        eager_free(e, product);
        eager_free(e, slope);
    }
    const mat silu = silu_of(e, z);
    eager_free(e, z);
    dy = eager_then_by(e, EAGER_MUL, dy, silu);
    eager_free(e, silu);
    return dy;
}

/* Sums of the rows that share a row of `out`. */
static void sum_groups(eager *e, const tg_tensor *out, mat terms)
{
    const mat to = eager_rows(out);
    const int64_t rows = shared_rows(out, terms.rows).repeat;
    const mat sum = eager_new(e, TG_F32, 1, terms.cols);
    for (int64_t m = 0; m < to.rows; m++) {
        char *first = (char *)terms.data + m * rows * terms.stride * (int64_t)sizeof(float);
        char *row = (char *)to.data + m * to.stride * (int64_t)tg_type_size(to.type);
        eager_sum_columns(e, sum, eager_view(first, TG_F32, rows, terms.cols, terms.stride));
        eager_unary(e, EAGER_COPY, eager_view(row, to.type, 1, to.cols, to.cols), sum);
    }
    eager_free(e, sum);
}

/* dy becomes dy (1 + scale). */
static mat scale_gradient(eager *e, const gradients *g, mat dy, mat normal)
{
    if (g->dshift)
        sum_groups(e, g->dshift, dy);
    if (g->dscale) {
        const mat product = weighed_product(e, g, dy, normal);
        sum_groups(e, g->dscale, product);
        eager_free(e, product);
    }
    return eager_then_by(e, EAGER_MUL, dy, one_plus(e, g->scale, dy.rows));
}

/* dx = r (m - normal mean(m normal)) + ds, normal = x r, m = dy (offset + weight) */
static tg_status backward_of(eager *e, const gradients *g)
{
    const mat wide = eager_copy(e, TG_F32, g->x), r = eager_column(g->rstd);
    const mat normal = eager_new(e, TG_F32, wide.rows, wide.cols);
    eager_binary(e, EAGER_MUL, normal, wide, r);
    eager_free(e, wide);
    mat dy = eager_copy(e, TG_F32, g->dy);
    if (g->gate)
        dy = gate_gradient(e, g, dy, normal);
    if (g->scale)
        dy = scale_gradient(e, g, dy, normal);
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
    const gradients g = {.dy = eager_rows(a->dy),
                         .x = eager_rows(a->x),
                         .dx = eager_rows(a->dx),
                         .weight = a->weight,
                         .rstd = a->rstd,
                         .dweight = a->dweight,
                         .gate = a->gate,
                         .scale = a->scale,
                         .dgate = a->dgate,
                         .dscale = a->dscale,
                         .dshift = a->dshift,
                         .offset = a->offset,
                         .casting_mode = a->gate || a->scale ? -1 : a->casting_mode,
                         .accumulate = a->accumulate};
    return backward_of(&e, &g);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    eager e = eager_begin(ctx);
    const gradients g = {.dy = eager_rows(a->dy),
                         .x = eager_rows(a->s),
                         .dx = eager_rows(a->dx),
                         .weight = a->weight,
                         .rstd = a->rstd,
                         .ds = a->ds,
                         .dweight = a->dweight,
                         .offset = a->offset,
                         .casting_mode = a->casting_mode,
                         .accumulate = a->accumulate};
    return backward_of(&e, &g);
}

UNFUSED_IMPLS(rms_norm) = {UNFUSED_IMPL(rms_norm_forward, forward),
                           UNFUSED_IMPL(rms_norm_backward, backward),
                           UNFUSED_IMPL(fused_add_rms_norm_forward, fused_forward),
                           UNFUSED_IMPL(fused_add_rms_norm_backward, fused_backward), TG_IMPLS_END};
