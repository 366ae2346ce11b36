/* attn_res on the CPU. A token's rows, one in each block, are read twice: for their products, and
 * for the result, when they are in the cache. The next token's are asked for meanwhile. */
#include "rows/columns.h"
#include "rows/rows.h"

/* WORTH: elements of a chunk of tokens with a sum of its own. COLUMNS: how many of a row leave
 * before the next row's do; what belongs to them is in the first cache. */
enum { WORTH = 4 * ROWS_WORTH, COLUMNS = 512 };

typedef struct job {
    operand v, dy, out; /* dy: backward only; out: y or dv */
    const float *query; /* query weight, of each column */
    const float *alpha, *rstd;
    float *save_alpha, *save_rstd;   /* forward only; may be missing */
    float *scratch;                  /* of each worker: KEPT rows of `room` floats */
    int64_t tokens, blocks, room, n; /* room: blocks, and a vector more */
    int64_t ahead;                   /* bytes from a row to the one to ask for */
    float eps;
    int stream;
    el type;
    column_sums sums; /* backward only */
} job;

/* What is kept of a token's blocks. */
enum { SCALE, PULL, BACK, KEPT };

SIMD_INLINE float *kept_of(const job *job, int worker, int which)
{
    return job->scratch + (worker * KEPT + which) * job->room;
}

SIMD_INLINE char *block_row(const job *job, const operand *o, int64_t token, int64_t block)
{
    return row_at(o, block * job->tokens + token);
}

/* ---- products of a row ---- */

typedef struct products {
    float other, query; /* sum of v other, of v query weight */
} products;

SIMD_INLINE void add_products(el e, const char *v, const char *other, const float *query, int64_t j,
                              vf2 *by_other, vf2 *by_query)
{
    const vf2 a = v_load2(e, e, v, j), b = v_load2(e, e, other, j), q = v_get2(query + j);
    *by_other = (vf2){by_other->a + a.a * b.a, by_other->b + a.b * b.b};
    *by_query = (vf2){by_query->a + a.a * q.a, by_query->b + a.b * q.b};
}

SIMD_INLINE products products_of(el e, const char *v, const char *other, const float *query,
                                 int64_t n)
{
    vf2 by_other[2] = {{{0}, {0}}, {{0}, {0}}}, by_query[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_products(e, v, other, query, j + k * V_PAIR, &by_other[k], &by_query[k]);
    for (; j + V_PAIR <= n; j += V_PAIR)
        add_products(e, v, other, query, j, &by_other[0], &by_query[0]);
    for (; j < n; j += VL) {
        const int64_t left = v_tail(n, j);
        const vf a = v_load_n(e, v, j, left, 0);
        by_other[1].a += a * v_load_n(e, other, j, left, 0);
        by_query[1].a += a * v_load_n(EL_F32, query, j, left, 0);
    }
    return (products){v_sum((by_other[0].a + by_other[0].b) + (by_other[1].a + by_other[1].b)),
                      v_sum((by_query[0].a + by_query[0].b) + (by_query[1].a + by_query[1].b))};
}

/* ---- forward ---- */

/* Scores become their softmax. */
SIMD_INLINE void softmax(float *score, int64_t n)
{
    vf max = v_set(-INFINITY), sum = {0};
    for (int64_t l = 0; l < n; l += VL)
        max = v_max(max, v_load_n(EL_F32, score, l, v_tail(n, l), -INFINITY));
    max = v_set(v_hmax(max));
    for (int64_t l = 0; l < n; l += VL) {
        const vf e = v_exp(v_load_n(EL_F32, score, l, v_tail(n, l), -INFINITY) - max);
        sum += v_select(v_first(n - l), e, v_set(0));
        v_store(EL_F32, score, l, e);
    }
    const vf total = v_set(v_sum(sum));
    for (int64_t l = 0; l < n; l += VL)
        v_store(EL_F32, score, l, v_load(EL_F32, score, l) / total);
}

/* alpha [blocks] of a token, whose rstd is saved. */
SIMD_INLINE void weigh(el e, const job *job, int64_t token, float *alpha)
{
    for (int64_t l = 0; l < job->blocks; l++) {
        const char *v = block_row(job, &job->v, token, l);
        const products p = products_of(e, v, v, job->query, job->n);
        const float r = 1 / sqrtf(p.other / (float)job->n + job->eps);
        alpha[l] = r * p.query;
        if (job->save_rstd)
            job->save_rstd[token * job->blocks + l] = r;
    }
    softmax(alpha, job->blocks);
    if (job->save_alpha)
        memcpy(job->save_alpha + token * job->blocks, alpha, (size_t)job->blocks * sizeof *alpha);
}

SIMD_INLINE void forward_token(el e, int stream, const job *job, int64_t token, float *alpha)
{
    weigh(e, job, token, alpha);
    char *y = row_at(&job->out, token);
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t l = 0; l < job->blocks; l++) {
            const char *v = block_row(job, &job->v, token, l);
            const vf2 x = v_load2(e, e, v, j);
            const vf a = v_set(alpha[l]);
            sum = (vf2){sum.a + a * x.a, sum.b + a * x.b};
            v_prefetch2(e, v + job->ahead, j);
        }
        v_write2(e, stream, y, j, sum);
    }
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        vf sum = {0};
        for (int64_t l = 0; l < job->blocks; l++)
            sum += v_set(alpha[l]) * v_load_n(e, block_row(job, &job->v, token, l), j, left, 0);
        v_store_n(e, y, j, left, sum);
    }
}

SIMD_INLINE void forward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                int worker)
{
    for (int64_t t = begin; t < end; t++)
        forward_token(e, stream, job, t, kept_of(job, worker, SCALE));
}

ROWS_CHUNK(forward_chunk, job, forward_tokens);

/* ---- backward: dv = scale dy + pull query weight - back v ---- */

/* What is kept of a token: scale, which is alpha, pull = ds rstd, back = ds rstd^3 S / n. */
SIMD_INLINE void gradients_of_scores(el e, const job *job, int64_t token, int worker)
{
    float *scale = kept_of(job, worker, SCALE), *pull = kept_of(job, worker, PULL),
          *back = kept_of(job, worker, BACK);
    const float *alpha = job->alpha + token * job->blocks, *rstd = job->rstd + token * job->blocks;
    double mean = 0;
    for (int64_t l = 0; l < job->blocks; l++) {
        const products p = products_of(e, block_row(job, &job->v, token, l),
                                       row_at(&job->dy, token), job->query, job->n);
        scale[l] = alpha[l];
        pull[l] = p.other;
        back[l] = p.query;
        mean += (double)alpha[l] * p.other;
    }
    for (int64_t l = 0; l < job->blocks; l++) {
        pull[l] = (float)(alpha[l] * (pull[l] - mean)) * rstd[l];
        back[l] *= pull[l] * rstd[l] * rstd[l] / (float)job->n;
    }
}

SIMD_INLINE vf gradient(vf dy, vf query, vf v, float scale, float pull, float back)
{
    return v_set(scale) * dy + (v_set(pull) * query - v_set(back) * v);
}

/* Whole pairs [begin, end) of a row of dv, and what it adds to the sum. */
SIMD_INLINE void gradient_pairs(el e, int stream, const job *job, const char *dy, const char *v,
                                char *dv, const float kept[KEPT], float *sum, int64_t begin,
                                int64_t end)
{
    const vf pull = v_set(kept[PULL]);
    for (int64_t j = begin; j < end; j += V_PAIR) {
        const vf2 x = v_load2(e, e, v, j), g = v_load2(e, e, dy, j), q = v_get2(job->query + j);
        v_write2(e, stream, dv, j,
                 (vf2){gradient(g.a, q.a, x.a, kept[SCALE], kept[PULL], kept[BACK]),
                       gradient(g.b, q.b, x.b, kept[SCALE], kept[PULL], kept[BACK])});
        if (sum) {
            const vf2 s = v_get2(sum + j);
            v_put2(sum + j, (vf2){s.a + pull * x.a, s.b + pull * x.b});
        }
        v_prefetch2(e, v + job->ahead, j);
    }
}

SIMD_INLINE void gradient_tail(el e, const job *job, const char *dy, const char *v, char *dv,
                               const float kept[KEPT], float *sum)
{
    for (int64_t j = v_whole_pairs(job->n); j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf x = v_load_n(e, v, j, left, 0), g = v_load_n(e, dy, j, left, 0),
                 q = v_load_n(EL_F32, job->query, j, left, 0);
        v_store_n(e, dv, j, left, gradient(g, q, x, kept[SCALE], kept[PULL], kept[BACK]));
        if (sum)
            v_store_n(EL_F32, sum, j, left,
                      v_load_n(EL_F32, sum, j, left, 0) + v_set(kept[PULL]) * x);
    }
}

SIMD_INLINE void backward_token(el e, int stream, const job *job, int64_t token, int worker,
                                float *sum)
{
    gradients_of_scores(e, job, token, worker);
    const float *scale = kept_of(job, worker, SCALE), *pull = kept_of(job, worker, PULL),
                *back = kept_of(job, worker, BACK);
    const char *dy = row_at(&job->dy, token);
    const int64_t whole = v_whole_pairs(job->n);
    int64_t begin = 0;
    do {
        const int64_t end = begin + COLUMNS < whole ? begin + COLUMNS : whole;
        for (int64_t l = 0; l < job->blocks; l++) {
            const float kept[KEPT] = {scale[l], pull[l], back[l]};
            const char *v = block_row(job, &job->v, token, l);
            char *dv = block_row(job, &job->out, token, l);
            gradient_pairs(e, stream, job, dy, v, dv, kept, sum, begin, end);
            if (end == whole)
                gradient_tail(e, job, dy, v, dv, kept, sum);
        }
        begin = end;
    } while (begin < whole);
}

SIMD_INLINE void backward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                 int worker)
{
    float *sum = columns_begin(&job->sums, begin);
    for (int64_t t = begin; t < end; t++)
        backward_token(e, stream, job, t, worker, sum);
}

ROWS_CHUNK(backward_chunk, job, backward_tokens);

/* ---- calls ---- */

/* query weight, as f32; both stay with the caller as well. */
static tg_status load_query(tg_ctx *ctx, job *job, const tg_tensor *query, const tg_tensor *weight,
                            const float *each[2])
{
    TG_TRY(columns_load(ctx, job->type, query, job->n, 0, &each[0]));
    TG_TRY(columns_load(ctx, job->type, weight, job->n, 0, &each[1]));
    float *product = tg_workspace(ctx, (size_t)job->n * sizeof *product);
    if (!product)
        return TG_ENOMEM;
    for (int64_t j = 0; j < job->n; j++)
        product[j] = each[0][j] * each[1][j];
    job->query = product;
    return TG_OK;
}

static tg_status prepare(tg_ctx *ctx, job *job, const tg_tensor *v, const tg_tensor *out)
{
    const tg_rows rows = tg_rows_of(v);
    job->v = operand_of(v);
    job->out = operand_of(out);
    job->type = el_of(v);
    job->blocks = v->shape[0];
    job->tokens = rows.rows / job->blocks;
    job->n = rows.n;
    job->room = job->blocks + VL;
    job->stream = rows_stream_aligned(out, v);
    job->ahead = v_rows_ahead(job->blocks * job->n * el_size(job->type), 1) * job->v.stride;
    const int64_t kept = tg_ctx_threads(ctx) * KEPT * job->room;
    job->scratch = tg_workspace(ctx, (size_t)kept * sizeof *job->scratch);
    return job->scratch ? TG_OK : TG_ENOMEM;
}

static tg_status forward(tg_ctx *ctx, const tg_attn_res_forward_args *args)
{
    job job = {.eps = (float)args->eps,
               .save_alpha = tg_data(args->alpha),
               .save_rstd = tg_data(args->rstd)};
    const float *each[2];
    TG_TRY(prepare(ctx, &job, args->v, args->y));
    TG_TRY(load_query(ctx, &job, args->query, args->weight, each));
    const int64_t grain = rows_grain(job.tokens, job.blocks * job.n, 1);
    tg_parallel_for(ctx, job.tokens, grain, forward_chunk, &job);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_attn_res_backward_args *args)
{
    job job = {
        .dy = operand_of(args->dy), .alpha = tg_data(args->alpha), .rstd = tg_data(args->rstd)};
    const float *each[2];
    TG_TRY(prepare(ctx, &job, args->v, args->dv));
    TG_TRY(load_query(ctx, &job, args->query, args->weight, each));
    int64_t grain = rows_grain(job.tokens, job.blocks * job.n, 1);
    if (args->dquery || args->dweight) {
        grain = columns_grain(job.tokens, rows_worth(job.blocks * job.n, WORTH), 1);
        TG_TRY(columns_sums(ctx, job.tokens, job.n, 1, grain, &job.sums));
    }
    tg_parallel_for(ctx, job.tokens, grain, backward_chunk, &job);
    columns_reduce_times(ctx, &job.sums, 0, job.type, each[1], args->dquery, args->accumulate);
    columns_reduce_times(ctx, &job.sums, 0, job.type, each[0], args->dweight, args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(attn_res) = {TG_CPU_IMPL(attn_res_forward, forward),
                          TG_CPU_IMPL(attn_res_backward, backward), TG_IMPLS_END};
