/* mhc_coeffs_backward.c - host of kernels/streams/mhc_coeffs.asc.c, backward: the gradient z of the
 * products, which of each token alone is small; then dphi, and dx of a chunk of tokens after the
 * other. */
#include "mhc_coeffs.h"

enum { BACKWARD, DX };

ASCEND_KERNEL(mhc_coeffs_backward, MHC_COEFFS_BACKWARD);
ASCEND_KERNEL(mhc_coeffs_dx, MHC_COEFFS_DX);

ASCEND_KERNELS(mhc_coeffs_backward) = {
    [BACKWARD] = MHC_LINES_KERNEL(mhc_coeffs_backward),
    [DX] = ASCEND_FLAT(mhc_coeffs_dx),
    {0},
};

ASCEND_OPERATOR_IF(mhc_coeffs_backward, TG_TAKES_FLOATS);

int ascend_mhc_coeffs_backward_accepts(const tg_mhc_coeffs_backward_args *args)
{
    return mhc_takes(args->x);
}

/* What a call has between its launches. */
typedef struct between {
    float *z, *pull;
    ascend_partial_sums partials; /* of bias, and in blocks of 32 bytes of the alphas */
} between;

enum { BLOCK = 8 };

static tg_status gradients(tg_ctx *ctx, const mhc_tokens *k, const tg_mhc_coeffs_backward_args *a,
                           between *b)
{
    const int sums = a->dbias || a->dalpha_pre || a->dalpha_post || a->dalpha_res;
    const int64_t divisions = a->dh_res ? 2 * a->iterations - 1 : 0;
    ascend_plan plan = {0};
    b->partials.count = 0;
    if (k->tokens > 0)
        ASCEND_TRY(mhc_choose(&plan, &ascend_ub_mhc_coeffs_backward[BACKWARD], a->x, k->tokens,
                              MHC_BACKWARD_LINES(k->streams, divisions)));
    ASCEND_TRY(ascend_partials(ctx, sums ? plan.layout.blocks : 0,
                               MHC_TOGETHER(k->streams) + 3 * BLOCK, &b->partials));
    if (k->tokens == 0)
        return TG_OK;
    ASCEND_TRY(mhc_take(ctx, k->tokens * k->columns, &b->z));
    ASCEND_TRY(mhc_take(ctx, k->tokens, &b->pull));
    const ascend_memory z = mhc_floats(b->z, k->tokens * k->columns),
                        pull = mhc_floats(b->pull, k->tokens);
    return ASCEND_LAUNCH(ctx, &plan, mhc_coeffs_backward, .mix = a->mix, .rstd = a->rstd,
                         .bias = a->bias, .alpha_pre = a->alpha_pre, .alpha_post = a->alpha_post,
                         .alpha_res = a->alpha_res, .dh_pre = a->dh_pre, .dh_post = a->dh_post,
                         .dh_res = a->dh_res, .z = &z, .pull = &pull,
                         .partials = &b->partials.memory, .tokens = k->tokens,
                         .streams = k->streams, .iterations = a->iterations,
                         .partials_stride = b->partials.stride, .mean = 1.0 / (double)k->width,
                         .sinkhorn_eps = a->sinkhorn_eps, .post_multiplier = a->post_multiplier);
}

/* result = the sum of the blocks' numbers from `column` on. */
static tg_status add_up(tg_ctx *ctx, const between *b, int64_t column, const tg_tensor *result,
                        int64_t accumulate)
{
    ascend_partial_sums part = b->partials;
    mhc_matrix flat;
    if (!result)
        return TG_OK;
    if (part.count)
        part.memory =
            mhc_floats((const float *)part.memory.at + column, part.count * part.stride - column);
    const int64_t n = tg_numel(result);
    const tg_rows rows = tg_rows_of(result);
    mhc_matrix_at(&flat, result, rows.data, rows.type, 1, n, n);
    return ascend_sum_partials(ctx, &part, &flat.t, accumulate);
}

static tg_status small_gradients(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                                 const tg_mhc_coeffs_backward_args *a)
{
    const tg_tensor *const alphas[] = {a->dalpha_pre, a->dalpha_post, a->dalpha_res};
    ASCEND_TRY(add_up(ctx, b, 0, a->dbias, a->accumulate));
    for (int part = 0; part < 3; part++)
        ASCEND_TRY(
            add_up(ctx, b, MHC_TOGETHER(k->streams) + part * BLOCK, alphas[part], a->accumulate));
    return TG_OK;
}

static tg_status dx_of(tg_ctx *ctx, const mhc_tokens *k, const between *b, const float *phi,
                       const tg_mhc_coeffs_backward_args *a)
{
    const int64_t most = mhc_chunk_of(k), chunk = most < k->tokens ? most : k->tokens;
    const int64_t segments = mhc_is_dense(a->dx) ? k->segments : k->streams;
    float *p;
    ASCEND_TRY(mhc_take(ctx, chunk * k->width, &p));
    for (int64_t first = 0; first < k->tokens; first += chunk) {
        const int64_t count = k->tokens - first < chunk ? k->tokens - first : chunk;
        const ascend_memory product = mhc_floats(p, count * k->width),
                            pull = mhc_floats(b->pull + first, count);
        mhc_matrix z, by, c, x, dx;
        ascend_plan plan;
        ASCEND_TRY(ascend_gemm(
            ctx, &(tg_gemm_args){
                     .a = mhc_matrix_at(&z, a->x, b->z + first * k->columns, TG_F32, count,
                                        k->columns, k->columns),
                     .b = mhc_matrix_at(&by, a->x, phi, TG_F32, k->width, k->columns, k->columns),
                     .c = mhc_matrix_at(&c, a->x, p, TG_F32, count, k->width, k->width),
                     .trans_b = 1,
                     .alpha = 1}));
        const tg_tensor *from = mhc_rows_at(&x, k, a->x, segments, first, count);
        ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_mhc_coeffs_backward[DX], from, 0));
        ASCEND_TRY(ascend_choose(&plan));
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, mhc_coeffs_dx, .x = from, .p = &product, .pull = &pull,
                                 .dx = mhc_rows_at(&dx, k, a->dx, segments, first, count),
                                 .segments = segments));
    }
    return TG_OK;
}

/* dphi, or its sum with what is there; in f32, from which other types are rounded. */
static tg_status dphi_of(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                         const tg_mhc_coeffs_backward_args *a)
{
    const int64_t n = k->width * k->columns;
    const int narrow = tg_type_of(a->dphi) != TG_F32, add = a->accumulate && !narrow;
    float *to = (float *)tg_rows_of(a->dphi).data;
    if (narrow)
        ASCEND_TRY(mhc_take(ctx, n, &to));
    ASCEND_TRY(mhc_multiply(ctx, k, a->x, b->z, k->tokens ? TG_F32 : k->x.type, to, 1, add));
    const ascend_partial_sums whole = {mhc_floats(to, n), 1, n};
    mhc_matrix flat;
    return narrow ? ascend_sum_partials(ctx, &whole,
                                        mhc_matrix_at(&flat, a->x, tg_rows_of(a->dphi).data,
                                                      tg_type_of(a->dphi), 1, n, n),
                                        a->accumulate)
                  : TG_OK;
}

tg_status ascend_mhc_coeffs_backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *a)
{
    const mhc_tokens k = mhc_tokens_of(a->x);
    between b = {0};
    ASCEND_TRY(gradients(ctx, &k, a, &b));
    ASCEND_TRY(small_gradients(ctx, &k, &b, a));
    if (a->dphi)
        ASCEND_TRY(dphi_of(ctx, &k, &b, a));
    if (k.tokens == 0)
        return TG_OK;
    float *phi = (float *)tg_rows_of(a->phi).data;
    if (tg_type_of(a->phi) != TG_F32) {
        ASCEND_TRY(mhc_take(ctx, k.width * k.columns, &phi));
        mhc_matrix wide;
        ASCEND_TRY(ascend_convert(
            ctx, a->phi, mhc_matrix_at(&wide, a->x, phi, TG_F32, k.width, k.columns, k.columns)));
    }
    return dx_of(ctx, &k, &b, phi, a);
}
