/* fused_moe_hopper.cu - fused_moe in 16 bits on GPUs of compute capability 9.0
 * (fused_moe_hopper.cuh): silu gates without limits or biases, of matrices that are not transposed
 * and have the gates' rows in front, whose gradients are of their type. */
#include "fused_moe.h"
#include "fused_moe_hopper.cuh"

static bool is_plain(int64_t activation, double limit, double alpha, double up_offset,
                     int64_t interleaved, int64_t transposed, int64_t scale_input)
{
    return activation == TG_MOE_SWIGLU && limit == HUGE_VAL && alpha == 1 && up_offset == 0 &&
           !interleaved && !transposed && !scale_input;
}

/* Rows that tiles can be copied of; an absent tensor has them. */
static bool has_chunks(const tg_tensor *t)
{
    return !t || (has_tiles(t) && width_of(t) % 8 == 0);
}

static moe_sizes sizes_of(const tg_tensor *x, const tg_tensor *down, const tg_tensor *weights)
{
    const int64_t tokens = x->shape[0], top_k = weights->shape[1];
    const moe_sizes s = {tokens,         x->shape[1], down->shape[2],
                         down->shape[0], top_k,       tokens * top_k};
    return s;
}

static bool has_sizes(const moe_sizes &s)
{
    return s.slots > 0 && s.slots <= INT32_MAX / 4 && s.hidden > 0 && s.inner > 0 &&
           s.hidden <= (MOST_LAUNCHES - 1) * TILE_N && s.inner <= INT32_MAX / 8 && s.experts > 0 &&
           s.experts <= MOST_EXPERTS && s.inner % 8 == 0;
}

int cuda_fused_moe_forward_sm90_accepts(const tg_fused_moe_forward_args *a)
{
    return is_plain(a->activation, a->limit, a->alpha, a->up_offset, a->interleaved, a->transposed,
                    a->scale_input) &&
           !a->gate_up_bias && !a->down_bias && has_sizes(sizes_of(a->x, a->down, a->weights)) &&
           has_chunks(a->x) && has_chunks(a->gate_up) && has_chunks(a->down) &&
           has_chunks(a->addend) && has_chunks(a->y) && has_chunks(a->pre);
}

int cuda_fused_moe_backward_sm90_accepts(const tg_fused_moe_backward_args *a)
{
    const int type = tg_type_of(a->x);
    return is_plain(a->activation, a->limit, a->alpha, a->up_offset, a->interleaved, a->transposed,
                    a->scale_input) &&
           a->pre && !a->gate_up_bias && !a->down_bias && !a->accumulate &&
           (!a->dgate_up || tg_type_of(a->dgate_up) == type) &&
           (!a->ddown || tg_type_of(a->ddown) == type) &&
           has_sizes(sizes_of(a->x, a->down, a->weights)) && has_chunks(a->dy) &&
           has_chunks(a->x) && has_chunks(a->gate_up) && has_chunks(a->down) &&
           has_chunks(a->pre) && has_chunks(a->dx) && has_chunks(a->dgate_up) &&
           has_chunks(a->ddown);
}

/* Rows of tokens by the slots' numbers. */
static gathered_rows tokens_of(const tg_tensor *t, const int64_t *slot, int64_t top_k)
{
    const gathered_rows r = {data_of(t), rows_of(t), width_of(t), stride_of(t), slot, top_k};
    return r;
}

static int64_t *numbers(const tg_tensor *t)
{
    return (int64_t *)data_of(t);
}

template <class T>
static tg_status forward(const cuda_call &call, const tg_fused_moe_forward_args *a)
{
    const moe_sizes s = sizes_of(a->x, a->down, a->weights);
    moe_scratch room = {(char *)cuda_host->device_workspace(call.ctx, (size_t)bytes_of_forward(s))};
    if (!room.at)
        return TG_ENOMEM;
    moe_forward f = {};
    f.s = s;
    f.route.index = numbers(a->index);
    f.route.slots = s.slots;
    f.route.capacity = a->capacity ? a->capacity : INT64_MAX;
    f.route.experts = (int)s.experts;
    f.route.slot = a->slot ? numbers(a->slot) : room.take<int64_t>(8 * s.slots);
    f.route.offset = a->offset ? numbers(a->offset) : room.take<int64_t>(8 * (s.experts + 1));
    f.route.place = a->place ? numbers(a->place) : room.take<int64_t>(8 * s.slots);
    f.x = tokens_of(a->x, f.route.slot, s.top_k);
    f.gate_up = expert_matrices_of(a->gate_up);
    f.down = expert_matrices_of(a->down);
    f.y = span_of(a->y);
    f.addend = span_of(a->addend);
    f.pre = span_of(a->pre);
    f.weights = vector_of(a->weights);
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
    b.s = sizes_of(a->x, a->down, a->weights);
    const moe_scratch room = {
        (char *)cuda_host->device_workspace(call.ctx, (size_t)bytes_of_backward(b.s))};
    if (!room.at)
        return TG_ENOMEM;
    b.slot = numbers(a->slot);
    b.offset = numbers(a->offset);
    b.place = numbers(a->place);
    b.x = tokens_of(a->x, b.slot, b.s.top_k);
    b.dy = tokens_of(a->dy, b.slot, b.s.top_k);
    b.gate_up = expert_matrices_of(a->gate_up);
    b.down = expert_matrices_of(a->down);
    b.dgate_up = maybe(a->dgate_up);
    b.ddown = maybe(a->ddown);
    b.pre = span_of(a->pre);
    b.dx = span_of(a->dx);
    b.weights = vector_of(a->weights);
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
