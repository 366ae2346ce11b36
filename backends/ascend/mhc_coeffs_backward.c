/* mhc_coeffs_backward.c - host of kernels/streams/mhc_coeffs.asc.c, backward: the gradient z of the
 * products, which of each token alone is small; then dphi, and dx of a chunk of tokens after the
 * other. */
#include "mhc_coeffs.h"

enum { BACKWARD, DX, DPHI };

ASCEND_KERNEL(mhc_coeffs_backward, MHC_COEFFS_BACKWARD);
ASCEND_KERNEL(mhc_coeffs_dx, MHC_COEFFS_DX);
ASCEND_KERNEL(mhc_coeffs_dphi, MHC_COEFFS_DPHI);

ASCEND_KERNELS(mhc_coeffs_backward) = {
    [BACKWARD] = MHC_LINES_KERNEL(mhc_coeffs_backward),
    [DX] = ASCEND_FLAT(mhc_coeffs_dx),
    [DPHI] = {.name = "mhc_coeffs_dphi",
              ASCEND_BUFFERS(mhc_coeffs_dphi),
              .whole_rows = 1,
              .column_multiple = 16},
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
    void *parts; /* z as sums of three bf16, where x is of that type */
    float *phi;  /* in f32 */
    float *dphi; /* in f32, of each part apart; of other types than f32 it is rounded in the end */
    int64_t columns;              /* of dphi */
    int64_t chunk;                /* of tokens */
    ascend_partial_sums partials; /* of bias, and in blocks of 32 bytes of the alphas */
} between;

enum {
    BLOCK = 8,
    NUMBER = 12 /* bytes of a number that L2 holds: of x, dx and, twice, the product */
};

static tg_status gradients(tg_ctx *ctx, const mhc_tokens *k, const tg_mhc_coeffs_backward_args *a,
                           between *b)
{
    const int sums = a->dbias || a->dalpha_pre || a->dalpha_post || a->dalpha_res;
    const int64_t divisions = a->dh_res ? 2 * a->iterations - 1 : 0;
    ascend_plan plan = {0};
    b->partials.count = 0;
    if (k->tokens > 0)
        ASCEND_TRY(mhc_choose(&plan, &ascend_ub_mhc_coeffs_backward[BACKWARD], a->x, k->tokens,
                              MHC_BACKWARD_LINES(k->streams, divisions, b->columns)));
    ASCEND_TRY(ascend_partials(ctx, sums ? plan.layout.blocks : 0,
                               MHC_TOGETHER(k->streams) + 3 * BLOCK, &b->partials));
    if (k->tokens == 0)
        return TG_OK;
    b->chunk = mhc_chunk_of(&plan, k, NUMBER);
    ASCEND_TRY(mhc_take(ctx, k->tokens * k->columns, &b->z));
    ASCEND_TRY(mhc_take(ctx, k->tokens, &b->pull));
    const ascend_memory z = mhc_floats(b->z, k->tokens * k->columns),
                        pull = mhc_floats(b->pull, k->tokens),
                        parts = {b->parts, b->parts ? (size_t)(k->tokens * b->columns) * 2 : 0};
    return ASCEND_LAUNCH(ctx, &plan, mhc_coeffs_backward, .mix = a->mix, .rstd = a->rstd,
                         .bias = a->bias, .alpha_pre = a->alpha_pre, .alpha_post = a->alpha_post,
                         .alpha_res = a->alpha_res, .dh_pre = a->dh_pre, .dh_post = a->dh_post,
                         .dh_res = a->dh_res, .z = &z, .parts = &parts, .pull = &pull,
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

/* ---- dx and dphi ---- */

static int64_t segments_of(const mhc_tokens *k, const tg_mhc_coeffs_backward_args *a)
{
    return mhc_is_dense(a->dx) ? k->segments : k->streams;
}

/* p [count, width] = z phi^T, of tokens from `first` on. */
static tg_status multiply_z(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                            const tg_tensor *where, int64_t first, int64_t count, float *p)
{
    mhc_matrix z, by, c;
    const float *from = b->z + first * k->columns;
    return ascend_gemm(
        ctx, &(tg_gemm_args){
                 .a = mhc_matrix_at(&z, where, from, TG_F32, count, k->columns, k->columns),
                 .b = mhc_matrix_at(&by, where, b->phi, TG_F32, k->width, k->columns, k->columns),
                 .c = mhc_matrix_at(&c, where, p, TG_F32, count, k->width, k->width),
                 .trans_b = 1,
                 .alpha = 1});
}

static tg_status dx_of(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                       const tg_mhc_coeffs_backward_args *a, int64_t first, int64_t count,
                       const float *p)
{
    const ascend_memory product = mhc_floats(p, count * k->width),
                        pull = mhc_floats(b->pull + first, count);
    const int64_t segments = segments_of(k, a);
    mhc_matrix x, dx;
    ascend_plan plan;
    const tg_tensor *from = mhc_rows_at(&x, k, a->x, segments, first, count);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_mhc_coeffs_backward[DX], from, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, mhc_coeffs_dx, .x = from, .p = &product, .pull = &pull,
                         .dx = mhc_rows_at(&dx, k, a->dx, segments, first, count),
                         .segments = segments);
}

/* dphi is summed up where it will be. */
static int is_direct(const between *b, const tg_mhc_coeffs_backward_args *a)
{
    return b->dphi == (const float *)tg_rows_of(a->dphi).data;
}

static tg_status multiply_x(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                            const tg_mhc_coeffs_backward_args *a)
{
    const int type = b->parts ? TG_BF16 : TG_F32;
    const void *by = NULL;
    if (k->tokens > 0)
        ASCEND_TRY(
            mhc_turn(ctx, a->x, b->parts ? b->parts : b->z, type, k->tokens, b->columns, &by));
    const mhc_products p = {.x = a->x,
                            .count = k->tokens,
                            .by = by,
                            .by_type = type,
                            .columns = b->columns,
                            .by_rows = k->tokens,
                            .chunk = b->chunk,
                            .to = b->dphi,
                            .back = 1,
                            .add = is_direct(b, a) && a->accumulate};
    return mhc_multiply(ctx, k, &p);
}

/* A chunk of tokens after the other: the products of one run on the cube cores while the vector
 * cores make dx of the one before. */
static tg_status go_through(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                            const tg_mhc_coeffs_backward_args *a)
{
    const int64_t chunk = b->chunk;
    float *p;
    if (k->tokens == 0)
        return TG_OK;
    ASCEND_TRY(mhc_take(ctx, 2 * chunk * k->width, &p));
    for (int64_t first = 0, turn = 0; first < k->tokens; first += chunk, turn ^= 1) {
        const int64_t count = k->tokens - first < chunk ? k->tokens - first : chunk;
        float *here = p + turn * chunk * k->width;
        ASCEND_TRY(multiply_z(ctx, k, b, a->x, first, count, here));
        ASCEND_TRY(ascend_side(ctx, TG_SIDE_BEGIN));
        const tg_status status = dx_of(ctx, k, b, a, first, count, here);
        ASCEND_TRY(ascend_side(ctx, status == TG_OK ? TG_SIDE_END : TG_SIDE_DROP));
        ASCEND_TRY(status);
    }
    return ascend_side(ctx, TG_SIDE_JOIN);
}

/* dphi from what has been summed up apart. */
static tg_status end_dphi(tg_ctx *ctx, const mhc_tokens *k, const between *b,
                          const tg_mhc_coeffs_backward_args *a)
{
    const ascend_memory sums = mhc_floats(b->dphi, k->width * b->columns);
    const tg_rows to = tg_rows_of(a->dphi);
    mhc_matrix dphi;
    ascend_plan plan;
    const tg_tensor *all =
        mhc_matrix_at(&dphi, a->x, to.data, to.type, k->width, k->columns, k->columns);
    if (is_direct(b, a))
        return TG_OK;
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_mhc_coeffs_backward[DPHI], all, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, mhc_coeffs_dphi, .sums = &sums, .dphi = all,
                         .parts = b->columns / k->columns, .accumulate = a->accumulate);
}

/* Memory for what is made in between. */
static tg_status prepare(tg_ctx *ctx, const mhc_tokens *k, const tg_mhc_coeffs_backward_args *a,
                         between *b)
{
    const int in_parts = a->dphi && k->x.type == TG_BF16 && k->tokens > 0;
    float *memory;
    b->columns = in_parts ? 3 * k->columns : k->columns;
    b->phi = (float *)tg_rows_of(a->phi).data;
    b->dphi = a->dphi ? (float *)tg_rows_of(a->dphi).data : NULL;
    if (in_parts) {
        ASCEND_TRY(mhc_take(ctx, (k->tokens * b->columns + 1) / 2, &memory));
        b->parts = memory;
    }
    if (a->dphi && (in_parts || tg_type_of(a->dphi) != TG_F32))
        ASCEND_TRY(mhc_take(ctx, k->width * b->columns, &b->dphi));
    if (tg_type_of(a->phi) == TG_F32)
        return TG_OK;
    mhc_matrix wide;
    ASCEND_TRY(mhc_take(ctx, k->width * k->columns, &b->phi));
    return ascend_convert(
        ctx, a->phi, mhc_matrix_at(&wide, a->x, b->phi, TG_F32, k->width, k->columns, k->columns));
}

tg_status ascend_mhc_coeffs_backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *a)
{
    const mhc_tokens k = mhc_tokens_of(a->x);
    between b = {0};
    ASCEND_TRY(prepare(ctx, &k, a, &b));
    ASCEND_TRY(gradients(ctx, &k, a, &b));
    ASCEND_TRY(small_gradients(ctx, &k, &b, a));
    if (a->dphi)
        ASCEND_TRY(multiply_x(ctx, &k, &b, a));
    ASCEND_TRY(go_through(ctx, &k, &b, a));
    return a->dphi ? end_dphi(ctx, &k, &b, a) : TG_OK;
}
