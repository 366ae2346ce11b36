/* moe_gather and moe_scatter on the CPU, from rows to tokens: the sum of a token's rows, which lie
 * anywhere, so that those of the next token are asked for meanwhile. */
#include "moe_gather_cpu.h"

/* PAIRS: pairs of vectors that are summed in registers over all rows of a token. */
enum { PAIRS = 4 };

typedef struct job {
    el type;
    int stream;
    operand rows, out;
    slots slots;
    int64_t n;
    int64_t *list; /* of each worker: places of a token and of the next one, and then weights */
} job;

/* A token's slots that have a row. */
typedef struct token_rows {
    const char **row;
    float *weight;
    int64_t count;
} token_rows;

static token_rows rows_of(const job *j, int64_t token, int64_t *list)
{
    const slots *s = &j->slots;
    token_rows r = {(const char **)list, (float *)(list + s->top_k), 0};
    for (int64_t slot = token * s->top_k; slot < (token + 1) * s->top_k; slot++) {
        if (s->place[slot] < 0)
            continue;
        r.row[r.count] = row_at(&j->rows, s->place[slot]);
        r.weight[r.count++] = weight_of(s, slot);
    }
    return r;
}

/* Columns [at, at + count pairs) of the sum. count: a constant. */
SIMD_INLINE void sum_pairs(el e, int stream, int count, char *out, const token_rows *r, int64_t at)
{
    vf2 sum[PAIRS];
    for (int i = 0; i < count; i++)
        sum[i] = (vf2){v_set(0.0f), v_set(0.0f)};
    for (int64_t k = 0; k < r->count; k++) {
        const vf weight = v_set(r->weight[k]);
        for (int i = 0; i < count; i++) {
            const vf2 x = v_load2(e, e, r->row[k], at + i * V_PAIR);
            sum[i] = (vf2){sum[i].a + weight * x.a, sum[i].b + weight * x.b};
        }
    }
    for (int i = 0; i < count; i++)
        v_write2(e, stream, out, at + i * V_PAIR, sum[i]);
}

SIMD_INLINE void sum_tail(el e, char *out, const token_rows *r, int64_t n)
{
    for (int64_t at = v_whole_pairs(n); at < n; at += VL) {
        const int64_t left = v_tail(n, at);
        vf sum = v_set(0.0f);
        for (int64_t k = 0; k < r->count; k++)
            sum += v_set(r->weight[k]) * v_load_n(e, r->row[k], at, left, 0);
        v_store_n(e, out, at, left, sum);
    }
}

SIMD_INLINE void ask_for(el e, const token_rows *r, int64_t at)
{
    for (int64_t k = 0; k < r->count; k++)
        for (int i = 0; i < PAIRS; i++)
            v_prefetch2(e, r->row[k], at + i * V_PAIR);
}

SIMD_INLINE void sum_tokens(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    int64_t *list[2];
    list[0] = j->list + worker * 4 * j->slots.top_k;
    list[1] = list[0] + 2 * j->slots.top_k;
    token_rows r = {0}, next = rows_of(j, begin, list[begin & 1]);
    for (int64_t t = begin; t < end; t++) {
        r = next;
        if (t + 1 < end)
            next = rows_of(j, t + 1, list[(t + 1) & 1]);
        char *out = row_at(&j->out, t);
        int64_t at = 0;
        for (; at + PAIRS * V_PAIR <= j->n; at += PAIRS * V_PAIR) {
            sum_pairs(e, stream, PAIRS, out, &r, at);
            ask_for(e, &next, at);
        }
        for (; at + V_PAIR <= j->n; at += V_PAIR)
            sum_pairs(e, stream, 1, out, &r, at);
        sum_tail(e, out, &r, j->n);
    }
}

ROWS_CHUNK(sum_chunk, job, sum_tokens);

/* out = the sum of each token's rows */
static tg_status collect(tg_ctx *ctx, const tg_tensor *rows, const tg_tensor *place,
                         const tg_tensor *weights, const tg_tensor *out)
{
    const tg_rows to = tg_rows_of(out);
    job j = {.type = el_of(out),
             .stream = rows_stream_aligned(out, rows),
             .rows = operand_of(rows),
             .out = operand_of(out),
             .slots = {.place = tg_data(place),
                       .weights = tg_data(weights),
                       .rows = rows->shape[0],
                       .tokens = to.rows,
                       .top_k = place->shape[1]},
             .n = to.n};
    const int64_t each = 4 * j.slots.top_k;
    j.list = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * each + 1) * sizeof *j.list);
    if (!j.list)
        return TG_ENOMEM;
    tg_parallel_for(ctx, to.rows, rows_grain(to.rows, to.n * j.slots.top_k, 1), sum_chunk, &j);
    return TG_OK;
}

static tg_status gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    return collect(ctx, a->drows, a->place, NULL, a->dx);
}

static tg_status scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    return collect(ctx, a->rows, a->place, a->weights, a->y);
}

TG_CPU_IMPLS(moe_gather) = {TG_CPU_IMPL(moe_gather_backward, gather_backward),
                            TG_CPU_IMPL(moe_scatter_forward, scatter_forward), TG_IMPLS_END};
