/* toy_reference.c - with TOY_REFERENCE=1 the other operators that a Llama needs: the device's thread runs the library's reference, which
 * takes what it sees for memory of the host. */
#include <stdio.h>

#include "toy.h"

static tg_ctx *host_context(void)
{
    static tg_ctx *ctx; /* of the device's thread */
    if (!ctx && (tg_ctx_create(&ctx) != TG_OK || tg_ctx_set_device(ctx, "cpu") != TG_OK))
        ctx = NULL;
    return ctx;
}

static void by_reference(toy_call *call)
{
    char name[64];
    tg_ctx *ctx = host_context();
    snprintf(name, sizeof name, "ref/%s", call->op);
    for (int i = 0; i < TOY_TENSORS; i++)
        call->tensor[i].device.device_type = TG_DEVICE_CPU;
    if (!ctx || tg_impl_run(ctx, tg_find(ctx, name), call->slot) != TG_OK)
        toy_fault(call, TG_EDEVICE, "toy: %s", tg_last_error());
}

#define OPERATORS(X)               \
    X(rope_forward)                \
    X(rope_backward)               \
    X(swiglu_forward)              \
    X(swiglu_backward)             \
    X(flash_attention_forward)     \
    X(flash_attention_backward)    \
    X(fused_add_rms_norm_forward)  \
    X(fused_add_rms_norm_backward) \
    X(adamw)

#define FUNCTION(op) TOY_FUNCTION(op, by_reference, 0)
OPERATORS(FUNCTION)

#define IMPL(op) TG_IMPL(op, "", 0, TG_TAKES_FLOATS, NULL, toy_##op),
const tg_impl toy_reference_impls[] = {OPERATORS(IMPL) TG_IMPLS_END};
