/* mhc_coeffs_products.c - products with phi, which the kernel of gemm makes: of operands as they are
 * where both have one type, else of x in f32, of a chunk of tokens after the other. */
#include "mhc_coeffs.h"

int mhc_is_dense(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    return rows.stride == rows.n || rows.rows <= 1;
}

mhc_tokens mhc_tokens_of(const tg_tensor *x)
{
    const tg_rows rows = tg_rows_of(x);
    const int64_t streams = x->shape[x->ndim - 2];
    return (mhc_tokens){.x = rows,
                        .streams = streams,
                        .tokens = rows.rows / streams,
                        .width = streams * rows.n,
                        .columns = MHC_COLUMNS(streams),
                        .segments = mhc_is_dense(x) ? 1 : streams};
}

/* ---- views of memory ---- */

tg_tensor *mhc_matrix_at(mhc_matrix *m, const tg_tensor *where, const void *at, int type,
                         int64_t rows, int64_t n, int64_t stride)
{
    m->shape[0] = rows;
    m->shape[1] = n;
    m->strides[0] = stride;
    m->strides[1] = 1;
    m->t = tg_tensor_of(at, (tg_type)type, 2, m->shape);
    m->t.strides = m->strides;
    m->t.device = where->device;
    return &m->t;
}

const tg_tensor *mhc_rows_at(mhc_matrix *m, const mhc_tokens *k, const tg_tensor *t,
                             int64_t segments, int64_t first, int64_t count)
{
    const tg_rows rows = tg_rows_of(t);
    const int64_t stride = segments == 1 ? k->width : rows.stride,
                  bytes = first * segments * stride * (int64_t)tg_type_size(rows.type);
    return mhc_matrix_at(m, t, rows.data + bytes, rows.type, count * segments, k->width / segments,
                         stride);
}

tg_status mhc_take(tg_ctx *ctx, int64_t n, float **memory)
{
    void *at;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)n * sizeof(float), &at));
    *memory = at;
    return TG_OK;
}

/* ---- products ---- */

int64_t mhc_chunk_of(const mhc_tokens *k)
{
    enum { CHUNK = 32 << 20 };
    const int64_t fit = CHUNK / (k->width * (int64_t)sizeof(float)) / 16 * 16;
    return fit < 16 ? 16 : fit;
}

/* Tokens as an operand of products: a matrix a segment, each with some of phi's rows. */
typedef struct operand {
    const void *at;
    int type;
    int64_t segments, stride; /* of a segment's rows */
    int64_t next;             /* bytes from a segment to the next */
} operand;

static operand operand_of(const mhc_tokens *k, const tg_tensor *x)
{
    const int64_t stride = k->segments == 1 ? k->width : k->x.stride;
    return (operand){k->x.data, k->x.type, k->segments, k->segments * stride,
                     stride * (int64_t)tg_type_size(tg_type_of(x))};
}

/* sums [tokens, columns] = x phi; or, `back`, dphi = x^T z, f32: add: + what is there. */
static tg_status multiply(tg_ctx *ctx, const mhc_tokens *k, const tg_tensor *where,
                          const operand *o, int64_t count, const void *by, float *to, int back,
                          int add)
{
    const int64_t n = k->width / o->segments, size = (int64_t)tg_type_size(o->type);
    for (int64_t s = 0; s < o->segments; s++) {
        mhc_matrix a, b, c;
        const int64_t row = s * n * k->columns; /* of phi */
        const tg_tensor *x = mhc_matrix_at(&a, where, (const char *)o->at + s * o->next, o->type,
                                           count, n, o->stride);
        const tg_gemm_args args = {
            .a = x,
            .b = back ? mhc_matrix_at(&b, where, by, o->type, count, k->columns, k->columns)
                      : mhc_matrix_at(&b, where, (const char *)by + row * size, o->type, n,
                                      k->columns, k->columns),
            .c = back ? mhc_matrix_at(&c, where, to + row, TG_F32, n, k->columns, k->columns)
                      : mhc_matrix_at(&c, where, to, TG_F32, count, k->columns, k->columns),
            .trans_a = back,
            .alpha = 1,
            .beta = add || (!back && s > 0)};
        ASCEND_TRY(ascend_gemm(ctx, &args));
    }
    return TG_OK;
}

/* The same of x in f32, chunk by chunk. by: in f32, of phi or, `back`, of all tokens. */
static tg_status multiply_wide(tg_ctx *ctx, const mhc_tokens *k, const tg_tensor *x,
                               const float *by, float *to, int back, int add)
{
    const int64_t most = mhc_chunk_of(k), chunk = most < k->tokens ? most : k->tokens;
    float *wide;
    ASCEND_TRY(mhc_take(ctx, chunk * k->width, &wide));
    const operand o = {wide, TG_F32, 1, k->width, 0};
    for (int64_t first = 0; first < k->tokens; first += chunk) {
        const int64_t count = k->tokens - first < chunk ? k->tokens - first : chunk;
        const int64_t at = first * k->columns;
        mhc_matrix from, to_f32;
        const tg_tensor *rows = mhc_rows_at(&from, k, x, k->segments, first, count);
        const int64_t n = k->width / k->segments;
        ASCEND_TRY(ascend_convert(
            ctx, rows, mhc_matrix_at(&to_f32, x, wide, TG_F32, count * k->segments, n, n)));
        ASCEND_TRY(multiply(ctx, k, x, &o, count, back ? by + at : by, back ? to : to + at, back,
                            add || (back && first > 0)));
    }
    return TG_OK;
}

tg_status mhc_multiply(tg_ctx *ctx, const mhc_tokens *k, const tg_tensor *x, const void *by,
                       int by_type, float *to, int back, int add)
{
    const operand o = operand_of(k, x);
    if (by_type == o.type)
        return multiply(ctx, k, x, &o, k->tokens, by, to, back, add);
    return multiply_wide(ctx, k, x, by, to, back, add);
}

/* ---- plans ---- */

tg_status mhc_choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x, int64_t n,
                     int64_t lines)
{
    const int64_t groups = (n + MHC_GROUP - 1) / MHC_GROUP, width = lines * MHC_GROUP;
    ASCEND_TRY(ascend_begin(plan, ub, x, groups, width, TG_F32, 0));
    const int64_t wanted = (groups + plan->problem.cores - 1) / plan->problem.cores;
    for (int64_t g = wanted < ub->max_rows ? wanted : ub->max_rows; g > 0; g--)
        if (ascend_fits(plan, g, width))
            return TG_OK;
    return ascend_host->fail(TG_EUNSUPPORTED, "%s: UB has no room for the numbers of a token",
                             ub->name);
}
