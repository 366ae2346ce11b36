/* divergence.cuh - losses of pairs of elements, their sum, and their gradients by the first of each
 * pair: one pass.
 *
 * A family gives a struct F with
 *   divergence operator()(float x, float y) const    of an element: its loss, and its gradient
 *                                                    before the upstream one
 *   UNIT                                             what both are multiplied with afterwards,
 *                                                    where they are summed
 * Losses of a few chunks are added up in f32, these sums in f64, in an order that follows from the
 * shape and the card alone. */
#ifndef CUDA_DIVERGENCE_CUH
#define CUDA_DIVERGENCE_CUH

#include "divergence_kernels.cuh"

/* ---- the host's side ---- */

/* What a call of either direction is given; NULL for what is absent. */
typedef struct divergence_call {
    const char *op;
    const tg_tensor *x, *y, *labels, *dloss;
    tg_tensor *loss, *dx;
    int64_t reduction, ignore_index;
    int by_rows; /* a mean is one over rows */
} divergence_call;

/* What a sum over all elements is multiplied with where all rows count; *base: times their
 * number. */
static double divergence_share_of(const divergence_call *c, int64_t rows, int64_t n, double *base)
{
    *base = c->reduction == TG_MEAN && !c->by_rows ? (n ? 1.0 / (double)n : 0) : 1;
    if (c->reduction == TG_SUM || c->reduction == TG_NONE)
        return 1;
    return rows ? *base / (double)rows : 0;
}

/* 1 if all rows are as good as one: none is left out, and there are no gaps between them. */
static bool divergence_is_flat(const divergence_call *c, int64_t n)
{
    const tg_tensor *const tensors[] = {c->x, c->y, c->dx};
    bool flat = !c->labels && c->reduction != TG_NONE;
    for (const tg_tensor *t : tensors)
        flat &= !t || stride_of(t) == n;
    return flat;
}

/* Returns the number of blocks, each of which leaves a sum. */
template <class F, class T, class Y, bool LOSS, bool GRADIENT>
static int64_t divergence_launch(const cuda_call &call, const F &f, const divergence_args &a)
{
    static int known;
    const auto kernel = divergence_kernel<F, T, Y, LOSS, GRADIENT>;
    const int64_t chunks = ceil_div(a.n, V<T>),
                  blocks = (int64_t)call.processors *
                           blocks_at_once(&known, kernel, 0, DIVERGENCE_THREADS);
    const dim3 block = block_over(chunks, DIVERGENCE_THREADS);
    const int64_t wide = min_of(blocks, ceil_div(chunks, (int64_t)block.x * DIVERGENCE_AHEAD));
    const dim3 grid((unsigned)wide, (unsigned)min_of(blocks / wide, ceil_div(a.rows, block.y)));
    launch_behind(call, kernel, grid, block, f, a);
    return (int64_t)grid.x * grid.y;
}

/* The same, by types and layout. */
template <class F>
static int64_t divergence_launch(const cuda_call &call, const F &f, const divergence_args &a,
                                 const divergence_call &c)
{
    const tg_tensor *main = c.x ? c.x : c.dx;
    const tg_tensor *const tensors[] = {main, c.y, c.dx};
    const bool each = c.reduction == TG_NONE, same = tg_type_of(main) == tg_type_of(c.y);
    int64_t blocks = 0;
    by_type(main, [&](auto e) {
        using T = decltype(e);
        using W = whole<T>;
        if (each || !same || !are_whole(tensors, 3))
            by_type(c.y, [&](auto of_y) {
                blocks = divergence_launch<F, T, decltype(of_y), true, true>(call, f, a);
            });
        else if (!a.partial)
            blocks = divergence_launch<F, W, W, false, true>(call, f, a);
        else if (c.dx)
            blocks = divergence_launch<F, W, W, true, true>(call, f, a);
        else
            blocks = divergence_launch<F, W, W, true, false>(call, f, a);
    });
    return blocks;
}

template <class F>
static tg_status divergence_run(tg_ctx *ctx, const F &f, const divergence_call &c)
{
    const tg_tensor *main = c.x ? c.x : c.dx;
    const int each = c.reduction == TG_NONE, reduced = c.loss && !each;
    divergence_args a = {};
    double base;
    a.rows = rows_of(main);
    a.n = width_of(main);
    a.x = span_of(c.x);
    a.y = span_of(c.y);
    a.dx = span_of(c.dx);
    a.losses = span_of(each ? c.loss : NULL);
    a.dlosses = span_of(each ? c.dloss : NULL);
    a.dloss = each ? NULL : (const float *)data_of(c.dloss);
    a.labels = (const int64_t *)data_of(c.labels);
    a.ignore_index = c.ignore_index;
    a.share = divergence_share_of(&c, a.rows, a.n, &base) * F::UNIT;
    const int nothing = a.rows == 0 || a.n == 0;
    if (nothing && !reduced)
        return TG_OK;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, c.op, main);
    if (status != TG_OK)
        return status;
    const int64_t most = (int64_t)call.processors * DIVERGENCE_BLOCKS;
    double *memory = (double *)cuda_host->device_workspace(ctx, (size_t)(most + 1) * 8);
    if (!memory)
        return cuda_end(&call, TG_ENOMEM);
    if (c.labels && c.reduction != TG_SUM && !each) {
        a.counted = memory + most;
        divergence_share<<<1, TOTAL_THREADS, 0, call.stream>>>(memory + most, a.labels, a.rows,
                                                               a.ignore_index, base * F::UNIT);
    }
    if (divergence_is_flat(&c, a.n)) {
        a.n *= a.rows;
        a.rows = 1;
    }
    if (reduced)
        a.partial = memory;
    const int64_t blocks = nothing ? 0 : divergence_launch(call, f, a, c);
    if (reduced)
        launch_behind(call, divergence_total, 1, TOTAL_THREADS, (float *)data_of(c.loss), memory,
                      blocks, a.counted, a.share);
    return cuda_end(&call, TG_OK);
}

#endif
