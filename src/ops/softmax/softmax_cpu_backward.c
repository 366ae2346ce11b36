/* softmax on the CPU, backward: dx = y (dy - sum of y dy). A row is read for its sum, and again,
 * from the cache, for dx. */
#include "rows/rows.h"

typedef struct job {
    el type;
    int stream; /* write past the cache */
    int64_t n;
    operand y, dy, dx;
} job;

SIMD_INLINE float dot(el e, const char *y, const char *dy, int64_t n)
{
    vf a = v_set(0.0f), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        const vf2 y0 = v_load2(e, e, y, i), g0 = v_load2(e, e, dy, i);
        const vf2 y1 = v_load2(e, e, y, i + 2 * VL), g1 = v_load2(e, e, dy, i + 2 * VL);
        a += y0.a * g0.a;
        b += y0.b * g0.b;
        c += y1.a * g1.a;
        d += y1.b * g1.b;
    }
    for (; i < n; i += VL) {
        const int64_t count = v_tail(n, i);
        a += v_load_n(e, y, i, count, 0.0f) * v_load_n(e, dy, i, count, 0.0f);
    }
    return v_sum((a + b) + (c + d));
}

SIMD_INLINE void backward_row(el e, int stream, const char *y, const char *dy, char *dx, int64_t n,
                              int64_t y_next, int64_t dy_next)
{
    const vf mean = v_set(dot(e, y, dy, n));
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf2 p = v_load2(e, e, y, i), g = v_load2(e, e, dy, i);
        const vf2 d = {p.a * (g.a - mean), p.b * (g.b - mean)};
        const int64_t at = i * el_size(e);
        __builtin_prefetch(y + y_next + at);
        __builtin_prefetch(dy + dy_next + at);
        if (2 * VL * el_size(e) > 64) {
            __builtin_prefetch(y + y_next + at + 64);
            __builtin_prefetch(dy + dy_next + at + 64);
        }
        v_write2_clean(e, stream, dx, i, d);
    }
    for (; i < n; i += VL) {
        const int64_t count = v_tail(n, i);
        const vf p = v_load_n(e, y, i, count, 0.0f), g = v_load_n(e, dy, i, count, 0.0f);
        v_store_n(e, dx, i, count, p * (g - mean));
    }
}

SIMD_INLINE void backward_rows(el e, int stream, const job *j, int64_t begin, int64_t end,
                               int worker)
{
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const char *y = row_at(&j->y, r), *dy = row_at(&j->dy, r);
        const int64_t y_next = r + 1 < end ? j->y.stride : 0;
        const int64_t dy_next = r + 1 < end ? j->dy.stride : 0;
        char *dx = row_at(&j->dx, r);
        if (stream && v_streamable2(e, dx))
            backward_row(e, 1, y, dy, dx, j->n, y_next, dy_next);
        else
            backward_row(e, 0, y, dy, dx, j->n, y_next, dy_next);
    }
}

ROWS_CHUNK(backward_chunk, job, backward_rows);

static tg_status backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    const tg_rows y = tg_rows_of(args->y);
    job j = {.type = el_of(args->y),
             .n = y.n,
             .y = operand_of(args->y),
             .dy = operand_of(args->dy),
             .dx = operand_of(args->dx)};
    j.stream = rows_stream(y.rows * y.n * el_size(j.type), j.dx.data, j.dy.data);
    if (y.n > 0)
        tg_parallel_for(ctx, y.rows, rows_grain(y.rows, y.n, 1), backward_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(softmax_backward) = {
    TG_CPU_IMPL(softmax_backward, backward),
    TG_IMPLS_END,
};
