/* src/rows/rows.h - what every kernel over rows needs: where its rows are, how they are shared out
 * to threads, whether results are written past the cache, and a copy of the kernel for each element
 * type. Compiled once per level.
 *
 *   typedef struct job {
 *       el type;
 *       int stream;
 *       int64_t n;
 *       operand x, y;
 *   } job;
 *
 *   SIMD_INLINE void scale_rows(el e, int stream, const job *job, int64_t begin, int64_t end, int
 *   worker) { ... } ROWS_CHUNK(scale_chunk, job, scale_rows);
 *
 *   tg_parallel_for(ctx, rows, rows_grain(rows, n, 1), scale_chunk, &j);
 */
#ifndef TG_ROWS_H
#define TG_ROWS_H

#include "core/services.h"
#include "simd.h"

/* ---- operands ---- */

/* A tensor of rows as a kernel sees it; all zero for one that is not given. */
typedef struct operand {
    char *data;
    int64_t stride; /* of a row, in bytes */
} operand;

static inline operand operand_of(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    return (operand){rows.data, t ? rows.stride * (int64_t)tg_type_size(rows.type) : 0};
}

SIMD_INLINE char *row_at(const operand *o, int64_t row)
{
    return o->data + row * o->stride;
}

static inline el el_of(const tg_tensor *t)
{
    return (el)tg_el(tg_type_of(t));
}

/* ---- how rows are shared out ---- */

/* Elements that are worth a thread: some microseconds of work. With fewer, waking the thread costs
 * more than it saves. */
enum { ROWS_WORTH = 16384 };

/* So many rows hold `worth` elements. */
static inline int64_t rows_worth(int64_t n, int64_t worth)
{
    return n <= 0 ? 1 : worth / n > 1 ? worth / n : 1;
}

/* THE grain of tg_parallel_for, where rows do not depend on each other: rows that are worth a
 * thread, but, where there are many, a few in a row (16 at most, and 64 chunks at least), since a
 * kernel asks the memory for its next row while it works on one. Whole blocks of rows, where the
 * kernel takes several at a time. */
static inline int64_t rows_grain(int64_t rows, int64_t n, int64_t block)
{
    const int64_t many = rows / 64, run = many < 16 ? many : 16, worth = rows_worth(n, ROWS_WORTH);
    const int64_t grain = worth > run ? worth : run;
    return grain < block ? grain : grain / block * block;
}

/* ---- streaming ---- */

/* 1 if a result of so many bytes should be written past the cache: it is large, and no input lies
 * there, since a line that has just been read is best written through the cache. */
static inline int rows_stream(int64_t bytes, const void *out, const void *in)
{
    return out != in && tg_streams(bytes);
}

/* The same for a kernel that writes whole pairs from the first element of each row on: all
 * rows must be aligned. */
static inline int rows_stream_aligned(const tg_tensor *out, const tg_tensor *in)
{
    const tg_rows rows = tg_rows_of(out);
    const el e = (el)tg_el(rows.type);
    return rows_stream(rows.rows * rows.n * el_size(e), rows.data, tg_data(in)) &&
           v_streamable2(e, rows.data) && rows.stride % V_PAIR == 0;
}

/* ---- a copy of a kernel for each type, writing past the cache or not ---- */

/* Defines `name`, a tg_range_fn whose argument is a `job_type`, with members `type` and `stream`.
 * It calls kernel(e, stream, &job, begin, end, worker), a SIMD_INLINE function, with constants for
 * both; the fence is here. The job is a copy: no store through a pointer can change it. */
#define ROWS_CHUNK(name, job_type, kernel)                                  \
    static void name(void *arg, int64_t begin, int64_t end, int worker)     \
    {                                                                       \
        const job_type copy = *(const job_type *)arg;                       \
        if (copy.stream) {                                                  \
            EL_SPECIALIZE(copy.type, kernel, 1, &copy, begin, end, worker); \
            v_fence();                                                      \
        } else {                                                            \
            EL_SPECIALIZE(copy.type, kernel, 0, &copy, begin, end, worker); \
        }                                                                   \
    }                                                                       \
    static void name(void *arg, int64_t begin, int64_t end, int worker)

#endif
