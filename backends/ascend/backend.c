/* backend.c - the backend describes itself: one table of implementations, for a card and for the model of one. */
#include "ascend.h"

static const tg_impl impls[] = {
    TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_rms_norm_forward),
    TG_IMPL(rms_norm_backward, "", 0, TG_TAKES_FLOATS, NULL, ascend_rms_norm_backward),
    TG_IMPL(fused_add_rms_norm_forward, "", 0, TG_TAKES_FLOATS, NULL,
            ascend_fused_add_rms_norm_forward),
    TG_IMPL(fused_add_rms_norm_backward, "", 0, TG_TAKES_FLOATS, NULL,
            ascend_fused_add_rms_norm_backward),
    TG_IMPL(swiglu_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_swiglu_forward),
    TG_IMPL(swiglu_backward, "", 0, TG_TAKES_FLOATS, NULL, ascend_swiglu_backward),
    TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_softmax_forward),
    TG_IMPL(softmax_backward, "", 0, TG_TAKES_FLOATS, NULL, ascend_softmax_backward),
    TG_IMPL(cross_entropy_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_cross_entropy_forward),
    TG_IMPL(cross_entropy_backward, "", 0, TG_TAKES_FLOATS, NULL, ascend_cross_entropy_backward),
    TG_IMPL(geglu_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_geglu_forward),
    TG_IMPL(geglu_backward, "", 0, TG_TAKES_FLOATS, NULL, ascend_geglu_backward),
    TG_IMPL(embedding_forward, "", 0, TG_TAKES_FLOATS, NULL, ascend_embedding_forward),
    TG_IMPL(embedding_backward, "", 0, TG_TAKES_FLOATS, ascend_embedding_backward_accepts,
            ascend_embedding_backward),
    TG_IMPLS_END,
};

static const char *const environment[] = {"TIGON_SOC",
                                          "TIGON_ASCEND_MODEL",
                                          "TIGON_ASCEND_PROFILE",
                                          "TIGON_ASCEND_TRACE",
                                          "TIGON_ASCEND_SEED",
                                          "TIGON_ASCEND_RESERVED_UBUF",
                                          NULL};

/* What the kernels keep in UB, family by family. */
static const tg_ub_kernel *ub_kernel(int kernel)
{
    static const tg_ub_kernel *const families[] = {
        ascend_ub_partials, ascend_ub_rms_norm,  ascend_ub_rms_norm_backward,
        ascend_ub_swiglu,   ascend_ub_softmax,   ascend_ub_cross_entropy,
        ascend_ub_geglu,    ascend_ub_embedding,
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const tg_ub_kernel *k = families[f]; k->name; k++)
            if (kernel-- == 0)
                return k;
    return NULL;
}

static tg_status open_backend(const tg_host *host)
{
    ascend_host = host;
    return TG_OK;
}

/* ---- the card: device npu ---- */

static tg_status select_card(tg_ctx *ctx)
{
    (void)ctx;
    return ascend_card.open();
}

static void close_card(void)
{
    if (ascend_card.info())
        ascend_card.close();
}

static void *alloc_on_card(tg_ctx *ctx, size_t bytes)
{
    (void)ctx;
    return ascend_card_alloc(bytes);
}

static void free_on_card(tg_ctx *ctx, void *memory)
{
    ascend_card_sync(ascend_host->stream(ctx)); /* it may be in use */
    ascend_card_free(memory);
}

static tg_status copy_on_card(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                              int src_device_type, size_t bytes)
{
    return ascend_card_copy(dst, dst_device_type, src, src_device_type, bytes,
                            ascend_host->stream(ctx));
}

static tg_status sync_card(tg_ctx *ctx)
{
    return ascend_card_sync(ascend_host->stream(ctx));
}

static const tg_backend card = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "ascend",
    .device = "npu",
    .device_type = TG_DEVICE_ASCEND,
    .open = open_backend,
    .close = close_card,
    .select = select_card,
    .alloc = alloc_on_card,
    .free = free_on_card,
    .copy = copy_on_card,
    .sync = sync_card,
    .impls = impls,
    .environment = environment,
    .ub_kernel = ub_kernel,
};

TG_BUILT_IN_ENTRY(ascend)
{
    return &card;
}

/* ---- the model: device npu-model, on host memory ---- */

static tg_status select_model(tg_ctx *ctx)
{
    (void)ctx;
    return ascend_model.open();
}

static void close_model(void)
{
    if (ascend_model.info())
        ascend_model.close();
}

/* (The kernels are told of once, by the card.) */
static const tg_backend model = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "ascendmodel",
    .device = "npu-model",
    .device_type = TG_DEVICE_CPU,
    .open = open_backend,
    .close = close_model,
    .select = select_model,
    .impls = impls,
    .environment = environment,
};

TG_BUILT_IN_ENTRY(ascendmodel)
{
    return &model;
}
