/* src/rows/streams_chunks.h - small products over columns, for tokens of several streams: a chunk
 * of columns of a few rows is widened to f32 in scratch memory, where all of its products are made.
 * Compiled once per level.
 *
 *   chunk_get(e, row, begin, n, x);      x: CHUNK floats of scratch, in the lane order of e
 *   chunk_combine(y, 1, x, streams, h, 0, 1, width);       y = sum over s of h[s] x[s]
 *   chunk_products(acc, dy, 1, x, streams, width);         acc[s] += dy x[s], lane by lane
 *   chunk_put(e, stream, row, begin, n, y);
 *
 * Rows of scratch lie CHUNK floats apart, and are 0 behind the columns that there are up to the
 * next whole pair, where chunk_width() ends.
 */
#ifndef TG_ROWS_STREAMS_CHUNKS_H
#define TG_ROWS_STREAMS_CHUNKS_H

#include "rows/rows.h"
#include "rows/streams.h"

/* Columns of a chunk, a multiple of any V_PAIR. */
enum { CHUNK = 256 };

static inline int64_t chunk_columns(int64_t n, int64_t begin)
{
    return n - begin < CHUNK ? n - begin : CHUNK;
}

/* n columns, and those up to the next whole pair. */
static inline int64_t chunk_width(int64_t n)
{
    return (n + V_PAIR - 1) / V_PAIR * V_PAIR;
}

/* Bytes from a row of the tokens' streams to the one to ask for: some tokens further on. */
static inline int64_t streams_ahead(const streams *s)
{
    const int64_t size = (int64_t)tg_type_size(s->rows.type);
    return v_rows_ahead(s->streams * s->rows.n * size, 1) * s->streams * s->rows.stride * size;
}

/* Columns [begin, begin + n) of a row as f32. */
SIMD_INLINE void chunk_get(el e, const char *row, int64_t begin, int64_t n, float *to)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR)
        v_put2(to + j, v_load2(e, e, row, begin + j));
    for (; j < chunk_width(n); j += VL)
        v_store(EL_F32, to, j, n > j ? v_load_n(e, row, begin + j, v_tail(n, j), 0) : v_set(0));
}

/* Asks for the same columns of another row. */
SIMD_INLINE void chunk_prefetch(el e, const char *row, int64_t begin, int64_t n)
{
    for (int64_t j = 0; j < n; j += V_PAIR)
        v_prefetch2(e, row, begin + j);
}

SIMD_INLINE void chunk_put(el e, int stream, char *row, int64_t begin, int64_t n, const float *from)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR)
        v_write2(e, stream, row, begin + j, v_get2(from + j));
    for (; j < n; j += VL)
        v_store_n(e, row, begin + j, v_tail(n, j), v_load(EL_F32, from, j));
}

/* ---- out[a] = sum over b of factor[a step_a + b step_b] in[b], or out[a] + that ---- */

/* rows, add: constants; `rows` of the rows of out, 4 at most. */
SIMD_INLINE void combine_rows(int rows, int add, float *out, const float *in, int64_t count,
                              const float *factor, int64_t step_a, int64_t step_b, int64_t width)
{
    for (int64_t j = 0; j < width; j += V_PAIR) {
        vf2 sum[4] = {{{0}, {0}}, {{0}, {0}}, {{0}, {0}}, {{0}, {0}}};
        for (int64_t b = 0; b < count; b++) {
            const vf2 x = v_get2(in + b * CHUNK + j);
            for (int a = 0; a < rows; a++) {
                const vf by = v_set(factor[a * step_a + b * step_b]);
                sum[a] = (vf2){sum[a].a + by * x.a, sum[a].b + by * x.b};
            }
        }
        for (int a = 0; a < rows; a++) {
            const vf2 old = add ? v_get2(out + a * CHUNK + j) : (vf2){{0}, {0}};
            v_put2(out + a * CHUNK + j, (vf2){old.a + sum[a].a, old.b + sum[a].b});
        }
    }
}

SIMD_INLINE void combine(int add, float *out, int64_t rows, const float *in, int64_t count,
                         const float *factor, int64_t step_a, int64_t step_b, int64_t width)
{
    int64_t a = 0;
    for (; a + 4 <= rows; a += 4)
        combine_rows(4, add, out + a * CHUNK, in, count, factor + a * step_a, step_a, step_b,
                     width);
    for (; a < rows; a++)
        combine_rows(1, add, out + a * CHUNK, in, count, factor + a * step_a, step_a, step_b,
                     width);
}

SIMD_INLINE void chunk_combine(float *out, int64_t rows, const float *in, int64_t count,
                               const float *factor, int64_t step_a, int64_t step_b, int64_t width)
{
    combine(0, out, rows, in, count, factor, step_a, step_b, width);
}

SIMD_INLINE void chunk_add(float *out, int64_t rows, const float *in, int64_t count,
                           const float *factor, int64_t step_a, int64_t step_b, int64_t width)
{
    combine(1, out, rows, in, count, factor, step_a, step_b, width);
}

/* ---- acc[a * columns + b] += left[a] right[b], a vector of partial sums each ---- */

/* rows, count: constants, 4 and 2 at most. */
SIMD_INLINE void product_tile(int rows, int count, float *acc, int64_t columns, const float *left,
                              const float *right, int64_t width)
{
    vf sum[4][2];
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < count; b++)
            sum[a][b] = v_load(EL_F32, acc, (a * columns + b) * VL);
    for (int64_t j = 0; j < width; j += VL)
        for (int b = 0; b < count; b++) {
            const vf x = v_load(EL_F32, right + b * CHUNK, j);
            for (int a = 0; a < rows; a++)
                sum[a][b] += x * v_load(EL_F32, left + a * CHUNK, j);
        }
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < count; b++)
            v_store(EL_F32, acc, (a * columns + b) * VL, sum[a][b]);
}

SIMD_INLINE void product_rows(int rows, float *acc, int64_t columns, const float *left,
                              const float *right, int64_t count, int64_t width)
{
    int64_t b = 0;
    for (; b + 2 <= count; b += 2)
        product_tile(rows, 2, acc + b * VL, columns, left, right + b * CHUNK, width);
    for (; b < count; b++)
        product_tile(rows, 1, acc + b * VL, columns, left, right + b * CHUNK, width);
}

/* columns: of acc, count at least. */
SIMD_INLINE void chunk_products(float *acc, int64_t columns, const float *left, int64_t rows,
                                const float *right, int64_t count, int64_t width)
{
    int64_t a = 0;
    for (; a + 4 <= rows; a += 4)
        product_rows(4, acc + a * columns * VL, columns, left + a * CHUNK, right, count, width);
    for (; a < rows; a++)
        product_rows(1, acc + a * columns * VL, columns, left + a * CHUNK, right, count, width);
}

#endif
