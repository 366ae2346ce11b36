/* fused_moe_hopper.cu - fused_moe in 16 bits on GPUs of compute capability 9.0
 * (fused_moe_hopper.cuh), of tensors whose rows are whole chunks; what is there is added to in f32
 * alone. */
#include "fused_moe.h"
#include "fused_moe_hopper_backward.cuh"

/* Rows that tiles can be copied of; an absent tensor has them. */
static bool has_chunks(const tg_tensor *t)
{
    return !t || (has_tiles(t) && width_of(t) % 8 == 0);
}

template <class ARGS> static moe_sizes sizes_of(const ARGS *a)
{
    const int64_t tokens = a->x->shape[0], top_k = a->weights->shape[1];
    const int64_t inner = a->down->shape[a->transposed ? 1 : 2];
    const moe_sizes s = {tokens, a->x->shape[1], inner, a->down->shape[0], top_k, tokens * top_k};
    return s;
}

static bool has_sizes(const moe_sizes &s)
{
    return s.slots > 0 && s.slots <= INT32_MAX / 4 && s.hidden > 0 && s.inner > 0 &&
           s.hidden <= (MOST_LAUNCHES - 2) * TILE_N && s.inner <= INT32_MAX / 8 && s.experts > 0 &&
           s.experts <= MOST_EXPERTS && s.inner % 8 == 0;
}

int cuda_fused_moe_forward_sm90_accepts(const tg_fused_moe_forward_args *a)
{
    return has_sizes(sizes_of(a)) && has_chunks(a->x) && has_chunks(a->gate_up) &&
           has_chunks(a->down) && has_chunks(a->addend) && has_chunks(a->y) && has_chunks(a->pre);
}

int cuda_fused_moe_backward_sm90_accepts(const tg_fused_moe_backward_args *a)
{
    const int type = (int)tg_type_of(a->x);
    return has_results(a->dgate_up, type, a->accumulate) &&
           has_results(a->ddown, type, a->accumulate) && has_sizes(sizes_of(a)) &&
           has_chunks(a->dy) && has_chunks(a->x) && has_chunks(a->gate_up) && has_chunks(a->down) &&
           has_chunks(a->pre) && has_chunks(a->dx);
}

/* Rows of tokens by the slots' numbers. */
static gathered_rows tokens_of(const tg_tensor *t, const int64_t *slot, int64_t top_k)
{
    const gathered_rows r = {data_of(t), rows_of(t), width_of(t), stride_of(t), slot, top_k, NULL};
    return r;
}

static int64_t *numbers(const tg_tensor *t)
{
    return (int64_t *)data_of(t);
}

/* What both directions have; slot: the slots' order. */
template <class ARGS> static void set_layer(moe_layer *l, const ARGS *a, const int64_t *slot)
{
    l->s = sizes_of(a);
    l->x = tokens_of(a->x, slot, l->s.top_k);
    l->gate_up = expert_matrices_of(a->gate_up);
    l->down = expert_matrices_of(a->down);
    l->weights = vector_of(a->weights);
    l->gate_up_bias = vector_of(a->gate_up_bias);
    l->down_bias = vector_of(a->down_bias);
    l->gate = gate_options{(int)a->activation, (int)a->interleaved, (float)a->limit,
                           (float)a->alpha,    (float)a->up_offset, l->s.inner};
    l->transposed = a->transposed != 0;
    l->scaled = a->scale_input != 0;
}

template <class T>
static tg_status forward(const cuda_call &call, const tg_fused_moe_forward_args *a)
{
    moe_forward f = {};
    set_layer(&f, a, NULL);
    const moe_sizes &s = f.s;
    moe_scratch room = {(char *)cuda_host->device_workspace(call.ctx, (size_t)bytes_of_forward(f))};
    if (!room.at)
        return TG_ENOMEM;
    f.route.index = numbers(a->index);
    f.route.slots = s.slots;
    f.route.capacity = a->capacity ? a->capacity : INT64_MAX;
    f.route.experts = (int)s.experts;
    f.route.slot = a->slot ? numbers(a->slot) : room.take<int64_t>(8 * s.slots);
    f.route.offset = a->offset ? numbers(a->offset) : room.take<int64_t>(8 * (s.experts + 1));
    f.route.place = a->place ? numbers(a->place) : room.take<int64_t>(8 * s.slots);
    f.x.gather = f.route.slot;
    f.y = span_of(a->y);
    f.addend = span_of(a->addend);
    f.pre = span_of(a->pre);
    return run_forward<T>(call, tg_type_of(a->x), f, room) ? TG_OK : TG_EUNSUPPORTED;
}

tg_status cuda_fused_moe_forward_sm90(tg_ctx *ctx, const tg_fused_moe_forward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "fused_moe_forward", args->y);
    if (status != TG_OK)
        return status;
    if (call.capability != 90)
        return cuda_end(&call, TG_EUNSUPPORTED);
    return cuda_end(&call, tg_type_of(args->x) == TG_BF16 ? forward<bf16>(call, args)
                                                          : forward<f16>(call, args));
}

static expert_matrices maybe(const tg_tensor *t)
{
    return t ? expert_matrices_of(t) : expert_matrices{};
}

template <class T>
static tg_status backward(const cuda_call &call, const tg_fused_moe_backward_args *a)
{
    moe_backward b = {};
    set_layer(&b, a, numbers(a->slot));
    const moe_scratch room = {(char *)cuda_host->device_workspace(
        call.ctx, (size_t)bytes_of_backward(b, a->pre != NULL))};
    if (!room.at)
        return TG_ENOMEM;
    b.slot = numbers(a->slot);
    b.offset = numbers(a->offset);
    b.place = numbers(a->place);
    b.dy = tokens_of(a->dy, b.slot, b.s.top_k);
    b.dgate_up = maybe(a->dgate_up);
    b.ddown = maybe(a->ddown);
    b.dgate_up_bias = a->dgate_up_bias;
    b.ddown_bias = a->ddown_bias;
    b.accumulate = a->accumulate != 0;
    b.pre = span_of(a->pre);
    b.dx = span_of(a->dx);
    b.dweights = vector_of(a->dweights);
    return run_backward<T>(call, tg_type_of(a->x), b, room) ? TG_OK : TG_EUNSUPPORTED;
}

tg_status cuda_fused_moe_backward_sm90(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "fused_moe_backward", args->dy);
    if (status != TG_OK)
        return status;
    if (call.capability != 90)
        return cuda_end(&call, TG_EUNSUPPORTED);
    return cuda_end(&call, tg_type_of(args->x) == TG_BF16 ? backward<bf16>(call, args)
                                                          : backward<f16>(call, args));
}
