/* softmax on the CPU, forward: one exponential an element.
 *
 * A row is read once. It goes block by block: the maximum of each lane so far, then the
 * exponentials against it into scratch, with their sum. The maxima only grow, so the blocks are
 * brought to a common maximum at the end, by one factor a lane and block; the second pass over the
 * scratch multiplies by it. Nothing is reduced over lanes until the row's end. Rows longer than
 * LONG are read twice instead, so that scratch does not grow with them.
 */
#include <float.h>

#include "rows/rows.h"

/* Columns to a block: of rows that come from memory, so that reading and computing overlap, and of
 * others, where each block costs its end alone. */
enum { BLOCK_MEMORY = 512, BLOCK_CACHE = 1024 };

/* Most columns whose exponentials are kept: two rows of them a thread take 1 MiB. */
enum { LONG = 1 << 17 };

typedef struct job {
    el type;
    int stream; /* write past the cache */
    int64_t n, block, blocks;
    operand x, y;
    float *scratch; /* scratch_size floats a worker */
    int64_t scratch_size;
} job;

/* What a block leaves for the end of its row, lane by lane. */
typedef struct stats {
    vf max, sum;
} stats;

SIMD_INLINE vf block_max(el e, const char *x, int64_t begin, int64_t end, vf max)
{
    vf a = max, b = max;
    int64_t i = begin;
    for (; i + 2 * VL <= end; i += 2 * VL) {
        const vf2 v = v_load2(e, e, x, i);
        a = v_max(v.a, a);
        b = v_max(v.b, b);
    }
    for (; i < end; i += VL)
        a = v_max(v_load_n(e, x, i, v_tail(end, i), -INFINITY), a);
    return v_max(a, b);
}

/* What one step over a block takes: of row r, x and where its exponentials go; of row r - 1, its
 * exponentials, their factor, and where the result goes. */
typedef struct step {
    const char *x;
    float *powers;
    vf max;
    const float *last;
    vf factor;
    char *y;
} step;

/* Row r: exp(x - max) into scratch; returns the sums of the lanes. Row r - 1: exponentials times
 * factor. */
SIMD_INLINE vf block_step(el e, int begins, int ends, int stream, step s, int64_t begin,
                          int64_t end)
{
    vf a = v_set(0.0f), b = a;
    int64_t i = begin;
    for (; i + 2 * VL <= end; i += 2 * VL) {
        if (begins) {
            const vf2 v = v_load2(e, e, s.x, i);
            v_ahead2(e, s.x, i);
            const vf p = v_exp_nonpositive(v.a - s.max), q = v_exp_nonpositive(v.b - s.max);
            v_store(EL_F32, s.powers, i, p);
            v_store(EL_F32, s.powers, i + VL, q);
            a += p;
            b += q;
        }
        if (ends) {
            const vf2 v = {v_load(EL_F32, s.last, i) * s.factor,
                           v_load(EL_F32, s.last, i + VL) * s.factor};
            v_write2_clean(e, stream, s.y, i, v);
        }
    }
    for (; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        if (begins) {
            const vf p = v_exp_nonpositive(v_load_n(e, s.x, i, n, -INFINITY) - s.max);
            v_store(EL_F32, s.powers, i, p);
            a += p;
        }
        if (ends)
            v_store_n(e, s.y, i, n, v_load(EL_F32, s.last, i) * s.factor);
    }
    return a + b;
}

/* Replaces the sums by factors: exp(own maximum - common maximum) / sum over the row. */
SIMD_INLINE void finish_stats(stats *s, int64_t blocks)
{
    const vf max = v_set(v_hmax(s[blocks - 1].max));
    vf total = v_set(0.0f);
    for (int64_t b = 0; b < blocks; b++) {
        const vf factor = v_exp(s[b].max - max);
        total += s[b].sum * factor;
        s[b].sum = factor;
    }
    const vf scale = v_set(1.0f / v_sum(total));
    for (int64_t b = 0; b < blocks; b++)
        s[b].sum *= scale;
}

/* A row between its two passes. */
typedef struct pending {
    stats *blocks;
    float *powers;
} pending;

static pending pending_at(const job *j, int worker, int64_t r)
{
    float *scratch = j->scratch + (2 * worker + (r & 1)) * j->scratch_size;
    return (pending){(stats *)scratch,
                     scratch + j->blocks * (int64_t)(sizeof(stats) / sizeof(float))};
}

/* The first pass over row r goes along with the second over row r - 1, block by block, so that
 * memory is read, computed on and written all the time. */
SIMD_INLINE void forward_rows(el e, int stream, const job *j, int64_t begin, int64_t end,
                              int worker)
{
    for (int64_t r = begin; r <= end; r++) {
        const pending now = pending_at(j, worker, r), last = pending_at(j, worker, r + 1);
        step s = {.x = row_at(&j->x, r),
                  .powers = now.powers,
                  .last = last.powers,
                  .y = r > begin ? row_at(&j->y, r - 1) : NULL};
        const int past = stream && v_streamable2(e, s.y);
        /* the clamp lets a block of -inf give 0, and a whole row of them 0 / 0 */
        s.max = v_set(-FLT_MAX);
        for (int64_t b = 0; b < j->blocks; b++) {
            const int64_t first = b * j->block,
                          stop = first + j->block < j->n ? first + j->block : j->n;
            if (r < end)
                s.max = block_max(e, s.x, first, stop, s.max);
            if (r > begin)
                s.factor = last.blocks[b].sum;
            vf sum = v_set(0.0f);
            if (r == begin)
                sum = block_step(e, 1, 0, 0, s, first, stop);
            else if (r == end && past)
                block_step(e, 0, 1, 1, s, first, stop);
            else if (r == end)
                block_step(e, 0, 1, 0, s, first, stop);
            else if (past)
                sum = block_step(e, 1, 1, 1, s, first, stop);
            else
                sum = block_step(e, 1, 1, 0, s, first, stop);
            if (r < end)
                now.blocks[b] = (stats){s.max, sum};
        }
        if (r < end)
            finish_stats(now.blocks, j->blocks);
    }
}

ROWS_CHUNK(forward_chunk, job, forward_rows);

/* A block of a long row: its exponentials into scratch; returns the sums of the lanes. */
SIMD_INLINE vf long_block(el e, const char *x, int64_t n, vf max, float *powers)
{
    return block_step(e, 1, 0, 0, (step){.x = x, .powers = powers, .max = max}, 0, n);
}

/* Maximum and sum first, then the exponentials again, times 1 / sum. */
SIMD_INLINE void long_row(el e, int stream, const job *j, const char *x, char *y, float *powers)
{
    vf max = v_set(-FLT_MAX), sum = v_set(0.0f);
    for (int64_t at = 0; at < j->n; at += j->block) {
        const int64_t n = j->n - at < j->block ? j->n - at : j->block;
        const vf before = max;
        max = block_max(e, x + at * el_size(e), 0, n, max);
        sum = sum * v_exp(before - max) + long_block(e, x + at * el_size(e), n, max, powers);
    }
    const vf top = v_set(v_hmax(max)), factor = v_set(1.0f / v_sum(sum * v_exp(max - top)));
    for (int64_t at = 0; at < j->n; at += j->block) {
        const int64_t n = j->n - at < j->block ? j->n - at : j->block;
        long_block(e, x + at * el_size(e), n, top, powers);
        const step s = {.last = powers, .factor = factor, .y = y + at * el_size(e)};
        block_step(e, 0, 1, stream, s, 0, n);
    }
}

SIMD_INLINE void long_rows(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    float *powers = j->scratch + 2 * worker * j->scratch_size;
    for (int64_t r = begin; r < end; r++) {
        const char *x = row_at(&j->x, r);
        char *y = row_at(&j->y, r);
        if (stream && v_streamable2(e, y))
            long_row(e, 1, j, x, y, powers);
        else
            long_row(e, 0, j, x, y, powers);
    }
}

ROWS_CHUNK(long_chunk, job, long_rows);

static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    const tg_rows x = tg_rows_of(args->x);
    if (x.n == 0)
        return TG_OK;
    job j = {.type = el_of(args->x), .n = x.n, .x = operand_of(args->x), .y = operand_of(args->y)};
    const int large = tg_streams(x.rows * x.n * el_size(j.type));
    j.stream = rows_stream(x.rows * x.n * el_size(j.type), j.y.data, j.x.data);
    j.block = large ? BLOCK_MEMORY : BLOCK_CACHE;
    j.blocks = (x.n + j.block - 1) / j.block;
    const int64_t kept = x.n <= LONG ? x.n : j.block;
    j.scratch_size = (int64_t)(sizeof(stats) / sizeof(float)) * (x.n <= LONG ? j.blocks : 0);
    j.scratch_size = (j.scratch_size + (kept + VL - 1) / VL * VL + 15) / 16 * 16;
    j.scratch =
        tg_workspace(ctx, (size_t)(2 * tg_ctx_threads(ctx) * j.scratch_size) * sizeof(float));
    if (!j.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, x.rows, rows_grain(x.rows, x.n, 1),
                    x.n <= LONG ? forward_chunk : long_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(softmax) = {
    TG_CPU_IMPL(softmax_forward, forward),
    TG_IMPLS_END,
};
