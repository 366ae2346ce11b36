/* embedding on the CPU.
 *
 * Forward copies rows. Backward sorts the positions by index (counting sort, stable), then every
 * row of the table has one owner that adds its positions in order: no atomics, the same bits for
 * any number of threads.
 */
#include "rows/copies.h"
#include "rows/rows.h"

enum { COLUMNS = 1024 }; /* columns of dweight that are summed at once */

/* ---- forward ---- */

typedef struct lookup {
    operand weight, y;
    const int64_t *index;
    int64_t width; /* of a row, in bytes */
    int stream;
} lookup;

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const lookup *j = arg;
    for (int64_t i = begin; i < end; i++) {
        const int64_t next = j->index[i + 1 < end ? i + 1 : i];
        copy_bytes(j->stream, row_at(&j->y, i), row_at(&j->weight, j->index[i]),
                   row_at(&j->weight, next), j->width);
    }
    if (j->stream)
        v_fence();
}

static tg_status forward(tg_ctx *ctx, const tg_embedding_forward_args *args)
{
    const tg_rows y = tg_rows_of(args->y);
    const int64_t width = y.n * (int64_t)tg_type_size(y.type);
    lookup j = {.weight = operand_of(args->weight),
                .y = operand_of(args->y),
                .index = tg_data(args->indices),
                .width = width,
                .stream = tg_streams(y.rows * width)};
    tg_parallel_for(ctx, y.rows, rows_grain(y.rows, y.n, 1), forward_chunk, &j);
    return TG_OK;
}

/* ---- backward ---- */

/* Positions sorted by index: those of the u-th index that occurs, row[u], are
 * position[start[u]..start[u+1]). */
typedef struct sorted {
    int64_t used, count; /* rows in use, positions */
    int64_t *row, *start, *position;
} sorted;

typedef struct job {
    el type, out_type;
    int accumulate, stream;
    operand dy, dweight;
    int64_t n;            /* width */
    const int64_t *count; /* how often each index occurs */
    sorted by;
} job;

/* count: V zeros, on return how often each index occurs; row [V]. */
static void sort_positions(const int64_t *index, int64_t n, int64_t rows, int64_t *count, sorted *s)
{
    for (int64_t i = 0; i < n; i++)
        count[index[i]]++;
    int64_t used = 0, begin = 0;
    for (int64_t v = 0; v < rows; v++) {
        if (!count[v])
            continue;
        s->row[used] = v;
        s->start[used++] = begin;
        begin += count[v];
        count[v] = begin - count[v]; /* where the next position goes, for now */
    }
    s->start[used] = n;
    s->used = used;
    s->count = n;
    for (int64_t i = 0; i < n; i++)
        s->position[count[index[i]]++] = i;
    for (int64_t u = 0; u < used; u++)
        count[s->row[u]] = s->start[u + 1] - s->start[u];
}

static void zero_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t v = begin; v < end; v++)
        if (!j->count[v])
            zero_bytes(j->stream, row_at(&j->dweight, v), j->n * el_size(j->out_type));
    if (j->stream)
        v_fence();
}

/* Adds columns [0, n) of one row of dy to sum, or begins it, and asks for the next such row. */
SIMD_INLINE void add_row(el e, int first, float *sum, const char *dy, int64_t n, const char *next)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL) {
        __builtin_prefetch(next + c * el_size(e));
        const vf old = first ? v_set(0.0f) : v_load(EL_F32, sum, c);
        v_store(EL_F32, sum, c, old + v_load(e, dy, c));
    }
    if (c < n) {
        const vf old = first ? v_set(0.0f) : v_load_n(EL_F32, sum, c, n - c, 0.0f);
        v_store_n(EL_F32, sum, c, n - c, old + v_load_n(e, dy, c, n - c, 0.0f));
    }
}

SIMD_INLINE void put_sum(el oe, int stream, int accumulate, const float *sum, char *out, int64_t n)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL) {
        const vf old = accumulate ? v_load(oe, out, c) : v_set(0.0f);
        if (stream)
            v_stream(oe, out, c, v_load(EL_F32, sum, c) + old);
        else
            v_store(oe, out, c, v_load(EL_F32, sum, c) + old);
    }
    if (c < n) {
        const vf old = accumulate ? v_load_n(oe, out, c, n - c, 0.0f) : v_set(0.0f);
        v_store_n(oe, out, c, n - c, v_load_n(EL_F32, sum, c, n - c, 0.0f) + old);
    }
}

/* Columns [0, n) of the u-th row in use: dy and out point at the first of them. */
SIMD_INLINE void sum_columns(el e, el oe, const job *j, int64_t u, const char *dy, char *out,
                             int64_t n)
{
    const int64_t *position = j->by.position, begin = j->by.start[u], end = j->by.start[u + 1];
    float sum[COLUMNS];
    for (int64_t k = begin; k < end; k++) {
        const char *row = dy + position[k] * j->dy.stride;
        const char *next = k + 1 < j->by.count ? dy + position[k + 1] * j->dy.stride : row;
        if (k == begin)
            add_row(e, 1, sum, row, n, next);
        else
            add_row(e, 0, sum, row, n, next);
    }
    if (j->accumulate)
        put_sum(oe, 0, 1, sum, out, n);
    else if (j->stream && v_streamable(oe, out))
        put_sum(oe, 1, 0, sum, out, n);
    else
        put_sum(oe, 0, 0, sum, out, n);
}

/* Items: blocks of columns times rows in use, so that one index that occurs everywhere is shared
 * out as well. */
SIMD_INLINE void sum_items(el e, el oe, const job *j, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const int64_t u = item % j->by.used, c = item / j->by.used * COLUMNS;
        sum_columns(e, oe, j, u, j->dy.data + c * el_size(e),
                    row_at(&j->dweight, j->by.row[u]) + c * el_size(oe),
                    j->n - c < COLUMNS ? j->n - c : COLUMNS);
    }
    if (j->stream)
        v_fence();
}

SIMD_INLINE void sum_typed(el e, const job *j, int64_t begin, int64_t end)
{
    if (e != EL_F32 && j->out_type == EL_F32)
        sum_items(e, EL_F32, j, begin, end);
    else
        sum_items(e, e, j, begin, end);
}

static void sum_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    EL_SPECIALIZE(j->type, sum_typed, j, begin, end);
}

static tg_status backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    const tg_rows dy = tg_rows_of(args->dy), dweight = tg_rows_of(args->dweight);
    const int64_t most = dy.rows < dweight.rows ? dy.rows : dweight.rows;
    int64_t *space =
        tg_workspace(ctx, (size_t)(dweight.rows + 2 * most + 1 + dy.rows) * sizeof *space);
    if (!space)
        return TG_ENOMEM;
    int64_t *count = space;
    job j = {.type = (el)tg_el(dy.type), .out_type = (el)tg_el(dweight.type), .n = dy.n};
    j.accumulate = args->accumulate != 0;
    j.dy = operand_of(args->dy);
    j.dweight = operand_of(args->dweight);
    j.stream = tg_streams(dweight.rows * dweight.n * el_size(j.out_type));
    j.count = count;
    j.by = (sorted){.row = count + dweight.rows};
    j.by.start = j.by.row + most;
    j.by.position = j.by.start + most + 1;
    memset(count, 0, (size_t)dweight.rows * sizeof *count);
    sort_positions(tg_data(args->indices), dy.rows, dweight.rows, count, &j.by);
    if (!j.accumulate)
        tg_parallel_for(ctx, dweight.rows, rows_grain(dweight.rows, dweight.n, 1), zero_chunk, &j);
    if (j.by.used && j.n) {
        const int64_t blocks = (j.n + COLUMNS - 1) / COLUMNS;
        const int64_t columns = j.n < COLUMNS ? j.n : COLUMNS;
        tg_parallel_for(ctx, blocks * j.by.used,
                        rows_worth(columns * dy.rows / j.by.used, ROWS_WORTH), sum_chunk, &j);
    }
    return TG_OK;
}

TG_CPU_IMPLS(embedding) = {
    TG_CPU_IMPL(embedding_forward, forward),
    TG_CPU_IMPL(embedding_backward, backward),
    TG_IMPLS_END,
};
