/* Every call: resolve its options, check, choose a row, run it. The typed parts are expanded from ops.def. */
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "core/parts.h"

#define TG_OP(op, fields)                                                               \
    tg_status tg_check_##op(const tg_##op##_args *args); /* in the operator's family */ \
    static tg_status check_##op(const void *args)                                       \
    {                                                                                   \
        return tg_check_##op(args);                                                     \
    }                                                                                   \
    static tg_status run_##op(const tg_row *row, tg_ctx *ctx, const void *args)         \
    {                                                                                   \
        return row->run.op(ctx, args);                                                  \
    }                                                                                   \
    static int accepts_##op(const tg_row *row, const void *args)                        \
    {                                                                                   \
        return row->accepts.op(args);                                                   \
    }
#include "tigon/ops.def"
#undef TG_OP

const op_calls tg_op_calls[TG_OP_COUNT] = {
#define TG_OP(op, fields) {check_##op, run_##op, accepts_##op},
#include "tigon/ops.def"
#undef TG_OP
};

tg_status tg_check_all(int op, const void *args, int *device_type)
{
    TG_TRY(tg_check_schema(op, args, device_type));
    TG_TRY(tg_check_types(op, args));
    if (TG_LIKELY(tg_is_canonical(op, args)))
        return tg_op_calls[op].check(args);
    conversions c;
    tg_plan_conversions(&c, op, args, 0);
    return tg_check_converted(&c);
}

static int accepts(const reg_row *row, const void *args)
{
    return !row->row.accepts.any || tg_op_calls[row->op].accepts(&row->row, args);
}

static int lies_on_device(int op, const void *args)
{
    const tg_tensor *const *slots = args;
    return slots[tg_op_tensors(op)->main]->device.device_type != TG_DEVICE_CPU;
}

/* Plans what a row would see of arguments as a caller gives them: as little as can be is converted. A row that takes
 * all problems knows nothing of rows of two strides. 0: it does not take them. */
static int plan_for(const reg_row *row, const void *args, conversions *c)
{
    const int most = !lies_on_device(row->op, args);
    for (int even = !row->row.accepts.any; even <= most; even++) {
        tg_plan_conversions(c, row->op, args, even);
        if (accepts(row, c->slots))
            return 1;
    }
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A message from within a call begins with the operator that was called, also if it comes from a part
 * or from the workspace. */
static __attribute__((noinline)) tg_status say_who(const reg_row *row, tg_status status)
{
    const char *name = tg_ops[row->op].name, *message = tg_last_error();
    const size_t length = strlen(name);
    if (strncmp(message, name, length) == 0 && message[length] == ':')
        return status;
    return tg_fail(status, "%s: %s", name, message);
}

static inline tg_status run_row(tg_ctx *ctx, const reg_row *row, const void *args)
{
    const uint64_t mark = ctx->taken;
    ctx->depth++;
    const tg_status status = tg_op_calls[row->op].run(&row->row, ctx, args);
    if (ctx->taken != mark)
        tg_workspace_release(ctx, mark);
    if (--ctx->depth == 0) {
        ctx->last_row = row;
        if (!TG_LIKELY(status == TG_OK) && status != TG_EUNSUPPORTED)
            return say_who(row, status);
    }
    return status;
}

static __attribute__((noinline)) tg_status run_and_log(tg_ctx *ctx, const reg_row *row,
                                                       const void *args)
{
    const double start = seconds();
    const tg_status status = run_row(ctx, row, args);
    tg_log_call(ctx, row, args, seconds() - start, status);
    return status;
}

static inline tg_status run(tg_ctx *ctx, const reg_row *row, const void *args)
{
    return TG_LIKELY(!ctx->verbose) ? run_row(ctx, row, args) : run_and_log(ctx, row, args);
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

static __attribute__((noinline)) tg_status reserve(tg_ctx *ctx, const reg_row *row,
                                                   const void *args)
{
    const int is_default = strcmp(row->info.backend, "cpu") == 0;
    return is_default ? run_row(ctx, row, args) : TG_OK;
}

/* Nothing ran. */
static __attribute__((noinline)) tg_status no_row(tg_ctx *ctx, int op, const void *args,
                                                  int device_type)
{
    const impl_list *list = tg_ctx_list(ctx, op);
    const char *name = tg_ops[op].name;
    const int on_device = device_type != TG_DEVICE_CPU;
    if (on_device && ctx->fallback == TG_FALLBACK_HOST)
        return tg_run_on_host(ctx, op, args);
    if (list)
        return tg_fail(TG_EUNSUPPORTED, "%s: no row of %s (%s) runs this problem on %s", name,
                       list->words, list->who, tg_device_words(device_type).text);
    if (on_device)
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: no row of device %s runs this problem; TIGON_FALLBACK=host, or "
                       "tg_ctx_set_fallback, would run it on the CPU",
                       name, tg_device_words(device_type).text);
    return tg_fail(
        TG_EUNSUPPORTED,
        "%s: strict (TIGON_STRICT, tg_ctx_set_strict), and no row of device %s runs this problem",
        name, ctx->device);
}

static inline tg_status run_or_reserve(tg_ctx *ctx, const reg_row *row, const void *args)
{
    return TG_LIKELY(!ctx->reserving) ? run(ctx, row, args) : reserve(ctx, row, args);
}

/* ---- the default, for rows that pass on what they do not take ---- */

static tg_status run_default(tg_ctx *ctx, int op, const void *args)
{
    static const char *const vendors[] = {"cpu", "ref"};
    for (int k = 0; k < 2; k++) {
        const int backend = tg_registry_backend_by_vendor(vendors[k]);
        const reg_row *row;
        for (int i = 0; (row = tg_registry_row(i)); i++) {
            if (row->backend != backend || row->op != op || !tg_row_supported(ctx, i) ||
                !accepts(row, args))
                continue;
            const tg_status status = tg_op_calls[op].run(&row->row, ctx, args);
            if (status != TG_EUNSUPPORTED)
                return status;
        }
    }
    return tg_fail(TG_EUNSUPPORTED, "%s: no default row runs this problem", tg_ops[op].name);
}

#define TG_OP(op, fields)                                                  \
    static tg_status default_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                                      \
        return run_default(ctx, TG_OP_##op, args);                         \
    }
#include "tigon/ops.def"
#undef TG_OP

void (*const tg_default_calls[TG_OP_COUNT])(void) = {
#define TG_OP(op, fields) (void (*)(void)) default_##op,
#include "tigon/ops.def"
#undef TG_OP
};

static inline tg_status run_first(tg_ctx *ctx, const route *r, const void *args)
{
    for (int i = 0; i < r->count; i++) {
        if (!accepts(r->rows[i], args))
            continue;
        const tg_status status = run_or_reserve(ctx, r->rows[i], args);
        if (status != TG_EUNSUPPORTED)
            return status;
    }
    return TG_EUNSUPPORTED;
}

/* What is to be converted is, for one row after the other. */
static tg_status run_converted(tg_ctx *ctx, const reg_row *const *rows, int count, const void *args)
{
    tg_status status = TG_EUNSUPPORTED;
    for (int i = 0; i < count && status == TG_EUNSUPPORTED; i++) {
        const uint64_t mark = ctx->taken;
        conversions c;
        if (!plan_for(rows[i], args, &c))
            continue;
        status = tg_convert(ctx, &c);
        status = status == TG_OK ? run_or_reserve(ctx, rows[i], c.slots) : say_who(rows[i], status);
        if (status == TG_OK && !ctx->reserving)
            tg_convert_back(ctx, &c);
        tg_workspace_release(ctx, mark);
    }
    return status;
}

/* Core cannot read device memory: what it would have to convert there is refused. */
static tg_status check_on_device(int op, const void *args, int device_type)
{
    conversions c;
    tg_plan_conversions(&c, op, args, 0);
    if (c.count == 0)
        return TG_OK;
    const conversion *x = c.at;
    const tg_arg_info *arg = &tg_ops[op].args[x->slot->slot];
    if (tg_type_of(x->given) != tg_type_of(&x->seen))
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: %s is of type %s in memory of %s, expected %s: other types are converted "
            "in host memory alone",
            tg_ops[op].name, arg->name, tg_type_name(tg_type_of(x->given)),
            tg_device_words(device_type).text, tg_type_name(tg_type_of(&x->seen)));
    return tg_fail(TG_EUNSUPPORTED,
                   "%s: the strides of %s are not of the layout \"%s\" in memory of %s: others are "
                   "copied in host memory alone",
                   tg_ops[op].name, arg->name, tg_arg_layout_name(arg->layout),
                   tg_device_words(device_type).text);
}

tg_status tg_dispatch(tg_ctx *ctx, int op, const void *args)
{
    if (__builtin_expect(!ctx, 0))
        return tg_fail(TG_EINVAL, "%s: ctx is NULL, expected a context of tg_ctx_create",
                       tg_ops[op].name);
    forms *const known = &ctx->forms[op];
    TG_TRY(tg_check_call(known, op, args));
    const int device_type = known->device_type, on_device = device_type != TG_DEVICE_CPU;
    tg_status status;
    if (on_device && device_type != ctx->device_type)
        return tg_fail(TG_EINVAL, "%s: the tensors lie on %s, the context's device is %s",
                       tg_ops[op].name, tg_device_words(device_type).text, ctx->device);
    const route *r = tg_ctx_route(ctx, op, on_device);
    if (TG_LIKELY(known->canonical)) {
        status = run_first(ctx, r, args);
    } else {
        status = on_device ? check_on_device(op, args, device_type) : TG_OK;
        if (status == TG_OK)
            status = run_converted(ctx, r->rows, r->count, args);
        else if (ctx->fallback != TG_FALLBACK_HOST)
            return status;
    }
    return TG_LIKELY(status != TG_EUNSUPPORTED) ? status : no_row(ctx, op, args, device_type);
}

static inline tg_status call(tg_ctx *ctx, int op, const void *args)
{
    uint64_t copy[MAX_ARGS];
    return tg_dispatch(ctx, op, tg_resolve_options(op, args, copy));
}

tg_status tg_call(tg_ctx *ctx, int op, const void *args)
{
    if (op < 0 || op >= TG_OP_COUNT)
        return tg_fail(TG_ENOTFOUND, "tg_call: there is no operator %d, expected 0 to %d", op,
                       TG_OP_COUNT - 1);
    return call(ctx, op, args);
}

tg_status tg_check(int op, const void *args)
{
    if (op < 0 || op >= TG_OP_COUNT)
        return tg_fail(TG_ENOTFOUND, "tg_check: there is no operator %d, expected 0 to %d", op,
                       TG_OP_COUNT - 1);
    TG_TRY(tg_registry_open());
    int device_type;
    uint64_t copy[MAX_ARGS];
    return tg_check_all(op, tg_resolve_options(op, args, copy), &device_type);
}

static int takes(const reg_row *row, const void *args)
{
    conversions c;
    return tg_is_canonical(row->op, args) ? accepts(row, args) : plan_for(row, args, &c);
}

int tg_row_accepts(const tg_ctx *ctx, int row, const void *args)
{
    const reg_row *r = tg_registry_row(row);
    uint64_t copy[MAX_ARGS];
    return r && tg_row_supported(ctx, row) && takes(r, tg_resolve_options(r->op, args, copy));
}

tg_status tg_row_run(tg_ctx *ctx, int row, const void *args)
{
    const reg_row *r = tg_registry_row(row);
    if (!ctx)
        return tg_fail(TG_EINVAL, "tg_row_run: ctx is NULL, expected a context of tg_ctx_create");
    if (!r)
        return tg_fail(TG_ENOTFOUND, "tg_row_run: there is no row %d", row);
    if (!tg_row_supported(ctx, row))
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: needs %s, which this machine, or the ceiling that TIGON_CPU_MAX or "
                       "tg_ctx_set_cpu_max set, does not offer",
                       r->info.full_name, tg_cpu_needs(r->row.needs));
    int device_type;
    uint64_t copy[MAX_ARGS];
    args = tg_resolve_options(r->op, args, copy);
    TG_TRY(tg_check_all(r->op, args, &device_type));
    if (device_type != tg_registry_backend(r->backend)->table.device_type)
        return tg_fail(TG_EINVAL, "%s: the tensors lie on %s, the row takes memory of %s",
                       r->info.full_name, tg_device_words(device_type).text,
                       tg_device_words(tg_registry_backend(r->backend)->table.device_type).text);
    if (device_type != TG_DEVICE_CPU)
        TG_TRY(check_on_device(r->op, args, device_type));
    if (!takes(r, args))
        return tg_fail(TG_EUNSUPPORTED, "%s does not accept this problem", r->info.full_name);
    return tg_is_canonical(r->op, args) ? run(ctx, r, args) : run_converted(ctx, &r, 1, args);
}

/* ---- the public entry points ---- */

#define TG_OP(op, fields)                                      \
    tg_status tg_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                          \
        return call(ctx, TG_OP_##op, args);                    \
    }
#include "tigon/ops.def"
#undef TG_OP
