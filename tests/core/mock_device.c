/* A backend for a device that does not exist: its memory is the host's, moved by a constant so that
 * a plain access would fail. It has one implementation; with the fallback policy `host` everything
 * else runs on the CPU. */
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>

static const uintptr_t moved = (uintptr_t)1 << 60;

static void *host_of(const void *p, int device_type)
{
    return device_type == TG_DEVICE_ASCEND ? (void *)((uintptr_t)p - moved) : (void *)p;
}

static void *mock_alloc(tg_ctx *ctx, size_t bytes)
{
    (void)ctx;
    void *p = malloc(bytes);
    return p ? (void *)((uintptr_t)p + moved) : NULL;
}

static void mock_free(tg_ctx *ctx, void *p)
{
    (void)ctx;
    free(host_of(p, TG_DEVICE_ASCEND));
}

static tg_status mock_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                           int src_device_type, size_t bytes)
{
    (void)ctx;
    memcpy(host_of(dst, dst_device_type), host_of(src, src_device_type), bytes);
    return TG_OK;
}

/* y = x: enough to be told from the real one */
static tg_status copy_row(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    return mock_copy(ctx, args->y->data, TG_DEVICE_ASCEND, args->x->data, TG_DEVICE_ASCEND,
                     (size_t)tg_numel(args->x) * tg_type_size(tg_type_of(args->x)));
}

static const tg_impl impls[] = {
    TG_IMPL(softmax_forward, "copy", 0, TG_TAKES_FLOATS, NULL, copy_row), TG_IMPLS_END};

static const tg_backend mock = {.abi = TG_ABI,
                                .size = sizeof mock,
                                .vendor = "mock",
                                .device = "npu",
                                .device_type = TG_DEVICE_ASCEND,
                                .alloc = mock_alloc,
                                .free = mock_free,
                                .copy = mock_copy,
                                .impls = impls};

TG_BACKEND_ENTRY
{
    return &mock;
}
