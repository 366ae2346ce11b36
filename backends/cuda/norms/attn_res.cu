/* attn_res.cu - the calls of attn_res: by blocks of threads that go from token to token, with the
 * token's rows in shared memory where they fit and are made of whole chunks. */
#include "attn_res_any.cuh"
#include "attn_res_held.cuh"

static depth_args args_of(const tg_tensor *v, const tg_tensor *query, const tg_tensor *weight,
                          const tg_tensor *alpha, const tg_tensor *rstd, const tg_tensor *out)
{
    depth_args a = {};
    a.v = span_of(v);
    a.out = span_of(out);
    a.query = vector_of(query);
    a.weight = vector_of(weight);
    a.alpha = (float *)data_of(alpha);
    a.rstd = (float *)data_of(rstd);
    a.depth = (int)v->shape[0];
    a.tokens = rows_of(v) / a.depth;
    a.n = (int)width_of(v);
    a.share = 1 / (float)a.n;
    return a;
}

/* Widths and depths are ints, and what is kept of each block of depth fits shared memory. */
static tg_status check_size(const char *op, const tg_tensor *v)
{
    enum { MOST_DEPTH = 3840 };
    return width_of(v) <= INT32_MAX / 2 && v->shape[0] <= MOST_DEPTH
               ? TG_OK
               : cuda_host->fail(TG_EUNSUPPORTED,
                                 "%s: %lld blocks of %lld elements, expected %d of "
                                 "%d at most",
                                 op, (long long)v->shape[0], (long long)width_of(v), MOST_DEPTH,
                                 INT32_MAX / 2);
}

CUDA_OPERATOR(attn_res_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(attn_res_backward, TG_TAKES_FLOATS);

template <class T> static void launch_forward(const cuda_call &call, const depth_args &a)
{
    const ring_shape held = held_shape_of<T>(call, a), ring = ring_shape_of<T>(call, a, a.depth);
    if constexpr (element<T>::WHOLE) {
        if (held.stages > 0)
            return by_each(held.each, [&](auto each) {
                constexpr int EACH = decltype(each)::value < HELD_EACH ? 1 : HELD_EACH;
                launch_ring(call, held, attn_res_held_kernel<T, EACH>, a, held);
            });
        if (ring.stages > 0)
            return by_each(ring.each, [&](auto each) {
                launch_ring(call, ring, attn_res_ring_kernel<T, decltype(each)::value>, a, ring);
            });
    }
    launch_any(call, any_shape_of<T>(call, a), attn_res_kernel<T>, a);
}

tg_status cuda_attn_res_forward(tg_ctx *ctx, const tg_attn_res_forward_args *args)
{
    cuda_call call;
    tg_status status = check_size("attn_res_forward", args->v);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "attn_res_forward", args->v);
    if (status != TG_OK)
        return status;
    depth_args a = args_of(args->v, args->query, args->weight, args->alpha, args->rstd, args->y);
    a.eps = (float)args->eps;
    const tg_tensor *const tensors[] = {args->v, args->y, args->query, args->weight};
    if (a.tokens > 0)
        by_layout(tensors, [&](auto e) { launch_forward<decltype(e)>(call, a); });
    return cuda_end(&call, TG_OK);
}

template <class T>
static tg_status launch_gradient(const cuda_call &call, depth_args a, part_args<2, 0> sums)
{
    const ring_shape s = ring_shape_of<T>(call, a, a.depth + 1);
    const any_shape any = any_shape_of<T>(call, a);
    const bool wanted = a.n > 0 && asks_for_sums(sums);
    const tg_status status =
        wanted ? take_parts(call.ctx, s.stages ? s.blocks : any.blocks, 0, &sums) : TG_OK;
    a.partial = wanted ? (float *)sums.columns : NULL;
    if (status != TG_OK)
        return status;
    if (a.tokens > 0 && s.stages == 0)
        launch_any(call, any, attn_res_gradient_kernel<T>, a);
    else if constexpr (element<T>::WHOLE) {
        if (a.tokens > 0)
            by_each(s.each, [&](auto each) {
                launch_ring(call, s, attn_res_gradient_ring_kernel<T, decltype(each)::value>, a, s);
            });
    }
    if (wanted)
        sum_parts<T>(call, sums);
    return TG_OK;
}

tg_status cuda_attn_res_backward(tg_ctx *ctx, const tg_attn_res_backward_args *args)
{
    cuda_call call;
    tg_status status = check_size("attn_res_backward", args->v);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, "attn_res_backward", args->v);
    if (status != TG_OK)
        return status;
    depth_args a = args_of(args->v, args->query, args->weight, args->alpha, args->rstd, args->dv);
    a.dy = span_of(args->dy);
    part_args<2, 0> sums = {};
    sums.n = a.n;
    sums.accumulate = args->accumulate != 0;
    sums.out[0] = vector_of(args->dquery);
    sums.out[1] = vector_of(args->dweight);
    const tg_tensor *const tensors[] = {args->v, args->dy, args->dv, args->query, args->weight};
    by_layout(tensors, [&](auto e) { status = launch_gradient<decltype(e)>(call, a, sums); });
    return cuda_end(&call, status);
}
