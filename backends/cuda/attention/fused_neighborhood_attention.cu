/* fused_neighborhood_attention.cu - attention of each position to its neighbours: the band of
 * scores alone. */
#include "fused_neighborhood_attention_any.cuh"
#include "fused_neighborhood_attention_near.cuh"

/* ---- the host's side ---- */

static flash_view view_of(const tg_tensor *t)
{
    return t ? flash_view_of(t, 2, 1) : flash_view();
}

static band_problem problem_of(const tg_tensor *q, int64_t kernel_size, int64_t dilation,
                               double scale)
{
    band_problem p = {};
    const int64_t chunks = ceil_div(width_of(q), 16 / (int64_t)tg_type_size(tg_type_of(q)));
    p.heads = (unsigned)q->shape[1];
    p.positions = (int)q->shape[2];
    p.d = (int)q->shape[3];
    p.half = (int)min_of(kernel_size / 2, (p.positions - 1) / dilation);
    p.dilation =
        p.half == 0 ? 1 : (int)dilation; /* each position sees itself alone: one class will do */
    p.classes = (unsigned)min_of(p.dilation, p.positions);
    p.lanes = power_of_two(min_of(chunks, 32));
    p.groups = (int)(chunks > 0 ? ceil_div(chunks, p.lanes) : 1);
    p.scale = (float)flash_scale(scale, p.d);
    p.factor = (float)(flash_scale(scale, p.d) / log(2.0));
    return p;
}

/* 1 if blocks of teams of one row can be counted, and positions with windows. */
static bool takes(const tg_tensor *q)
{
    return q->shape[2] < 1 << 28 && width_of(q) < 1 << 28 && rows_of(q) < (int64_t)1 << 31;
}

/* Teams of R rows; returns the blocks that hold them, and their groups. */
static dim3 cut(band_problem *p, const tg_tensor *q, int rows)
{
    p->teams_of_class = (unsigned)ceil_div(ceil_div(p->positions, p->dilation), rows);
    p->teams = (unsigned)(q->shape[0] * q->shape[1]) * p->classes * p->teams_of_class;
    return dim3((unsigned)ceil_div(p->teams, BAND_THREADS / p->lanes),
                (unsigned)min_of(p->groups, 65535));
}

template <class T> static void launch_near_backward(const band_problem &p, cudaStream_t stream)
{
    const auto kernel = near_backward_kernel<T>;
    const int bytes = near_bytes(p.lanes);
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<p.teams, NEAR_THREADS, bytes, stream>>>(p);
}

/* Which kernels run: those for near windows, those for rows of whole chunks that a team has at
 * once, those for all others. */
enum { BAND_NEAR, BAND_NARROW, BAND_ANY };

template <int COUNT>
static int way_of(const tg_tensor *const (&tensors)[COUNT], const band_problem &p)
{
    bool whole = p.groups == 1;
    for (const tg_tensor *t : tensors)
        whole = whole && flash_is_whole(t);
    return !whole ? BAND_ANY : p.half <= NEAR && p.lanes >= NEAR_ROWS ? BAND_NEAR : BAND_NARROW;
}

/* run(T(), way), a kernel's parameters. */
template <class F> static void by_way(int way, const tg_tensor *t, F run)
{
    by_type(t, [&](auto e) {
        using T = decltype(e);
        if (way == BAND_NEAR)
            run(whole<T>(), number<BAND_NEAR>());
        else if (way == BAND_NARROW)
            run(whole<T>(), number<BAND_NARROW>());
        else
            run(e, number<BAND_ANY>());
    });
}

CUDA_OPERATOR(fused_neighborhood_attention_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_neighborhood_attention_backward, TG_TAKES_FLOATS);

tg_status
cuda_fused_neighborhood_attention_forward(tg_ctx *ctx,
                                          const tg_fused_neighborhood_attention_forward_args *args)
{
    cuda_call call;
    if (!takes(args->q))
        return TG_EUNSUPPORTED;
    if (rows_of(args->q) == 0)
        return TG_OK;
    band_problem p = problem_of(args->q, args->kernel_size, args->dilation, args->scale);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.y = view_of(args->y);
    p.lse = (float *)data_of(args->lse);
    const tg_tensor *const tensors[] = {args->q, args->k, args->v, args->y};
    const int way = way_of(tensors, p);
    const dim3 blocks =
        cut(&p, args->q, way == BAND_NEAR ? (int)NEAR_ROWS : (int)BAND_FORWARD_ROWS);
    const tg_status status =
        cuda_begin(&call, ctx, "fused_neighborhood_attention_forward", args->q);
    if (status != TG_OK)
        return status;
    by_way(way, args->q, [&](auto t, auto kind) {
        using T = decltype(t);
        if constexpr (decltype(kind)::value == BAND_NEAR)
            near_forward_kernel<T><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
        else
            band_forward_kernel<T, decltype(kind)::value == BAND_ANY>
                <<<blocks, BAND_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}

tg_status cuda_fused_neighborhood_attention_backward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    cuda_call call;
    if (!takes(args->q))
        return TG_EUNSUPPORTED;
    if (rows_of(args->q) == 0)
        return TG_OK;
    band_problem p = problem_of(args->q, args->kernel_size, args->dilation, args->scale);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    p.lse = (float *)data_of(args->lse);
    const tg_tensor *const tensors[] = {args->q,  args->k,  args->v, args->dy,
                                        args->dq, args->dk, args->dv};
    int way = way_of(tensors, p);
    if (way == BAND_NEAR && 2 * (p.positions / p.dilation) < near_rows(p.lanes))
        way = BAND_NARROW; /* a class of places would leave most of its tile empty */
    const int rows = way == BAND_NEAR ? near_rows(p.lanes) - 2 * NEAR_HALO : BAND_BACKWARD_ROWS;
    const dim3 blocks = cut(&p, args->q, rows);
    const tg_status status =
        cuda_begin(&call, ctx, "fused_neighborhood_attention_backward", args->q);
    if (status != TG_OK)
        return status;
    if (way == BAND_NEAR) {
        by_type(args->q, [&](auto e) { launch_near_backward<whole<decltype(e)>>(p, call.stream); });
        return cuda_end(&call, TG_OK);
    }
    p.rows =
        (flash_row *)cuda_host->device_workspace(ctx, (size_t)rows_of(args->q) * sizeof(flash_row));
    if (!p.rows)
        return cuda_end(&call, TG_ENOMEM);
    by_way(way, args->q, [&](auto t, auto kind) {
        using T = decltype(t);
        if constexpr (decltype(kind)::value != BAND_NEAR) {
            constexpr bool WIDE = decltype(kind)::value == BAND_ANY;
            band_backward_kernel<T, WIDE, false><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
            band_backward_kernel<T, WIDE, true><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
        }
    });
    return cuda_end(&call, TG_OK);
}
