/* mhc_coeffs on the CPU: what both directions call. */
#include "mhc_coeffs_cpu.h"

/* ---- phi ---- */

typedef struct pack_job {
    const coeffs *c;
    const char *phi;
    float *to;
    el order, type;
} pack_job;

/* A row of CHUNK in the lane order of `order`. */
SIMD_INLINE void order_row(el order, const float *natural, float *to, int64_t n)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR)
        v_put2(to + j, v_load2(order, EL_F32, natural, j));
    memcpy(to + j, natural + j, (size_t)(CHUNK - j) * sizeof *to);
}

/* Items are chunks. */
static void pack_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const coeffs *c = job->c;
    for (int64_t item = begin; item < end; item++) {
        const int64_t j = item % c->chunks * CHUNK, n = chunk_columns(c->n, j);
        const int64_t first = item / c->chunks * c->n + j;
        for (int64_t m = 0; m < c->columns; m++) {
            float natural[CHUNK] = {0};
            for (int64_t k = 0; k < n; k++)
                natural[k] = el_get(job->type, job->phi, (first + k) * c->columns + m);
            EL_SPECIALIZE(job->order, order_row, natural, job->to + (item * c->columns + m) * CHUNK,
                          n);
        }
    }
}

tg_status mhc_phi_pack(tg_ctx *ctx, el order, const tg_tensor *phi, coeffs *c)
{
    const int64_t chunks = c->streams * c->chunks;
    pack_job job = {c, tg_data(phi), NULL, order, el_of(phi)};
    job.to = tg_workspace(ctx, (size_t)(chunks * c->columns * CHUNK) * sizeof *job.to);
    if (!job.to)
        return TG_ENOMEM;
    tg_parallel_for(ctx, chunks, 1, pack_chunks, &job);
    c->phi = job.to;
    return TG_OK;
}

/* ---- matrices ---- */

static void softmax(vf *row, int64_t n, vf eps)
{
    vf max = row[0], sum = {0};
    for (int64_t i = 1; i < n; i++)
        max = v_max(max, row[i]);
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = v_exp(row[i] - max);
    for (int64_t i = 0; i < n; i++)
        row[i] = row[i] / sum + eps;
}

/* Each of `count` lines of n elements, `step` apart, by its sum + eps. */
static void divide_lines(const vf *from, vf *to, int64_t count, int64_t next, int64_t n,
                         int64_t step, vf eps)
{
    for (int64_t line = 0; line < count; line++, from += next, to += next) {
        vf sum = from[0];
        for (int64_t k = 1; k < n; k++)
            sum += from[k * step];
        sum += eps;
        for (int64_t k = 0; k < n; k++)
            to[k * step] = from[k * step] / sum;
    }
}

void mhc_iterate(const coeffs *c, vf *matrix, int64_t step)
{
    const int64_t streams = c->streams;
    const vf eps = v_set(c->eps);
    for (int64_t o = 0; o < streams; o++)
        softmax(matrix + o * streams, streams, eps);
    for (int64_t k = 1; k < 2 * c->iterations; k++, matrix += step) {
        const int by_row = k % 2 == 0;
        divide_lines(matrix, matrix + step, streams, by_row ? streams : 1, streams,
                     by_row ? 1 : streams, eps);
    }
}
