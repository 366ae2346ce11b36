/* mhc_coeffs_products.c - products with phi, which the kernel of gemm makes: of operands as they
 * are where both have one type, else of x in f32, of a chunk of tokens after the other. */
#include "mhc_coeffs.h"

ASCEND_KERNEL(mhc_turn, MHC_TURN);

ASCEND_KERNELS(mhc_coeffs_products) = {
    {.name = "mhc_turn", ASCEND_BUFFERS(mhc_turn), .whole_rows = 1, .column_multiple = 16},
    {0},
};

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
    const int64_t stride = segments == k->streams ? rows.stride : k->width,
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

int64_t mhc_chunk_of(const ascend_plan *plan, const mhc_tokens *k, int64_t size)
{
    const tg_npu_chip *chip = tg_npu_chip_find(plan->runtime->info()->soc);
    const int64_t fit = chip ? chip->l2_bytes / 2 / (k->width * size) / 16 * 16 : 0,
                  most = fit < 16 ? 16 : fit;
    return most < k->tokens ? most : k->tokens;
}

tg_status mhc_turn(tg_ctx *ctx, const tg_tensor *where, const void *from, int type, int64_t rows,
                   int64_t columns, const void **to)
{
    enum { LANES = 64, MOST = 16 * LANES, LEAST = 16 };
    mhc_matrix of_from, of_to;
    ascend_plan plan;
    float *memory;
    ASCEND_TRY(mhc_take(ctx, (rows * columns * (int64_t)tg_type_size(type) + 3) / 4, &memory));
    *to = memory;
    const tg_tensor *all = mhc_matrix_at(&of_from, where, from, type, rows, columns, columns);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_mhc_coeffs_products[0], all, 0));
    const int64_t share = (rows + plan.problem.cores - 1) / plan.problem.cores,
                  wanted = (share + LANES - 1) / LANES * LANES;
    for (int64_t n = wanted < MOST ? wanted : MOST; n >= LEAST; n = n > LANES ? n - LANES : n / 2)
        if (ascend_fits(&plan, n, columns))
            return ASCEND_LAUNCH(
                ctx, &plan, mhc_turn, .from = all,
                .to = mhc_matrix_at(&of_to, where, memory, type, columns, rows, rows));
    return ascend_host->fail(TG_EUNSUPPORTED, "mhc_turn: UB has no room for 16 rows of %lld",
                             (long long)columns);
}

/* Tokens as an operand: a matrix a segment, each with some of the rows of phi. */
typedef struct operand {
    const char *at;
    int type;
    int64_t segments, stride; /* of a segment's rows */
    int64_t next;             /* bytes from a segment to the next */
} operand;

static operand operand_of(const mhc_tokens *k, const mhc_products *p)
{
    const int64_t stride = k->segments == k->streams ? k->x.stride : k->width,
                  size = (int64_t)tg_type_size(k->x.type);
    return (operand){k->x.data + p->first * k->segments * stride * size, k->x.type, k->segments,
                     k->segments * stride, stride * size};
}

/* A product a segment. */
static tg_status multiply(tg_ctx *ctx, const mhc_tokens *k, const mhc_products *p, const operand *o)
{
    const int64_t n = k->width / o->segments, columns = p->columns,
                  size = (int64_t)tg_type_size(o->type);
    for (int64_t s = 0; s < o->segments; s++) {
        mhc_matrix a, b, c;
        const char *by = (const char *)p->by + (p->back ? 0 : s * n * size);
        float *to = p->to + (p->back ? s * n * columns : 0);
        const tg_gemm_args args = {
            .a = mhc_matrix_at(&a, p->x, o->at + s * o->next, o->type, p->count, n, o->stride),
            .b = mhc_matrix_at(&b, p->x, by, o->type, columns, p->back ? p->count : n, p->by_rows),
            .c = mhc_matrix_at(&c, p->x, to, TG_F32, p->back ? n : p->count, columns, columns),
            .trans_a = p->back,
            .trans_b = 1,
            .alpha = 1,
            .beta = p->add || (!p->back && s > 0)};
        ASCEND_TRY(ascend_gemm(ctx, &args));
    }
    return TG_OK;
}

/* Of x in f32, chunk by chunk. */
static tg_status multiply_wide(tg_ctx *ctx, const mhc_tokens *k, const mhc_products *p)
{
    const int64_t chunk = p->chunk, n = k->width / k->segments;
    float *wide;
    ASCEND_TRY(mhc_take(ctx, chunk * k->width, &wide));
    const operand o = {(const char *)wide, TG_F32, 1, k->width, 0};
    for (int64_t first = 0; first < p->count; first += chunk) {
        mhc_products part = *p;
        mhc_matrix from, to_f32;
        part.count = p->count - first < chunk ? p->count - first : chunk;
        if (p->back)
            part.by = (const float *)p->by + first;
        else
            part.to = p->to + first * p->columns;
        part.add = p->add || (p->back && first > 0);
        ASCEND_TRY(ascend_convert(
            ctx, mhc_rows_at(&from, k, p->x, k->segments, p->first + first, part.count),
            mhc_matrix_at(&to_f32, p->x, wide, TG_F32, part.count * k->segments, n, n)));
        ASCEND_TRY(multiply(ctx, k, &part, &o));
    }
    return TG_OK;
}

tg_status mhc_multiply(tg_ctx *ctx, const mhc_tokens *k, const mhc_products *p)
{
    const operand o = operand_of(k, p);
    return p->by_type == o.type || p->count == 0 ? multiply(ctx, k, p, &o)
                                                 : multiply_wide(ctx, k, p);
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
