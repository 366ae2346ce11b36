/* A backend for a device that does not exist, with memory of its own (as in tests/core), whose one
 * implementation is as exact as the unfused one and no more: it is that one. */
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>
#include <tigon/registry.h>

static const uintptr_t moved = (uintptr_t)1 << 60;

static void *host_of(const void *p, int device_type)
{
    return device_type == TG_DEVICE_ONEAPI ? (void *)((uintptr_t)p - moved) : (void *)p;
}

static void *far_alloc(tg_ctx *ctx, size_t bytes)
{
    (void)ctx;
    void *p = malloc(bytes);
    return p ? (void *)((uintptr_t)p + moved) : NULL;
}

static void far_free(tg_ctx *ctx, void *p)
{
    (void)ctx;
    free(host_of(p, TG_DEVICE_ONEAPI));
}

static tg_status far_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                          int src_device_type, size_t bytes)
{
    (void)ctx;
    memcpy(host_of(dst, dst_device_type), host_of(src, src_device_type), bytes);
    return TG_OK;
}

static tg_tensor near_of(const tg_tensor *t)
{
    tg_tensor near = *t;
    near.data = host_of(t->data, t->device.device_type);
    near.device.device_type = TG_DEVICE_CPU;
    return near;
}

static tg_status as_unfused(tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    tg_fused_neighborhood_attention_backward_args a = *args;
    tg_tensor t[] = {near_of(a.dy),  near_of(a.q),  near_of(a.k),  near_of(a.v),
                     near_of(a.lse), near_of(a.dq), near_of(a.dk), near_of(a.dv)};
    tg_ctx *cpu;
    (void)ctx;
    if (tg_ctx_create(&cpu))
        return TG_ENOMEM;
    a.dy = &t[0], a.q = &t[1], a.k = &t[2], a.v = &t[3];
    a.lse = &t[4], a.dq = &t[5], a.dk = &t[6], a.dv = &t[7];
    tg_status status = tg_ctx_set_device(cpu, "cpu");
    if (!status)
        status =
            tg_impl_run(cpu, tg_find(cpu, "unfused/fused_neighborhood_attention_backward"), &a);
    tg_ctx_destroy(cpu);
    return status;
}

/* Of the cases that the test draws, one has NaN in the unfused one, and fewer heads. */
static int many_heads(const tg_fused_neighborhood_attention_backward_args *args)
{
    return args->q->shape[1] > 100;
}

static const tg_impl impls[] = {TG_IMPL(fused_neighborhood_attention_backward, NULL, 0,
                                        TG_TAKES_FLOATS, many_heads, as_unfused),
                                TG_IMPLS_END};

static const tg_backend faraway = {.abi = TG_ABI,
                                   .size = sizeof faraway,
                                   .vendor = "faraway",
                                   .device = "xpu",
                                   .device_type = TG_DEVICE_ONEAPI,
                                   .alloc = far_alloc,
                                   .free = far_free,
                                   .copy = far_copy,
                                   .impls = impls};

TG_BACKEND_ENTRY
{
    return &faraway;
}
