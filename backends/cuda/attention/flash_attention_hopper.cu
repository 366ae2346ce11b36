/* flash_attention_hopper.cu - calls of flash_attention by kernels for Hopper. */
#include "flash_attention_call.cuh"
#include "flash_attention_cudnn.h"
#include "flash_attention_hopper.h"
#include "flash_attention_plain.h"
#include "host/tensor_map.h"

/* Whether a card has compute capability 9.0, and this library its code. */
static bool is_hopper([[maybe_unused]] int card)
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
    bool all = is_hopper(q->device.device_id) && cuda_has_tensor_maps();
    for (const tg_tensor *t : tensors)
        all = all && is_for_engine(t);
    return all;
}

/* The problem of a call, on tensors as they lie. That rows are packed is said by bounds, which
 * flash_put_bounds() gives their place. */
template <class ARGS> static flash_problem problem_in_place(const ARGS *args)
{
    flash_problem p = problem_of(args);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.y = view_of(args->y);
    p.lse = (float *)data_of(args->lse);
    p.bounds = (const int2 *)data_of(args->cu_seqlens_q);
    return p;
}

/* launch(T(), p, room, call), with room(T(), p) bytes of the workspace behind the boundaries. */
template <class ARGS, class ROOM, class LAUNCH>
static tg_status run_in_place(tg_ctx *ctx, const char *op, const ARGS *args, flash_problem p,
                              ROOM room_of, LAUNCH launch)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, op, args->q);
    if (status != TG_OK)
        return status;
    const int64_t bytes =
        flash_bounds_bytes(args) + by_half(args->q, [&](auto t) { return room_of(t, p); });
    char *room = (char *)cuda_host->device_workspace(ctx, (size_t)bytes);
    if (!room)
        return cuda_end(&call, TG_ENOMEM);
    flash_put_bounds(&p, args, &room, call);
    const bool launched = by_half(args->q, [&](auto t) { return launch(t, p, room, call); });
    return cuda_end(&call, launched ? TG_OK : TG_EUNSUPPORTED);
}

/* Of any number of queries. */
int cuda_flash_attention_forward_sm90_any_accepts(const tg_flash_attention_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->q, args->k, args->v, args->y};
    return are_for_engine(tensors) && args->scale >= 0 && !args->bias && args->dropout == 0 &&
           takes(args);
}

/* Heads of more than 128 elements are left to cuDNN where it takes them. */
int cuda_flash_attention_forward_sm90_accepts(const tg_flash_attention_forward_args *args)
{
    return cuda_flash_attention_forward_sm90_any_accepts(args) && !FLASH_IS_DECODE(args) &&
           (width_of(args->q) <= 128 || !cuda_flash_attention_cudnn_accepts(args));
}

tg_status cuda_flash_attention_forward_sm90(tg_ctx *ctx,
                                            const tg_flash_attention_forward_args *args)
{
    flash_problem problem = problem_in_place(args);
    problem.alike = cuda_host->batch_invariant(ctx);
    return run_in_place(
        ctx, "flash_attention_forward", args, problem,
        [](auto t, const flash_problem &p) {
            const int64_t few = flash_few_sm90_room<decltype(t)>(p);
            return few > 0 ? few : flash_forward_sm90_room<decltype(t)>(p);
        },
        [](auto t, const flash_problem &p, char *room, const cuda_call &call) {
            typedef decltype(t) T;
            return flash_few_sm90_room<T>(p) > 0
                       ? flash_attention_few_sm90<T>(p, room, call)
                       : flash_attention_forward_sm90<T>(p, room, call.processors, call.stream);
        });
}

int cuda_flash_attention_backward_sm90_accepts(const tg_flash_attention_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->q, args->dy, args->k,  args->v,
                                        args->y, args->dq, args->dk, args->dv};
    return are_for_engine(tensors) && !args->bias && args->dropout == 0 && takes(args);
}

tg_status cuda_flash_attention_backward_sm90(tg_ctx *ctx,
                                             const tg_flash_attention_backward_args *args)
{
    flash_problem p = problem_in_place(args);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    p.dsinks = vector_of(args->dsinks);
    return run_in_place(
        ctx, "flash_attention_backward", args, p,
        [](auto t, const flash_problem &p) { return flash_backward_sm90_room<decltype(t)>(p); },
        [](auto t, const flash_problem &p, char *room, const cuda_call &call) {
            return flash_attention_backward_sm90<decltype(t)>(p, room, call.processors,
                                                              call.stream);
        });
}
