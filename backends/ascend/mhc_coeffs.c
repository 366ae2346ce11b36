/* mhc_coeffs.c - host of kernels/streams/mhc_coeffs.asc.c, forward: squares of rows and their
 * products with phi, then the coefficients. */
#include "mhc_coeffs.h"

enum { SQUARES, FORWARD };

ASCEND_KERNEL(mhc_squares, MHC_SQUARES);
ASCEND_KERNEL(mhc_coeffs_forward, MHC_COEFFS_FORWARD);

ASCEND_KERNELS(mhc_coeffs) = {
    [SQUARES] = {.name = "mhc_squares", ASCEND_BUFFERS(mhc_squares), .max_rows = 1},
    [FORWARD] = MHC_LINES_KERNEL(mhc_coeffs_forward),
    {0},
};

ASCEND_OPERATOR_IF(mhc_coeffs_forward, TG_TAKES_FLOATS);

/* Of tokens [first, first + count). */
static tg_status squares(tg_ctx *ctx, const mhc_tokens *k, const tg_tensor *x, int64_t first,
                         int64_t count, float *to)
{
    const ascend_memory memory = mhc_floats(to + first, count);
    ascend_plan plan;
    mhc_matrix rows;
    const tg_tensor *all = mhc_rows_at(&rows, k, x, k->segments, first, count);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_mhc_coeffs[SQUARES], all, 0));
    ASCEND_TRY(ascend_choose(&plan));
    const int64_t tasks = (count + MHC_SQUARES_AT_ONCE - 1) / MHC_SQUARES_AT_ONCE,
                  cores = plan.problem.cores;
    plan.layout.blocks = tasks < cores ? tasks : cores;
    return ASCEND_LAUNCH(ctx, &plan, mhc_squares, .x = all, .squares = &memory, .tokens = count,
                         .segments = k->segments);
}

/* Squares of rows and their products with phi, side by side on the vector and on the cube cores: of
 * a chunk of tokens after the other, which comes from memory once. */
static tg_status read_tokens(tg_ctx *ctx, const mhc_tokens *k, const tg_mhc_coeffs_forward_args *a,
                             const ascend_plan *plan, float *sums, float *of_squares)
{
    const int64_t chunk = mhc_chunk_of(plan, k, (int64_t)tg_type_size(k->x.type));
    const void *phi;
    ASCEND_TRY(mhc_turn(ctx, a->x, tg_rows_of(a->phi).data, tg_type_of(a->phi), k->width,
                        k->columns, &phi));
    for (int64_t first = 0; first < k->tokens; first += chunk) {
        const int64_t count = k->tokens - first < chunk ? k->tokens - first : chunk;
        ASCEND_TRY(ascend_side(ctx, TG_SIDE_BEGIN));
        const tg_status status = squares(ctx, k, a->x, first, count, of_squares);
        ASCEND_TRY(ascend_side(ctx, status == TG_OK ? TG_SIDE_END : TG_SIDE_DROP));
        ASCEND_TRY(status);
        ASCEND_TRY(mhc_multiply(ctx, k,
                                &(mhc_products){.x = a->x,
                                                .first = first,
                                                .count = count,
                                                .by = phi,
                                                .by_type = tg_type_of(a->phi),
                                                .columns = k->columns,
                                                .by_rows = k->width,
                                                .chunk = (chunk + 1) / 2,
                                                .to = sums + first * k->columns}));
    }
    return ascend_side(ctx, TG_SIDE_JOIN);
}

int ascend_mhc_coeffs_forward_accepts(const tg_mhc_coeffs_forward_args *args)
{
    return mhc_takes(args->x);
}

tg_status ascend_mhc_coeffs_forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *a)
{
    const mhc_tokens k = mhc_tokens_of(a->x);
    float *sums, *of_squares;
    ascend_plan plan;
    if (k.tokens == 0)
        return TG_OK;
    ASCEND_TRY(mhc_choose(&plan, &ascend_ub_mhc_coeffs[FORWARD], a->x, k.tokens,
                          MHC_FORWARD_LINES(k.streams)));
    ASCEND_TRY(mhc_take(ctx, k.tokens * k.columns, &sums));
    ASCEND_TRY(mhc_take(ctx, k.tokens, &of_squares));
    ASCEND_TRY(read_tokens(ctx, &k, a, &plan, sums, of_squares));
    const ascend_memory products = mhc_floats(sums, k.tokens * k.columns),
                        lengths = mhc_floats(of_squares, k.tokens);
    return ASCEND_LAUNCH(
        ctx, &plan, mhc_coeffs_forward, .sums = &products, .squares = &lengths, .bias = a->bias,
        .alpha_pre = a->alpha_pre, .alpha_post = a->alpha_post, .alpha_res = a->alpha_res,
        .h_pre = a->h_pre, .h_post = a->h_post, .h_res = a->h_res, .mix = a->mix, .rstd = a->rstd,
        .tokens = k.tokens, .streams = k.streams, .iterations = a->iterations,
        .mean = 1.0 / (double)k.width, .rms_eps = a->rms_eps, .pre_eps = a->pre_eps,
        .sinkhorn_eps = a->sinkhorn_eps, .post_multiplier = a->post_multiplier);
}
