/* src/core/calls.c - the typed functions of each operator, expanded from ops.def: its check, a call
 * of an implementation, of the default, and the public entry point. */
#include "core/core.h"

/* The checks of families, for what no schema says: checks.inc lists the operators that have one. */
#define TG_CHECK(op)                                     \
    tg_status tg_check_##op(const tg_##op##_args *args); \
    static tg_status check_##op(const void *args)        \
    {                                                    \
        return tg_check_##op(args);                      \
    }
#include "checks.inc"
#undef TG_CHECK

tg_status (*const tg_family_checks[TG_OP_COUNT])(const void *args) = {
#define TG_CHECK(op) [TG_OP_##op] = check_##op,
#include "checks.inc"
#undef TG_CHECK
};

#define TG_OP(op, fields)                                                         \
    static tg_status run_##op(const tg_impl *impl, tg_ctx *ctx, const void *args) \
    {                                                                             \
        return impl->run.op(ctx, args);                                           \
    }                                                                             \
    static int accepts_##op(const tg_impl *impl, const void *args)                \
    {                                                                             \
        return impl->accepts.op(args);                                            \
    }
#include "tigon/ops.def"
#undef TG_OP

const op_calls tg_op_calls[TG_OP_COUNT] = {
#define TG_OP(op, fields) {run_##op, accepts_##op},
#include "tigon/ops.def"
#undef TG_OP
};

#define TG_OP(op, fields)                                                  \
    static tg_status default_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                                      \
        return tg_run_default(ctx, TG_OP_##op, args);                      \
    }
#include "tigon/ops.def"
#undef TG_OP

void (*const tg_default_calls[TG_OP_COUNT])(void) = {
#define TG_OP(op, fields) (void (*)(void)) default_##op,
#include "tigon/ops.def"
#undef TG_OP
};

/* ---- the public entry points ---- */

#define TG_OP(op, fields)                                      \
    tg_status tg_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                          \
        return tg_call_of(ctx, TG_OP_##op, args);              \
    }
#include "tigon/ops.def"
#undef TG_OP
