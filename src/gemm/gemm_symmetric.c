/* src/gemm/gemm_symmetric.c - products that their caller knows to be symmetric: what is on and
 * below the diagonal is computed, in rows of blocks, and the rest is copied from there. */
#include "core/parts.h"
#include "gemm_batch.h"

enum {
    BLOCK = 256, /* rows of a row of blocks */
    LEAST = 768, /* of smaller products the whole costs no more */
    TILE = 32    /* rows and columns that are turned at a time */
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- rows of blocks ---- */

/* A part of a tensor's matrices. */
typedef struct part {
    tg_tensor t;
    int64_t shape[TG_MAX_NDIM], strides[TG_MAX_NDIM];
} part;

static tg_tensor *part_of(part *p, const tg_tensor *t, int64_t row, int64_t rows, int64_t columns)
{
    if (!t)
        return NULL;
    p->t = *t;
    for (int i = 0; i < t->ndim; i++) {
        p->shape[i] = t->shape[i];
        p->strides[i] = tg_stride(t, i);
    }
    p->shape[t->ndim - 2] = rows;
    p->shape[t->ndim - 1] = columns;
    p->t.shape = p->shape;
    p->t.strides = p->strides;
    p->t.byte_offset += (uint64_t)(row * gemm_stride(t)) * tg_type_size(tg_type_of(t));
    return &p->t;
}

/* Columns from `column` on, instead. */
static tg_tensor *columns_of(part *p, const tg_tensor *t, int64_t column, int64_t columns)
{
    part_of(p, t, 0, gemm_rows(t), columns);
    p->t.byte_offset += (uint64_t)column * tg_type_size(tg_type_of(t));
    return &p->t;
}

/* Rows `row` to `row + rows` of c up to the diagonal. */
static tg_status multiply_rows(tg_ctx *ctx, const tg_gemm_args *args, int64_t row, int64_t rows,
                               gemm_multiply_fn *multiply)
{
    const int64_t columns = row + rows;
    part a, b, addend, c;
    tg_gemm_args one = *args;
    one.a = args->trans_a ? columns_of(&a, args->a, row, rows)
                          : part_of(&a, args->a, row, rows, gemm_cols(args->a));
    one.b = args->trans_b ? part_of(&b, args->b, 0, columns, gemm_cols(args->b))
                          : columns_of(&b, args->b, 0, columns);
    one.addend = part_of(&addend, args->addend, row, rows, columns);
    one.c = part_of(&c, args->c, row, rows, columns);
    return multiply(ctx, &one);
}

/* ---- what is above the diagonal ---- */

typedef struct mirror {
    const tg_tensor *c;
    int64_t n, tiles; /* tiles: of a side */
} mirror;

#define TURN(type)                                         \
    for (int64_t i = i0; i < min64(i0 + TILE, m->n); i++)  \
        for (int64_t j = j0; j < min64(j0 + TILE, i); j++) \
    ((type *)data)[j * stride + i] = ((const type *)data)[i * stride + j]

/* Rows of tiles, of one matrix after the other. */
static void turn(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const mirror *m = arg;
    const int64_t stride = gemm_stride(m->c);
    for (int64_t t = begin; t < end; t++) {
        void *data = gemm_data(m->c, t / m->tiles);
        const int64_t i0 = t % m->tiles * TILE;
        for (int64_t j0 = 0; j0 <= i0; j0 += TILE) {
            if (tg_type_of(m->c) == TG_F32)
                TURN(uint32_t);
            else
                TURN(uint16_t);
        }
    }
}

/* ---- the whole ---- */

static tg_status multiply_halves(tg_ctx *ctx, const tg_gemm_args *args, gemm_multiply_fn *multiply)
{
    const int64_t n = gemm_rows(args->c), last = (n - 1) / BLOCK * BLOCK;
    /* the last rows need most memory, and the others what they give back */
    for (int64_t row = tg_reserving(ctx) ? last : 0; row < n; row += BLOCK)
        TG_TRY(multiply_rows(ctx, args, row, min64(BLOCK, n - row), multiply));
    if (tg_reserving(ctx))
        return TG_OK;
    mirror m = {args->c, n, (n + TILE - 1) / TILE};
    tg_parallel_for(ctx, gemm_products(args) * m.tiles, 1, turn, &m);
    return TG_OK;
}

tg_status gemm_run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args, gemm_multiply_fn *multiply)
{
    const tg_gemm_args all = gemm_of_batch(args);
    if (args->symmetric && gemm_rows(args->c) >= LEAST && gemm_inner(&all) > 0)
        return multiply_halves(ctx, &all, multiply);
    return multiply(ctx, &all);
}
