/* gemm_block_scaled: both matrices as f32, times their scales, and a product of f32. All of b is in
 * memory then, and a in chunks of rows. */
#include "core/parts.h"
#include "core/view.h"
#include "rows/rows.h"
#include "simd_e4m3.h"

enum { BLOCK = 128, CHUNK = 1024 };

/* ---- numbers of 8 bits as f32 ---- */

typedef struct widening {
    operand q, scale; /* from the first row on; its scale is number `first` of each block */
    int64_t columns, first, per_scale;
    float *to;
} widening;

/* n elements of a row in one block. */
static void widen(const uint8_t *q, float scale, int64_t n, float *to)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(EL_F32, to, i, v_from_e4m3(*(const vb_mem *)(q + i)) * v_set(scale));
    uint8_t part[VL] = {0};
    memcpy(part, q + i, (size_t)(n - i));
    v_store_n(EL_F32, to, i, n - i, v_from_e4m3(*(const vb_mem *)part) * v_set(scale));
}

static void widen_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const widening *w = arg;
    for (int64_t row = begin; row < end; row++)
        for (int64_t k = 0; k < w->columns; k += BLOCK) {
            const float *scales = (const float *)row_at(&w->scale, k / BLOCK);
            const int64_t n = w->columns - k < BLOCK ? w->columns - k : BLOCK;
            widen((const uint8_t *)row_at(&w->q, row) + k, scales[(w->first + row) / w->per_scale],
                  n, w->to + row * w->columns + k);
        }
}

/* Rows [first, first + rows) as f32. */
static void widen_matrix(tg_ctx *ctx, const tg_tensor *q, const tg_tensor *scale, int64_t first,
                         int64_t rows, float *to)
{
    widening w = {operand_of(q),
                  operand_of(scale),
                  q->shape[1],
                  first,
                  scale->shape[1] == q->shape[0] ? 1 : BLOCK,
                  to};
    w.q.data += first * w.q.stride;
    tg_parallel_for(ctx, rows, rows_grain(rows, w.columns, 1), widen_rows, &w);
}

/* ---- sums as results of 16 bits ---- */

typedef struct rounding {
    el type;
    int stream; /* 0 */
    int64_t n;
    const float *sums;
    operand addend, c; /* addend.data NULL: none */
} rounding;

SIMD_INLINE void round_rows(el e, int stream, const rounding *j, int64_t begin, int64_t end,
                            int worker)
{
    (void)stream;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const float *sums = j->sums + row * j->n;
        const char *addend = j->addend.data ? row_at(&j->addend, row) : NULL;
        for (int64_t i = 0; i < j->n; i += VL) {
            const int64_t n = j->n - i < VL ? j->n - i : VL;
            vf x = v_load_n(EL_F32, sums, i, n, 0.0f);
            if (addend)
                x += v_load_n(e, addend, i, n, 0.0f);
            v_store_n(e, row_at(&j->c, row), i, n, x);
        }
    }
}
ROWS_CHUNK(round_chunk, rounding, round_rows);

/* ---- the product ---- */

typedef struct state {
    const tg_gemm_block_scaled_args *args;
    tg_rows a, b, c;
    float *wide_a, *wide_b, *sums; /* sums: NULL if c is f32 */
} state;

/* Products of f32 write c themselves, and add to it what they can. */
static tg_status multiply(tg_ctx *ctx, const state *s, int64_t first, int64_t rows)
{
    const tg_rows addend = tg_rows_of(s->args->addend);
    view a, b, c, more;
    set_view(&a, s->wide_a, TG_F32, rows, s->a.n, s->a.n);
    set_view(&b, s->wide_b, TG_F32, s->b.rows, s->b.n, s->b.n);
    set_rows(&c, &s->c, first, rows);
    if (s->sums)
        set_view(&c, s->sums, TG_F32, rows, s->c.n, s->c.n);
    const int adds = s->args->addend && !s->sums, in_place = adds && addend.data == s->c.data;
    if (adds)
        set_rows(&more, &addend, first, rows);
    return tg_gemm(ctx, &(tg_gemm_args){.a = &a.t,
                                        .b = &b.t,
                                        .c = &c.t,
                                        .addend = adds && !in_place ? &more.t : NULL,
                                        .trans_b = 1,
                                        .beta = adds});
}

static void round_chunk_of(tg_ctx *ctx, const state *s, int64_t first, int64_t rows)
{
    rounding r = {.type = (el)tg_el(s->c.type),
                  .n = s->c.n,
                  .sums = s->sums,
                  .addend = operand_of(s->args->addend),
                  .c = operand_of(s->args->c)};
    r.c.data += first * r.c.stride;
    if (r.addend.data)
        r.addend.data += first * r.addend.stride;
    tg_parallel_for(ctx, rows, rows_grain(rows, r.n, 1), round_chunk, &r);
}

static tg_status chunks(tg_ctx *ctx, const state *s, int reserving)
{
    for (int64_t first = 0; first < s->c.rows;
         first = tg_next_chunk(ctx, first, CHUNK, s->c.rows)) {
        const int64_t rows = s->c.rows - first < CHUNK ? s->c.rows - first : CHUNK;
        if (!reserving)
            widen_matrix(ctx, s->args->a, s->args->scale_a, first, rows, s->wide_a);
        TG_TRY(multiply(ctx, s, first, rows));
        if (!reserving && s->sums)
            round_chunk_of(ctx, s, first, rows);
    }
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const tg_gemm_block_scaled_args *args)
{
    state s = {
        .args = args, .a = tg_rows_of(args->a), .b = tg_rows_of(args->b), .c = tg_rows_of(args->c)};
    const int64_t rows = s.c.rows < CHUNK ? s.c.rows : CHUNK;
    const int narrow = s.c.type != TG_F32;
    s.wide_a = tg_workspace(ctx, (size_t)(rows * s.a.n) * sizeof(float));
    s.wide_b = tg_workspace(ctx, (size_t)(s.b.rows * s.b.n) * sizeof(float));
    s.sums = narrow ? tg_workspace(ctx, (size_t)(rows * s.c.n) * sizeof(float)) : NULL;
    if (!s.wide_a || !s.wide_b || (narrow && !s.sums))
        return TG_ENOMEM;
    tg_reserve(ctx);
    const tg_status status = chunks(ctx, &s, 1);
    tg_reserved(ctx);
    if (status != TG_OK || tg_reserving(ctx))
        return status;
    widen_matrix(ctx, args->b, args->scale_b, 0, s.b.rows, s.wide_b);
    return chunks(ctx, &s, 0);
}

TG_CPU_IMPLS(gemm_block_scaled) = {TG_CPU_IMPL(gemm_block_scaled, run), TG_IMPLS_END};
