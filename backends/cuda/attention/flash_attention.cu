/* flash_attention.cu - calls of flash_attention by kernels of our own: what they are given, and
 * tensors that they cannot read as they lie. */
#include "flash_attention.cuh"
#include "flash_attention_hopper.h"
#include "flash_attention_plain.h"
#include "host/tensor_map.h"

/* ---- copies of rows that do not begin at a multiple of 16 bytes, or do not end at one ---- */

struct flash_copy {
    flash_view from, to; /* `to` is compact, with rows of `chunks` chunks */
    int64_t total;       /* chunks in all */
    int rows, heads, chunks, d;
    uint32_t flip; /* of each element's bits: its sign, or nothing */
};

template <class T> __global__ void __launch_bounds__(256) flash_copy_kernel(const flash_copy p)
{
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < p.total; i += gridDim.x * 256ll) {
        const int c = (int)(i % p.chunks);
        int64_t rest = i / p.chunks;
        const int h = (int)(rest % p.heads);
        rest /= p.heads;
        const int r = (int)(rest % p.rows), b = (int)(rest / p.rows);
        uint4 x = load((const T *)p.from.at(b, h, r) + c * V<T>, p.d - c * V<T>);
        x.x ^= p.flip;
        x.y ^= p.flip;
        x.z ^= p.flip;
        x.w ^= p.flip;
        *(uint4 *)(p.to.data + i * 16) = x;
    }
}

static flash_view view_of(const tg_tensor *t)
{
    return flash_view_of(t, 1, 2);
}

static int64_t chunks_of(const tg_tensor *t)
{
    return ceil_div(width_of(t) * (int64_t)tg_type_size(tg_type_of(t)), 16);
}

static int64_t copy_bytes(const tg_tensor *t, bool copied)
{
    return copied ? rows_of(t) * chunks_of(t) * 16 : 0;
}

/* The tensor as the kernels take it: itself, or a copy at *room, which moves on. */
template <class T>
static flash_view given(const tg_tensor *t, bool copied, bool negative, char **room,
                        const cuda_call &call)
{
    flash_copy p = {};
    p.from = view_of(t);
    if (!copied)
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
    p.flip = negative ? sizeof(T) == 4 ? 0x80000000u : 0x80008000u : 0;
    *room += p.total * 16;
    if (p.total > 0)
        flash_copy_kernel<T><<<(unsigned)min_of(ceil_div(p.total, 256), call.processors * 16), 256,
                               0, call.stream>>>(p);
    return p.to;
}

/* ---- the operators ---- */

template <class ARGS> static bool takes(const ARGS *args)
{
    const tg_tensor *q = args->q, *k = args->k;
    /* blocks are of 32 rows at least */
    const int64_t rows =
        rows_of(q) + 32 * q->shape[0] * q->shape[2] + rows_of(k) + 32 * k->shape[0] * k->shape[2];
    return FLASH_IS_PLAIN(args) && q->shape[3] <= FLASH_MOST_D && q->shape[1] < 1 << 30 &&
           k->shape[1] < 1 << 30 && rows / 32 < INT32_MAX;
}

static flash_problem problem_of(const tg_tensor *q, const tg_tensor *k, double scale, bool causal)
{
    flash_problem p = {};
    p.batches = (int)q->shape[0];
    p.queries = (int)q->shape[1];
    p.heads = (int)q->shape[2];
    p.d = (int)q->shape[3];
    p.keys = (int)k->shape[1];
    p.key_heads = (int)k->shape[2];
    p.group = p.key_heads ? p.heads / p.key_heads : 0;
    p.end = causal ? p.keys - p.queries + 1 : p.keys;
    p.scale = (float)flash_scale(scale, p.d);
    p.factor = (float)(flash_scale(scale, p.d) / log(2.0));
    return p;
}

CUDA_OPERATOR(flash_attention_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(flash_attention_backward, TG_TAKES_FLOATS);

tg_status cuda_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    cuda_call call;
    if (!takes(args))
        return TG_EUNSUPPORTED;
    flash_problem p = problem_of(args->q, args->k, args->scale, args->causal != 0);
    const bool negative = p.factor < 0; /* then -q is given, since a row's greatest score counts */
    const bool copied[] = {negative || !flash_is_whole(args->q), !flash_is_whole(args->k),
                           !flash_is_whole(args->v)};
    const int64_t bytes = copy_bytes(args->q, copied[0]) + copy_bytes(args->k, copied[1]) +
                          copy_bytes(args->v, copied[2]);
    tg_status status = cuda_begin(&call, ctx, "flash_attention_forward", args->q);
    if (status != TG_OK)
        return status;
    char *room = bytes ? (char *)cuda_host->device_workspace(ctx, (size_t)bytes) : NULL;
    if (bytes && !room)
        return cuda_end(&call, TG_ENOMEM);
    by_type(args->q, [&](auto t) {
        using T = decltype(t);
        p.q = given<T>(args->q, copied[0], negative, &room, call);
        p.k = given<T>(args->k, copied[1], false, &room, call);
        p.v = given<T>(args->v, copied[2], false, &room, call);
        p.y = view_of(args->y);
        p.lse = (float *)data_of(args->lse);
        p.factor = fabsf(p.factor);
        flash_attention_forward<T>(p, call.stream);
    });
    return cuda_end(&call, TG_OK);
}

tg_status cuda_flash_attention_backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    cuda_call call;
    if (!takes(args))
        return TG_EUNSUPPORTED;
    flash_problem p = problem_of(args->q, args->k, args->scale, args->causal != 0);
    const tg_tensor *const inputs[] = {args->q, args->k, args->v, args->y, args->dy};
    flash_view *const views[] = {&p.q, &p.k, &p.v, &p.y, &p.dy};
    int64_t bytes = ceil_div((int64_t)sizeof(flash_row) * p.batches * p.heads * p.queries, 16) * 16;
    const int64_t rows_bytes = bytes;
    for (const tg_tensor *t : inputs)
        bytes += copy_bytes(t, !flash_is_whole(t));
    tg_status status = cuda_begin(&call, ctx, "flash_attention_backward", args->q);
    if (status != TG_OK)
        return status;
    char *room = (char *)cuda_host->device_workspace(ctx, (size_t)bytes + 16);
    if (!room)
        return cuda_end(&call, TG_ENOMEM);
    p.rows = (flash_row *)room;
    room += rows_bytes;
    by_type(args->q, [&](auto t) {
        using T = decltype(t);
        for (int i = 0; i < 5; i++)
            *views[i] = given<T>(inputs[i], !flash_is_whole(inputs[i]), false, &room, call);
        p.lse = (float *)data_of(args->lse);
        p.dq = view_of(args->dq);
        p.dk = view_of(args->dk);
        p.dv = view_of(args->dv);
        flash_attention_backward<T>(p, call.stream);
    });
    return cuda_end(&call, TG_OK);
}

/* ---- for Hopper ---- */

/* Whether a card has compute capability 9.0, and this library its code. */
static bool is_hopper(int card)
{
    int major = 0, minor = 0;
#ifdef CUDA_SM90A
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, card);
#endif
    return major == 9 && minor == 0;
}

/* Whether the copy engine reads a tensor as it lies. */
static bool is_for_engine(const tg_tensor *t)
{
    bool forward = true;
    for (int i = 0; i < 3; i++)
        forward = forward && (t->shape[i] <= 1 || tg_stride(t, i) > 0);
    return forward && tg_numel(t) > 0 && flash_is_whole(t);
}

/* run(T()) for the 16-bit type of a tensor. */
template <class F> static auto by_half(const tg_tensor *t, F run)
{
    return tg_type_of(t) == TG_BF16 ? run(bf16()) : run(f16());
}

template <int COUNT> static bool are_for_engine(const tg_tensor *const (&tensors)[COUNT])
{
    const tg_tensor *q = tensors[0];
    bool all = is_hopper(q->device.device_id) && cuda_has_tensor_maps() && width_of(q) <= 128;
    for (const tg_tensor *t : tensors)
        all = all && is_for_engine(t);
    return all;
}

/* The problem of a call, on tensors as they lie. */
template <class ARGS> static flash_problem problem_in_place(const ARGS *args)
{
    flash_problem p = problem_of(args->q, args->k, args->scale, args->causal != 0);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.y = view_of(args->y);
    p.lse = (float *)data_of(args->lse);
    return p;
}

int cuda_flash_attention_forward_sm90_accepts(const tg_flash_attention_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->q, args->k, args->v, args->y};
    return are_for_engine(tensors) && args->scale >= 0 && takes(args);
}

tg_status cuda_flash_attention_forward_sm90(tg_ctx *ctx,
                                            const tg_flash_attention_forward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "flash_attention_forward", args->q);
    if (status != TG_OK)
        return status;
    const flash_problem p = problem_in_place(args);
    unsigned *ticket = (unsigned *)cuda_host->device_workspace(ctx, sizeof *ticket);
    if (!ticket)
        return cuda_end(&call, TG_ENOMEM);
    const bool launched = by_half(args->q, [&](auto t) {
        return flash_attention_forward_sm90<decltype(t)>(p, ticket, call.processors, call.stream);
    });
    return cuda_end(&call, launched ? TG_OK : TG_EUNSUPPORTED);
}

int cuda_flash_attention_backward_sm90_accepts(const tg_flash_attention_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->q, args->dy, args->k,  args->v,
                                        args->y, args->dq, args->dk, args->dv};
    return are_for_engine(tensors) && takes(args);
}

tg_status cuda_flash_attention_backward_sm90(tg_ctx *ctx,
                                             const tg_flash_attention_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "flash_attention_backward", args->q);
    if (status != TG_OK)
        return status;
    flash_problem p = problem_in_place(args);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    const int64_t bytes =
        by_half(args->q, [&](auto t) { return flash_backward_sm90_room<decltype(t)>(p); });
    char *room = (char *)cuda_host->device_workspace(ctx, (size_t)bytes);
    if (!room)
        return cuda_end(&call, TG_ENOMEM);
    const bool launched = by_half(args->q, [&](auto t) {
        return flash_attention_backward_sm90<decltype(t)>(p, room, call.processors, call.stream);
    });
    return cuda_end(&call, launched ? TG_OK : TG_EUNSUPPORTED);
}
