/* Every call: resolve its options, check, choose an implementation, run it. */
#include <string.h>

#include "core/core.h"
#include "core/parts.h"

static inline tg_status check(int op, const void *args, int *device_type)
{
    TG_TRY(tg_check_schema(op, args, device_type));
    TG_TRY(tg_check_types(op, args));
    TG_TRY(tg_check_shapes(op, args));
    return tg_family_checks[op] ? tg_family_checks[op](args) : TG_OK;
}

static const tg_tensor *main_tensor(int op, const void *args)
{
    const tg_tensor *const *slots = args;
    return slots[tg_op_tensors(op)->main];
}

/* The type T of a problem, as a bit. */
static uint64_t takes_bit(int op, const void *args)
{
    return UINT64_C(1) << tg_el(tg_call_type(tg_op_tensors(op), args));
}

/* The operating system is asked for matrix units only when a call would use them: with them signals
 * take more of a stack. */
static int accepts(const reg_impl *impl, const void *args)
{
    return (impl->impl.takes & takes_bit(impl->op, args)) &&
           (!impl->impl.accepts.any || tg_op_calls[impl->op].accepts(&impl->impl, args)) &&
           (!(impl->impl.needs & TG_CPU_AMX) || tg_cpu_permit_tiles());
}

/* Plans what an implementation would see of arguments as a caller gives them. 0: it does not take
 * them, or they cannot be converted. */
static int plan_for(const tg_ctx *ctx, const reg_impl *impl, const void *args, conversions *c)
{
    tg_plan_conversions(c, impl->op, args, !(impl->impl.takes & TG_TAKES_PLANES));
    return (c->count == 0 || tg_can_convert(ctx, impl->op, args)) && accepts(impl, c->slots);
}

/* A message from within a call begins with the operator that was called, also if it comes from a
 * part or from the workspace. */
static __attribute__((noinline)) tg_status say_who(const reg_impl *impl, tg_status status)
{
    const char *name = tg_ops[impl->op].name, *message = tg_last_error();
    const size_t length = strlen(name);
    if (strncmp(message, name, length) == 0 && message[length] == ':')
        return status;
    return tg_fail(status, "%s: %s", name, message);
}

static inline tg_status run_impl(tg_ctx *ctx, const reg_impl *impl, const void *args)
{
    const uint64_t mark = ctx->taken;
    if (!TG_LIKELY(!ctx->side.open) && impl->backend != ctx->backend)
        TG_TRY(tg_side_in_order(ctx));
    ctx->depth++;
    const tg_status status = tg_op_calls[impl->op].run(&impl->impl, ctx, args);
    if (!TG_LIKELY(!ctx->side.depth))
        tg_side_left(ctx);
    if (ctx->taken != mark)
        tg_workspace_release(ctx, mark);
    if (--ctx->depth == 0) {
        ctx->last_impl = impl;
        if (!TG_LIKELY(status == TG_OK) && status != TG_EUNSUPPORTED)
            return say_who(impl, status);
    }
    return status;
}

static __attribute__((noinline)) tg_status run_and_log(tg_ctx *ctx, const reg_impl *impl,
                                                       const void *args)
{
    const double start = tg_host_seconds();
    const tg_status status = run_impl(ctx, impl, args);
    tg_log_call(ctx, impl, args, tg_host_seconds() - start, status);
    return status;
}

static inline tg_status run(tg_ctx *ctx, const reg_impl *impl, const void *args)
{
    return TG_LIKELY(!ctx->verbose) ? run_impl(ctx, impl, args) : run_and_log(ctx, impl, args);
}

/* ---- reserving: see parts.h ---- */

void tg_reserve(tg_ctx *ctx)
{
    ctx->reserving++;
}

void tg_reserved(tg_ctx *ctx)
{
    ctx->reserving--;
}

int tg_reserving(const tg_ctx *ctx)
{
    return ctx->reserving;
}

int tg_is_part(const tg_ctx *ctx)
{
    return ctx->depth > 1;
}

static __attribute__((noinline)) tg_status reserve(tg_ctx *ctx, const reg_impl *impl,
                                                   const void *args)
{
    const int is_default = strcmp(impl->info.backend, "cpu") == 0;
    return is_default ? run_impl(ctx, impl, args) : TG_OK;
}

static inline tg_status run_or_reserve(tg_ctx *ctx, const reg_impl *impl, const void *args)
{
    return TG_LIKELY(!ctx->reserving) ? run(ctx, impl, args) : reserve(ctx, impl, args);
}

/* ---- the default, for implementations that pass on what they do not take ---- */

tg_status tg_run_default(tg_ctx *ctx, int op, const void *args)
{
    static const char *const vendors[] = {"cpu", "ref"};
    for (int k = 0; k < 2; k++) {
        const int backend = tg_registry_backend_by_vendor(vendors[k]);
        const reg_impl *impl;
        for (int i = 0; (impl = tg_registry_impl(i)); i++) {
            if (impl->backend != backend || impl->op != op || !tg_impl_supported(ctx, i) ||
                !accepts(impl, args))
                continue;
            const tg_status status = tg_op_calls[op].run(&impl->impl, ctx, args);
            if (status != TG_EUNSUPPORTED)
                return status;
        }
    }
    return tg_fail(TG_EUNSUPPORTED, "%s: no default implementation runs this problem",
                   tg_ops[op].name);
}

static inline tg_status run_first(tg_ctx *ctx, const route *r, const void *args)
{
    for (int i = 0; i < r->count; i++) {
        if (!accepts(r->impls[i], args))
            continue;
        const tg_status status = run_or_reserve(ctx, r->impls[i], args);
        if (status != TG_EUNSUPPORTED)
            return status;
    }
    return TG_EUNSUPPORTED;
}

/* What is to be converted is, for one implementation after the other. */
static tg_status run_converted(tg_ctx *ctx, const reg_impl *const *impls, int count,
                               const void *args)
{
    tg_status status = TG_EUNSUPPORTED;
    if (ctx->side.open)
        TG_TRY(tg_side_in_order(ctx));
    for (int i = 0; i < count && status == TG_EUNSUPPORTED; i++) {
        const uint64_t mark = ctx->taken;
        conversions c;
        if (!plan_for(ctx, impls[i], args, &c))
            continue;
        status = tg_convert(ctx, &c);
        status =
            status == TG_OK ? run_or_reserve(ctx, impls[i], c.slots) : say_who(impls[i], status);
        if (status == TG_OK && !ctx->reserving)
            status = tg_convert_back(ctx, &c);
        tg_workspace_release(ctx, mark);
    }
    return status;
}

tg_status tg_dispatch(tg_ctx *ctx, int op, const void *args)
{
    if (__builtin_expect(!ctx, 0))
        return tg_fail(TG_EINVAL, "%s: ctx is NULL, expected a context of tg_ctx_create",
                       tg_ops[op].name);
    int device_type;
    TG_TRY(check(op, args, &device_type));
    const int on_device = device_type != TG_DEVICE_CPU;
    tg_status status;
    if (on_device && device_type != ctx->device_type)
        return tg_fail(TG_EINVAL, "%s: the tensors lie on %s, the context's device is %s",
                       tg_ops[op].name, tg_device_words(device_type).text, ctx->device);
    const route *r = tg_ctx_route(ctx, op, on_device);
    if (TG_LIKELY(tg_is_canonical(op, args))) {
        status = run_first(ctx, r, args);
    } else {
        status = on_device ? tg_check_on_device(ctx, op, args, device_type) : TG_OK;
        if (status == TG_OK)
            status = run_converted(ctx, r->impls, r->count, args);
        else if (ctx->fallback != TG_FALLBACK_HOST)
            return status;
    }
    return TG_LIKELY(status != TG_EUNSUPPORTED) ? status : tg_no_impl(ctx, op, args, device_type);
}

tg_status tg_call_of(tg_ctx *ctx, int op, const void *args)
{
    uint64_t copy[MAX_ARGS];
    return tg_dispatch(ctx, op, tg_resolve_options(op, args, copy));
}

tg_status tg_call(tg_ctx *ctx, int op, const void *args)
{
    if (op < 0 || op >= TG_OP_COUNT)
        return tg_fail(TG_ENOTFOUND, "tg_call: there is no operator %d, expected 0 to %d", op,
                       TG_OP_COUNT - 1);
    return tg_call_of(ctx, op, args);
}

tg_status tg_check(int op, const void *args)
{
    if (op < 0 || op >= TG_OP_COUNT)
        return tg_fail(TG_ENOTFOUND, "tg_check: there is no operator %d, expected 0 to %d", op,
                       TG_OP_COUNT - 1);
    TG_TRY(tg_registry_open());
    int device_type;
    uint64_t copy[MAX_ARGS];
    return check(op, tg_resolve_options(op, args, copy), &device_type);
}

static int takes(const tg_ctx *ctx, const reg_impl *impl, const void *args)
{
    const int on_device = main_tensor(impl->op, args)->device.device_type != TG_DEVICE_CPU;
    conversions c;
    if (!tg_ctx_has_parts(ctx, impl, on_device))
        return 0;
    return tg_is_canonical(impl->op, args) ? accepts(impl, args) : plan_for(ctx, impl, args, &c);
}

int tg_impl_accepts(const tg_ctx *ctx, int impl, const void *args)
{
    const reg_impl *r = tg_registry_impl(impl);
    uint64_t copy[MAX_ARGS];
    return r && tg_impl_supported(ctx, impl) &&
           takes(ctx, r, tg_resolve_options(r->op, args, copy));
}

tg_status tg_impl_run(tg_ctx *ctx, int impl, const void *args)
{
    const reg_impl *r = tg_registry_impl(impl);
    if (!ctx)
        return tg_fail(TG_EINVAL, "tg_impl_run: ctx is NULL, expected a context of tg_ctx_create");
    if (!r)
        return tg_fail(TG_ENOTFOUND, "tg_impl_run: there is no implementation %d", impl);
    if (!tg_ctx_has_parts(ctx, r, 0) && !tg_ctx_has_parts(ctx, r, 1))
        return tg_fail(TG_EUNSUPPORTED, "%s: is made of operators that %s does not have",
                       r->info.full_name, ctx->device);
    if (!tg_fits_batch(ctx, r))
        return tg_fail(
            TG_EUNSUPPORTED, "%s: %s", r->info.full_name,
            ctx->batch_invariant
                ? "makes no promise that rows do not know their batch, which "
                  "TIGON_BATCH_INVARIANT or tg_ctx_set_batch_invariant asks for"
                : "runs under TIGON_BATCH_INVARIANT or tg_ctx_set_batch_invariant alone");
    if (!tg_impl_supported(ctx, impl))
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: needs %s, which this machine, or the ceiling that TIGON_CPU_MAX or "
                       "tg_ctx_set_cpu_max set, does not offer",
                       r->info.full_name, tg_cpu_needs(r->impl.needs));
    int device_type;
    uint64_t copy[MAX_ARGS];
    args = tg_resolve_options(r->op, args, copy);
    TG_TRY(check(r->op, args, &device_type));
    const int anywhere = (r->impl.takes & TG_TAKES_ANY_DEVICE) && device_type == ctx->device_type;
    if (device_type != tg_registry_backend(r->backend)->table.device_type && !anywhere)
        return tg_fail(TG_EINVAL,
                       "%s: the tensors lie on %s, the implementation takes memory of %s",
                       r->info.full_name, tg_device_words(device_type).text,
                       tg_device_words(tg_registry_backend(r->backend)->table.device_type).text);
    if (device_type != TG_DEVICE_CPU)
        TG_TRY(tg_check_on_device(ctx, r->op, args, device_type));
    if (!takes(ctx, r, args))
        return tg_fail(TG_EUNSUPPORTED, "%s does not accept this problem", r->info.full_name);
    return tg_is_canonical(r->op, args) ? run(ctx, r, args) : run_converted(ctx, &r, 1, args);
}
