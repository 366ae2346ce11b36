/* moe_gather and moe_scatter on the CPU, from tokens to rows. Where each row is the one of its slot
 * and every slot that of its row, one walk over the tokens reads each of them once; else there is a
 * walk over the rows, and one for the products of dweights. */
#include "moe_gather_cpu.h"
#include "rows/copies.h"

typedef struct job {
    el type;
    int stream;
    operand tokens, rows, out; /* tokens: x or dy; rows: of backward, may be missing */
    slots slots;
    int64_t n;
    float *dweights; /* may be NULL */
} job;

/* ---- a row ---- */

/* out = weight x */
SIMD_INLINE void scale_row(el e, int stream, char *out, const char *x, float weight, int64_t n)
{
    const vf by = v_set(weight);
    int64_t i = 0;
    for (; i + V_PAIR <= n; i += V_PAIR) {
        const vf2 a = v_load2(e, e, x, i);
        v_write2(e, stream, out, i, (vf2){by * a.a, by * a.b});
    }
    for (; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        v_store_n(e, out, i, left, by * v_load_n(e, x, i, left, 0));
    }
}

SIMD_INLINE float product(el e, const char *x, const char *y, const char *next, int64_t n)
{
    vf sum[2] = {v_set(0.0f), v_set(0.0f)};
    int64_t i = 0;
    for (; i + V_PAIR <= n; i += V_PAIR) {
        const vf2 a = v_load2(e, e, x, i), b = v_load2(e, e, y, i);
        sum[0] += a.a * b.a;
        sum[1] += a.b * b.b;
        v_prefetch2(e, next, i);
    }
    for (; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        sum[0] += v_load_n(e, x, i, left, 0) * v_load_n(e, y, i, left, 0);
    }
    return v_sum(sum[0] + sum[1]);
}

/* The row of a slot becomes its weight times x. */
SIMD_INLINE void write_row(el e, int stream, const job *j, int64_t row, int64_t slot, const char *x)
{
    char *out = row_at(&j->out, row);
    if (j->slots.weights)
        scale_row(e, stream, out, x, j->slots.weights[slot], j->n);
    else
        copy_bytes(stream, out, x, x, j->n * el_size(e));
}

/* ---- walks ---- */

SIMD_INLINE void clear_rows(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t row = begin; row < end; row++)
        if (j->slots.slot[row] < 0)
            zero_bytes(stream, row_at(&j->out, row), j->n * el_size(e));
}

SIMD_INLINE void write_rows(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    clear_rows(e, stream, j, begin, end, worker);
    for (int64_t row = begin; row < end; row++) {
        const int64_t slot = j->slots.slot[row];
        if (slot >= 0)
            write_row(e, stream, j, row, slot, row_at(&j->tokens, slot / j->slots.top_k));
    }
}

/* Products alone where stream and out are of no concern. */
SIMD_INLINE void multiply_slot(el e, const job *j, int64_t slot, const char *x)
{
    const int64_t last = j->slots.tokens * j->slots.top_k - 1;
    const int64_t place = j->slots.place[slot],
                  next = j->slots.place[slot < last ? slot + 1 : slot];
    j->dweights[slot] = place < 0 ? 0.0f
                                  : product(e, x, row_at(&j->rows, place),
                                            row_at(&j->rows, next < 0 ? place : next), j->n);
}

SIMD_INLINE void multiply_tokens(el e, int stream, const job *j, int64_t begin, int64_t end,
                                 int worker)
{
    (void)stream;
    (void)worker;
    const int64_t top_k = j->slots.top_k;
    for (int64_t slot = begin * top_k; slot < end * top_k; slot++)
        multiply_slot(e, j, slot, row_at(&j->tokens, slot / top_k));
}

SIMD_INLINE void write_tokens(el e, int stream, const job *j, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const char *x = row_at(&j->tokens, t);
        for (int64_t slot = t * j->slots.top_k; slot < (t + 1) * j->slots.top_k; slot++) {
            if (j->dweights)
                multiply_slot(e, j, slot, x);
            if (j->slots.place[slot] >= 0)
                write_row(e, stream, j, j->slots.place[slot], slot, x);
        }
    }
}

ROWS_CHUNK(clear_chunk, job, clear_rows);
ROWS_CHUNK(rows_chunk, job, write_rows);
ROWS_CHUNK(multiply_chunk, job, multiply_tokens);
ROWS_CHUNK(tokens_chunk, job, write_tokens);

/* ---- calls ---- */

/* 1 if slot and place are each other's inverse: those that have a row are as many on both sides. */
static int are_inverse(const slots *s)
{
    int64_t with_row = 0, with_slot = 0;
    for (int64_t i = 0; i < s->tokens * s->top_k; i++) {
        if (s->place[i] < 0)
            continue;
        if (s->slot[s->place[i]] != i)
            return 0;
        with_row++;
    }
    for (int64_t row = 0; row < s->rows; row++)
        with_slot += s->slot[row] >= 0;
    return with_row == with_slot;
}

static tg_status run(tg_ctx *ctx, job *j)
{
    const slots *s = &j->slots;
    const int64_t rows = rows_grain(s->rows, j->n, 1);
    const int64_t tokens = rows_grain(s->tokens, j->n * s->top_k, 1);
    if (s->place && are_inverse(s)) {
        tg_parallel_for(ctx, s->rows, rows, clear_chunk, j);
        tg_parallel_for(ctx, s->tokens, tokens, tokens_chunk, j);
        return TG_OK;
    }
    tg_parallel_for(ctx, s->rows, rows, rows_chunk, j);
    if (j->dweights)
        tg_parallel_for(ctx, s->tokens, tokens, multiply_chunk, j);
    return TG_OK;
}

static tg_status gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), out = tg_rows_of(a->rows);
    job j = {.type = el_of(a->x),
             .tokens = operand_of(a->x),
             .out = operand_of(a->rows),
             .slots = {.slot = tg_data(a->slot),
                       .place = tg_data(a->place),
                       .rows = out.rows,
                       .tokens = x.rows,
                       .top_k = a->top_k},
             .n = x.n};
    j.stream = tg_streams(out.rows * out.n * el_size(j.type));
    return run(ctx, &j);
}

static tg_status scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy), out = tg_rows_of(a->drows);
    job j = {.type = el_of(a->dy),
             .tokens = operand_of(a->dy),
             .rows = operand_of(a->rows),
             .out = operand_of(a->drows),
             .slots = {.slot = tg_data(a->slot),
                       .place = tg_data(a->place),
                       .weights = tg_data(a->weights),
                       .rows = out.rows,
                       .tokens = dy.rows,
                       .top_k = a->place->shape[1]},
             .n = dy.n,
             .dweights = tg_data(a->dweights)};
    j.stream = rows_stream_aligned(a->drows, a->dy);
    return run(ctx, &j);
}

TG_CPU_IMPLS(moe_gather_spread) = {TG_CPU_IMPL(moe_gather_forward, gather_forward),
                                   TG_CPU_IMPL(moe_scatter_backward, scatter_backward),
                                   TG_IMPLS_END};
