/* sparsemax.cu - calls of sparsemax: along the last dimension by sparsemax_rows.cuh, along another
 * one by sparsemax_strips.cu. */
#include "rows/backward.cuh"
#include "sparsemax_rows.cuh"

/* ---- the host's side ---- */

static bool in_a_row(const tg_cut &c)
{
    return c.inner == 1 && (c.step == 1 || c.n == 1);
}

static row_span rows_of_cut(const tg_cut &c, int64_t size)
{
    const row_span rows = {c.data, c.outer_step * size};
    return rows;
}

static cut_span strips_of_cut(const tg_cut &c, int64_t size)
{
    const cut_span strips = {c.data, c.outer_step * size, c.step * size};
    return strips;
}

/* 1 if the rows are made of whole chunks, also a single one, as it would be among others. */
static bool whole_rows(const tg_cut &c, int64_t size)
{
    return (uintptr_t)c.data % 16 == 0 && c.n * size % 16 == 0 &&
           (c.outer_step * size % 16 == 0 || (c.outer == 1 && c.outer_step < c.n));
}

template <class T> static void launch_sparsemax_rows(const cuda_call &call, row_args a)
{
    static kernel_room known[3]; /* of blocks of up to 128 threads, 256 and 512 */
    const int64_t chunks = chunks_of_row<T>(a.n);
    /* so that a warp has a row */
    const int few = chunks < 32 * HELD ? (int)HELD : (int)LANE_CHUNKS;
    row_shape s = shape_rows(a.rows, chunks, few, STREAM_THREADS);
    const auto held = sparsemax_kernel<T, true>, walked = sparsemax_kernel<T, false>;
    if (s.held && room_for(call, s, bytes_of_chunks(s, LANE_CHUNKS + 1),
                           &known[(s.threads > 128) + (s.threads > 256)], held) > 0) {
        const size_t shared = bytes_of_chunks(s, (int)ceil_div(chunks, s.lanes) + 1);
        a.lanes = lanes_of(call, s.lanes);
        launch_rows(call, s, s.blocks, shared, held, a);
        return;
    }
    s = shape_rows(a.rows, chunks, HELD, MOST_LANES);
    a.lanes = lanes_of(call, s.lanes);
    launch_rows(call, s, s.blocks, bytes_of_chunks(s, 1), walked, a);
}

CUDA_OPERATOR(sparsemax_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(sparsemax_backward, TG_TAKES_FLOATS);

tg_status cuda_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    static const char op[] = "sparsemax_forward";
    const int64_t size = (int64_t)tg_type_size(tg_type_of(args->x));
    const tg_cut x = tg_cut_of(args->x, args->dim), y = tg_cut_of(args->y, args->dim);
    cuda_call call;
    tg_status status = check_width(op, x.n);
    if (status != TG_OK || x.outer * x.n * x.inner == 0)
        return status;
    status = cuda_begin(&call, ctx, op, args->x);
    if (status != TG_OK)
        return status;
    if (in_a_row(x) && in_a_row(y)) {
        row_args a = {rows_of_cut(x, size), rows_of_cut(y, size), x.outer, (int)x.n, 0};
        by_wholeness(args->x, whole_rows(x, size) && whole_rows(y, size), [&](auto e) {
            using T = decltype(e);
            launch_sparsemax_rows<T>(call, a);
        });
    } else {
        const strip_args a = {
            strips_of_cut(x, size), {}, strips_of_cut(y, size), x.outer, x.n, x.inner};
        launch_sparsemax_strips(call, args->x, a);
    }
    return cuda_end(&call, TG_OK);
}

tg_status cuda_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    static const char op[] = "sparsemax_backward";
    const int64_t size = (int64_t)tg_type_size(tg_type_of(args->y));
    const tg_cut y = tg_cut_of(args->y, args->dim), dy = tg_cut_of(args->dy, args->dim),
                 dx = tg_cut_of(args->dx, args->dim);
    cuda_call call;
    tg_status status = check_width(op, y.n);
    if (status != TG_OK || y.outer * y.n * y.inner == 0)
        return status;
    status = cuda_begin(&call, ctx, op, args->y);
    if (status != TG_OK)
        return status;
    if (in_a_row(y) && in_a_row(dy) && in_a_row(dx)) {
        backward_args a = {};
        a.dy = rows_of_cut(dy, size);
        a.x = rows_of_cut(y, size);
        a.dx = rows_of_cut(dx, size);
        a.rows = y.outer;
        a.n = (int)y.n;
        const bool are = whole_rows(y, size) && whole_rows(dy, size) && whole_rows(dx, size);
        by_wholeness(args->y, are, [&](auto e) {
            using T = decltype(e);
            status =
                backward_rows<sparsemax_gradient, T>(call, sparsemax_gradient(), a, NULL, NULL, 0);
        });
    } else {
        const strip_args a = {strips_of_cut(y, size),
                              strips_of_cut(dy, size),
                              strips_of_cut(dx, size),
                              y.outer,
                              y.n,
                              y.inner};
        launch_sparsemax_strips(call, args->y, a);
    }
    return cuda_end(&call, status);
}
