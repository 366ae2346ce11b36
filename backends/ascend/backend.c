/* backend.c - the backend describes itself: one list of implementations, for a card and for the
 * model of one; a card has CANN's own product before it. */
#include <stdlib.h>

#include "indices.h"

#define KERNELS(family) extern ASCEND_KERNELS(family);
#define OPERATOR(op, takes) ASCEND_OPERATOR(op, takes);
#define OPERATOR_IF(op, takes) ASCEND_OPERATOR_IF(op, takes);
#include "ascend_operators.inc"
#undef KERNELS
#undef OPERATOR
#undef OPERATOR_IF

#define KERNELS(family)
#define OPERATOR(op, takes) TG_IMPL(op, "", 0, takes, NULL, ascend_##op),
#define OPERATOR_IF(op, takes) TG_IMPL(op, "", 0, takes, ascend_##op##_accepts, ascend_##op),
static const tg_impl model_impls[] = {
#include "ascend_operators.inc"
    TG_IMPLS_END,
};
static const tg_impl card_impls[] = {
    TG_IMPL(gemm, "aclnn", 0, TG_TAKES_FLOATS, ascend_gemm_aclnn_accepts, ascend_gemm_aclnn),
#include "ascend_operators.inc"
    TG_IMPLS_END,
};
#undef KERNELS
#undef OPERATOR
#undef OPERATOR_IF

static const char *const environment[] = {
    "TIGON_SOC",         "TIGON_ASCEND_MODEL", "TIGON_ASCEND_PROFILE",       "TIGON_ASCEND_TRACE",
    "TIGON_ASCEND_SEED", "TIGON_ASCEND_FACTS", "TIGON_ASCEND_RESERVED_UBUF", NULL};

/* What the kernels keep in UB, family by family. */
static const tg_ub_kernel *ub_kernel(int kernel)
{
    static const tg_ub_kernel *const families[] = {
#define KERNELS(family) ascend_ub_##family,
#define OPERATOR(op, takes)
#define OPERATOR_IF(op, takes)
#include "ascend_operators.inc"
#undef KERNELS
#undef OPERATOR
#undef OPERATOR_IF
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

/* The context works on the card that is the calling thread's now. */
static tg_status select_card(tg_ctx *ctx)
{
    ascend_state *state = ascend_state_of(ctx);
    if (!state)
        return TG_ENOMEM;
    ASCEND_TRY(ascend_card_take(&state->card));
    return ascend_indices_begin(ctx, state);
}

static int32_t card_of(tg_ctx *ctx)
{
    return ascend_state_of(ctx)->card; /* it is there since the context has chosen the card */
}

static void close_card(void)
{
    if (ascend_card.info())
        ascend_card.close();
}

static void *alloc_on_card(tg_ctx *ctx, size_t bytes)
{
    return ascend_card_alloc(card_of(ctx), bytes);
}

static void free_on_card(tg_ctx *ctx, void *memory)
{
    ascend_card_sync(card_of(ctx), ascend_host->stream(ctx)); /* it may be in use */
    ascend_card_free(card_of(ctx), memory);
}

static tg_status copy_on_card(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                              int src_device_type, size_t bytes)
{
    return ascend_card_copy(card_of(ctx), dst, dst_device_type, src, src_device_type, bytes,
                            ascend_host->stream(ctx));
}

static tg_status sync_card(tg_ctx *ctx)
{
    ASCEND_TRY(ascend_card_sync(card_of(ctx), ascend_host->stream(ctx)));
    return ascend_indices_told(ctx, ascend_state_of(ctx));
}

static void leave(tg_ctx *ctx, void *kept)
{
    (void)ctx;
    ascend_indices_end(kept);
    free(((ascend_state *)kept)->side);
    free(kept);
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
    .impls = card_impls,
    .environment = environment,
    .ub_kernel = ub_kernel,
    .side = ascend_side,
    .leave = leave,
};

ascend_state *ascend_state_of(tg_ctx *ctx)
{
    void **const slot = ascend_host->slot(ctx, &card);
    if (!*slot)
        *slot = calloc(1, sizeof(ascend_state));
    if (!*slot)
        ascend_host->fail(TG_ENOMEM, "ascend: no memory for what is kept of a context");
    return *slot;
}

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
    .impls = model_impls,
    .environment = environment,
    .side = ascend_side,
};

TG_BUILT_IN_ENTRY(ascendmodel)
{
    return &model;
}
