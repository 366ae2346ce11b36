/* src/core/unsupported.c - what is said of a call that no implementation takes as it is. */
#include "core/core.h"

/* Core cannot read device memory. */
int tg_can_convert(const tg_ctx *ctx, int op, const void *args)
{
    const tg_tensor *const *slots = args;
    const tg_backend *memory = tg_ctx_memory(ctx);
    return slots[tg_op_tensors(op)->main]->device.device_type == TG_DEVICE_CPU ||
           (memory && memory->convert);
}

tg_status tg_no_impl(tg_ctx *ctx, int op, const void *args, int device_type)
{
    const impl_list *list = tg_ctx_list(ctx, op);
    const char *name = tg_ops[op].name;
    const int on_device = device_type != TG_DEVICE_CPU;
    if (on_device && ctx->fallback == TG_FALLBACK_HOST)
        return tg_run_on_host(ctx, op, args);
    if (ctx->batch_invariant)
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: no implementation on %s that runs this problem promises that rows do "
                       "not know their batch (TIGON_BATCH_INVARIANT, tg_ctx_set_batch_invariant)",
                       name, tg_device_words(device_type).text);
    if (list)
        return tg_fail(TG_EUNSUPPORTED, "%s: no implementation of %s (%s) runs this problem on %s",
                       name, list->words, list->who, tg_device_words(device_type).text);
    if (on_device)
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: no implementation of device %s runs this problem; TIGON_FALLBACK=host, or "
            "tg_ctx_set_fallback, would run it on the CPU",
            name, tg_device_words(device_type).text);
    return tg_fail(TG_EUNSUPPORTED,
                   "%s: strict (TIGON_STRICT, tg_ctx_set_strict), and no implementation of device "
                   "%s runs this problem",
                   name, ctx->device);
}

tg_status tg_check_on_device(const tg_ctx *ctx, int op, const void *args, int device_type)
{
    conversions c;
    if (tg_can_convert(ctx, op, args))
        return TG_OK;
    tg_plan_conversions(&c, op, args, 0);
    if (c.count == 0)
        return TG_OK;
    const conversion *x = c.at;
    const tg_arg_info *arg = &tg_ops[op].args[x->slot->slot];
    if (tg_type_of(x->given) != tg_type_of(&x->seen))
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: %s is of type %s in memory of %s, expected %s: its backend converts no others",
            tg_ops[op].name, arg->name, tg_type_name(tg_type_of(x->given)),
            tg_device_words(device_type).text, tg_type_name(tg_type_of(&x->seen)));
    return tg_fail(
        TG_EUNSUPPORTED,
        "%s: the strides of %s are not of the layout \"%s\" in memory of %s: its backend "
        "copies no others",
        tg_ops[op].name, arg->name, tg_arg_layout_name(arg->layout),
        tg_device_words(device_type).text);
}
