/* mhc_coeffs on the CPU, backward, in two passes: over tokens, which leaves the gradient of mix,
 * and over columns of x, which are read once and leave dx, while dphi's columns are summed over all
 * tokens in the cache. */
#include "mhc_coeffs_cpu.h"
#include "rows/columns.h"

typedef struct job {
    coeffs c;
    operand x, dx;
    const float *mix, *rstd;
    const float *dpre, *dpost, *dres; /* may be missing */
    float *z, *back;                  /* of tokens: d alpha rstd [columns]; q rstd^2 / (S C) */
    float *sums;                      /* of each chunk of blocks: of d, of d mix, [2, columns] */
    float *scratch;                   /* `room` floats a worker */
    char *dphi;                       /* may be missing */
    int64_t room, grain, piece;       /* piece: chunks of a stream that are an item */
    float post_multiplier;
    int accumulate, stream;
    el type, phi_type;
} job;

/* ---- over tokens ---- */

/* Number `at` of `n` numbers that each token has, of VL tokens; 0 for those there are not. */
static vf gather(const float *of, int64_t token, int64_t count, int64_t n, int64_t at)
{
    vf v = {0};
    for (int64_t t = 0; of && t < VL && t < count; t++)
        v[t] = of[(token + t) * n + at];
    return v;
}

/* d, the gradient of a line that was divided by its sum + eps, becomes that of the line before. */
static void divide_back(const vf *from, const vf *to, vf *d, int64_t n, int64_t step, vf eps)
{
    vf sum = eps, pulled = {0};
    for (int64_t i = 0; i < n * step; i += step) {
        sum += from[i];
        pulled += d[i] * to[i];
    }
    for (int64_t i = 0; i < n * step; i += step)
        d[i] = (d[i] - pulled) / sum;
}

/* d, the gradient of the last of the matrices, becomes that of the logits. */
static void iterate_back(const coeffs *c, const vf *matrices, vf *d)
{
    const int64_t streams = c->streams, size = streams * streams;
    const vf eps = v_set(c->eps);
    for (int64_t k = 2 * c->iterations - 1; k > 0; k--) {
        const vf *from = matrices + (k - 1) * size;
        const int64_t next = k % 2 ? 1 : streams, step = k % 2 ? streams : 1;
        for (int64_t line = 0; line < streams; line++)
            divide_back(from + line * next, from + size + line * next, d + line * next, streams,
                        step, eps);
    }
    for (int64_t o = 0; o < size; o += streams) {
        vf pulled = {0};
        for (int64_t i = 0; i < streams; i++)
            pulled += d[o + i] * (matrices[o + i] - eps);
        for (int64_t i = 0; i < streams; i++)
            d[o + i] = (matrices[o + i] - eps) * (d[o + i] - pulled);
    }
}

static vf sigmoid_gradient(vf logit, vf dh)
{
    const v_logistic s = v_logistic_of(logit);
    return dh * (s.value * s.rest);
}

/* d of VL tokens, and mix beside it. matrices: scratch. */
static void logit_gradients(const job *job, int64_t token, int64_t count, vf *mix, vf *d,
                            vf *matrices)
{
    const coeffs *c = &job->c;
    const int64_t streams = c->streams, size = streams * streams;
    vf *logits = matrices;
    for (int64_t m = 0; m < c->columns; m++) {
        mix[m] = gather(job->mix, token, count, c->columns, m);
        const vf logit = v_set(coeffs_alpha(c, m)) * mix[m] + v_set(c->bias[m]);
        if (m < streams)
            d[m] = sigmoid_gradient(logit, gather(job->dpre, token, count, streams, m));
        else if (m < 2 * streams)
            d[m] =
                sigmoid_gradient(logit, v_set(job->post_multiplier) *
                                            gather(job->dpost, token, count, streams, m - streams));
        else
            logits[m - 2 * streams] = logit;
    }
    for (int64_t i = 0; i < size; i++)
        d[2 * streams + i] = gather(job->dres, token, count, size, i);
    if (!job->dres)
        return;
    mhc_iterate(c, matrices, size);
    iterate_back(c, matrices, d + 2 * streams);
}

/* z and back of VL tokens, and what they add to the sums. */
static void gradients_of(const job *job, int64_t token, int64_t count, vf *scratch, float *sums)
{
    const coeffs *c = &job->c;
    vf *mix = scratch, *d = mix + c->columns, q = {0};
    logit_gradients(job, token, count, mix, d, d + c->columns);
    const vf r = gather(job->rstd, token, count, 1, 0);
    for (int64_t m = 0; m < c->columns; m++) {
        const vf z = v_set(coeffs_alpha(c, m)) * d[m];
        sums[m] += v_sum(d[m]);
        sums[c->columns + m] += v_sum(d[m] * mix[m]);
        q += z * mix[m];
        d[m] = z * r;
    }
    const vf back = q * r * r / v_set((float)(c->streams * c->n));
    for (int64_t t = 0; t < VL && t < count; t++) {
        for (int64_t m = 0; m < c->columns; m++)
            job->z[(token + t) * c->columns + m] = d[m][t];
        job->back[token + t] = back[t];
    }
}

static int64_t token_room(const coeffs *c)
{
    return (2 * c->columns + 2 * c->iterations * c->streams * c->streams) * VL;
}

static void token_blocks(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *job = arg;
    const coeffs *c = &job->c;
    float *sums = job->sums + begin / job->grain * 2 * c->columns;
    memset(sums, 0, (size_t)(2 * c->columns) * sizeof *sums);
    for (int64_t token = begin * BLOCK; token < end * BLOCK && token < c->tokens; token += VL)
        gradients_of(job, token, c->tokens - token, (vf *)(job->scratch + worker * job->room),
                     sums);
}

/* dbias and the alphas' gradients, from the sums of all chunks in their order. */
static void small_gradients(const job *job, const tg_mhc_coeffs_backward_args *a)
{
    const coeffs *c = &job->c;
    const int64_t chunks = (coeffs_blocks(c) + job->grain - 1) / job->grain;
    float *const dalpha[] = {tg_data(a->dalpha_pre), tg_data(a->dalpha_post),
                             tg_data(a->dalpha_res)};
    float *dbias = tg_data(a->dbias);
    double parts[3] = {0};
    for (int64_t m = 0; m < c->columns; m++) {
        double sum = 0;
        for (int64_t k = 0; k < chunks; k++) {
            const float *sums = job->sums + k * 2 * c->columns;
            sum += sums[m];
            parts[m < c->streams ? 0 : m < 2 * c->streams ? 1 : 2] += sums[c->columns + m];
        }
        if (dbias)
            dbias[m] = (float)((job->accumulate ? dbias[m] : 0) + sum);
    }
    for (int part = 0; part < 3; part++)
        if (dalpha[part])
            *dalpha[part] = (float)((job->accumulate ? *dalpha[part] : 0) + parts[part]);
}

/* ---- over columns ---- */

/* Of a worker: chunks of a block's tokens and of their gradients; dphi of a piece. */
static int64_t column_room(const coeffs *c, int64_t piece)
{
    return (2 * BLOCK + piece * c->columns) * CHUNK;
}

/* A chunk of a stream, of `count` tokens: dx, and what they add to dphi [columns, CHUNK]. */
SIMD_INLINE void chunk_gradients(el e, int stream, const job *job, int64_t token, int64_t count,
                                 int64_t of_stream, int64_t chunk, float *x, float *dphi)
{
    const coeffs *c = &job->c;
    const int64_t j = chunk * CHUNK, n = chunk_columns(c->n, j), width = chunk_width(n);
    const float *phi = c->phi + (of_stream * c->chunks + chunk) * c->columns * CHUNK;
    const float *z = job->z + token * c->columns;
    float *dx = x + BLOCK * CHUNK;
    for (int64_t t = 0; t < count; t++) {
        const char *row = row_at(&job->x, (token + t) * c->streams + of_stream);
        chunk_get(e, row, j, n, x + t * CHUNK);
        chunk_prefetch(e, row + BLOCK * c->streams * job->x.stride, j, n);
    }
    if (job->dphi)
        chunk_add(dphi, c->columns, x, count, z, 1, c->columns, width);
    chunk_combine(dx, count, phi, c->columns, z, c->columns, 1, width);
    for (int64_t t = 0; t < count; t++) {
        const float less = -job->back[token + t];
        combine_rows(1, 1, dx + t * CHUNK, x + t * CHUNK, 1, &less, 0, 0, width);
        chunk_put(e, stream, row_at(&job->dx, (token + t) * c->streams + of_stream), j, n,
                  dx + t * CHUNK);
    }
}

/* dphi [columns, CHUNK] goes to rows of columns. */
SIMD_INLINE void put_phi(el e, const job *job, int64_t of_stream, int64_t chunk, float *dphi)
{
    const coeffs *c = &job->c;
    const int64_t j = chunk * CHUNK, n = chunk_columns(c->n, j), first = of_stream * c->n + j;
    for (int64_t m = 0; m < c->columns; m++) {
        float *row = dphi + m * CHUNK;
        for (int64_t k = 0; k < v_whole_pairs(n); k += V_PAIR)
            v_put2(row + k, v_natural2(e, v_get2(row + k)));
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = (first + k) * c->columns + m;
            const float old = job->accumulate ? el_get(job->phi_type, job->dphi, at) : 0;
            el_set(job->phi_type, job->dphi, at, old + row[k]);
        }
    }
}

/* Items: pieces of streams. */
SIMD_INLINE void column_pieces(el e, int stream, const job *job, int64_t begin, int64_t end,
                               int worker)
{
    const coeffs *c = &job->c;
    const int64_t pieces = (c->chunks + job->piece - 1) / job->piece, size = c->columns * CHUNK;
    float *x = job->scratch + worker * job->room, *dphi = x + 2 * BLOCK * CHUNK;
    for (int64_t item = begin; item < end; item++) {
        const int64_t of_stream = item / pieces, first = item % pieces * job->piece;
        const int64_t last = first + job->piece < c->chunks ? first + job->piece : c->chunks;
        memset(dphi, 0, (size_t)((last - first) * size) * sizeof *dphi);
        for (int64_t token = 0; token < c->tokens; token += BLOCK)
            for (int64_t k = first; k < last; k++)
                chunk_gradients(e, stream, job, token,
                                c->tokens - token < BLOCK ? c->tokens - token : BLOCK, of_stream, k,
                                x, dphi + (k - first) * size);
        for (int64_t k = first; job->dphi && k < last; k++)
            put_phi(e, job, of_stream, k, dphi + (k - first) * size);
    }
}

ROWS_CHUNK(column_chunk, job, column_pieces);

/* ---- the call ---- */

static tg_status allocate(tg_ctx *ctx, job *job)
{
    const coeffs *c = &job->c;
    const int64_t blocks = coeffs_blocks(c), chunks = (blocks + job->grain - 1) / job->grain;
    const int64_t columns = column_room(c, job->piece), tokens = token_room(c);
    job->room = columns > tokens ? columns : tokens;
    job->z = tg_workspace(ctx, (size_t)(c->tokens * c->columns) * sizeof(float));
    job->back = tg_workspace(ctx, (size_t)c->tokens * sizeof(float));
    job->sums = tg_workspace(ctx, (size_t)(chunks * 2 * c->columns) * sizeof(float));
    job->scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * job->room) * sizeof(float));
    return job->z && job->back && job->sums && job->scratch ? TG_OK : TG_ENOMEM;
}

/* Longer pieces are read faster; but each thread should have some. Their size is in no result. */
static int64_t piece_of(tg_ctx *ctx, const coeffs *c)
{
    enum { MOST = 4 };
    const int64_t piece = c->streams * c->chunks / (4 * tg_ctx_threads(ctx));
    return piece < 1 ? 1 : piece < MOST ? piece : MOST;
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *a)
{
    const tg_tensor *const alpha[] = {a->alpha_pre, a->alpha_post, a->alpha_res};
    job job = {.c = coeffs_of(a->x, a->iterations, a->sinkhorn_eps, a->bias, alpha),
               .x = operand_of(a->x),
               .dx = operand_of(a->dx),
               .mix = tg_data(a->mix),
               .rstd = tg_data(a->rstd),
               .dpre = tg_data(a->dh_pre),
               .dpost = tg_data(a->dh_post),
               .dres = tg_data(a->dh_res),
               .dphi = tg_data(a->dphi),
               .post_multiplier = (float)a->post_multiplier,
               .accumulate = (int)a->accumulate,
               .stream = rows_stream_aligned(a->dx, a->x),
               .type = el_of(a->x),
               .phi_type = a->dphi ? el_of(a->dphi) : EL_F32};
    const coeffs *c = &job.c;
    job.grain = columns_grain(coeffs_blocks(c), 1, 1);
    job.piece = piece_of(ctx, c);
    TG_TRY(mhc_phi_pack(ctx, job.type, a->phi, &job.c));
    TG_TRY(allocate(ctx, &job));
    tg_parallel_for(ctx, coeffs_blocks(c), job.grain, token_blocks, &job);
    small_gradients(&job, a);
    const int64_t pieces = (c->chunks + job.piece - 1) / job.piece;
    tg_parallel_for(ctx, c->streams * pieces, 1, column_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(mhc_coeffs_backward) = {TG_CPU_IMPL(mhc_coeffs_backward, backward), TG_IMPLS_END};
