/* flash_attention.cu - calls of flash_attention by kernels of our own: what they are given, and
 * tensors that they cannot read as they lie. */
#include "flash_attention_call.cuh"
#include "flash_attention_plain.h"

/* ---- copies of rows that do not begin at a multiple of 16 bytes, or do not end at one ---- */

struct flash_copy {
    flash_view from, to; /* `to` is compact, with rows of `chunks` chunks */
    int64_t total;       /* chunks in all */
    int rows, heads, chunks, d;
};

template <class T> __global__ void __launch_bounds__(256) flash_copy_kernel(const flash_copy p)
{
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < p.total; i += gridDim.x * 256ll) {
        const int c = (int)(i % p.chunks);
        int64_t rest = i / p.chunks;
        const int h = (int)(rest % p.heads);
        rest /= p.heads;
        const int r = (int)(rest % p.rows), b = (int)(rest / p.rows);
        *(uint4 *)(p.to.data + i * 16) =
            load((const T *)p.from.at(b, h, r) + c * V<T>, p.d - c * V<T>);
    }
}

static int64_t chunks_of(const tg_tensor *t)
{
    return ceil_div(width_of(t) * (int64_t)tg_type_size(tg_type_of(t)), 16);
}

static int64_t copy_bytes(const tg_tensor *t)
{
    return flash_is_whole(t) ? 0 : rows_of(t) * chunks_of(t) * 16;
}

/* The tensor as the kernels take it: itself, or a copy at *room, which moves on. */
template <class T> static flash_view given(const tg_tensor *t, char **room, const cuda_call &call)
{
    flash_copy p = {};
    p.from = view_of(t);
    if (flash_is_whole(t))
        return p.from;
    p.rows = (int)t->shape[1];
    p.heads = (int)t->shape[2];
    p.d = (int)t->shape[3];
    p.chunks = (int)chunks_of(t);
    p.total = rows_of(t) * p.chunks;
    p.to.data = *room;
    p.to.head = p.chunks * 16;
    p.to.row = p.to.head * p.heads;
    p.to.batch = p.to.row * p.rows;
    *room += p.total * 16;
    if (p.total > 0)
        flash_copy_kernel<T><<<(unsigned)min_of(ceil_div(p.total, 256), call.processors * 16), 256,
                               0, call.stream>>>(p);
    return p.to;
}

/* ---- the operators ---- */

CUDA_OPERATOR(flash_attention_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(flash_attention_backward, TG_TAKES_FLOATS);

tg_status cuda_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    cuda_call call;
    if (!takes(args))
        return TG_EUNSUPPORTED;
    flash_problem p = problem_of(args);
    tg_status status = cuda_begin(&call, ctx, "flash_attention_forward", args->q);
    if (status != TG_OK)
        return status;
    const bool decode = FLASH_IS_DECODE(args) && !call.alike;
    p.alike = call.alike;
    by_type(args->q, [&](auto t) {
        using T = decltype(t);
        const int64_t bytes = (decode ? flash_decode_bytes<T>(p, call.processors) : 0) +
                              flash_bounds_bytes(args) + copy_bytes(args->q) + copy_bytes(args->k) +
                              copy_bytes(args->v);
        char *room = bytes ? (char *)cuda_host->device_workspace(ctx, (size_t)bytes) : NULL;
        if (bytes && !room) {
            status = TG_ENOMEM;
            return;
        }
        flash_put_bounds(&p, args, &room, call);
        p.q = given<T>(args->q, &room, call);
        p.k = given<T>(args->k, &room, call);
        p.v = given<T>(args->v, &room, call);
        p.y = view_of(args->y);
        p.lse = (float *)data_of(args->lse);
        if (decode)
            flash_attention_decode<T>(p, room, call);
        else
            flash_attention_forward<T>(p, call.stream);
    });
    return cuda_end(&call, status);
}

tg_status cuda_flash_attention_backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    cuda_call call;
    if (!takes(args))
        return TG_EUNSUPPORTED;
    flash_problem p = problem_of(args);
    const tg_tensor *const inputs[] = {args->q, args->k, args->v, args->y, args->dy};
    flash_view *const views[] = {&p.q, &p.k, &p.v, &p.y, &p.dy};
    const int64_t rows_bytes =
        ceil_div((int64_t)sizeof(flash_row) * p.batches * p.heads * p.queries, 16) * 16;
    int64_t bytes = flash_bounds_bytes(args) + rows_bytes;
    for (const tg_tensor *t : inputs)
        bytes += copy_bytes(t);
    tg_status status = cuda_begin(&call, ctx, "flash_attention_backward", args->q);
    if (status != TG_OK)
        return status;
    p.alike = call.alike;
    char *room = (char *)cuda_host->device_workspace(ctx, (size_t)bytes + 16);
    if (!room)
        return cuda_end(&call, TG_ENOMEM);
    flash_put_bounds(&p, args, &room, call);
    p.rows = (flash_row *)room;
    room += rows_bytes;
    by_type(args->q, [&](auto t) {
        using T = decltype(t);
        for (int i = 0; i < 5; i++)
            *views[i] = given<T>(inputs[i], &room, call);
        p.lse = (float *)data_of(args->lse);
        p.dq = view_of(args->dq);
        p.dk = view_of(args->dk);
        p.dv = view_of(args->dv);
        p.dsinks = vector_of(args->dsinks);
        flash_attention_backward<T>(p, call.stream);
    });
    return cuda_end(&call, TG_OK);
}
