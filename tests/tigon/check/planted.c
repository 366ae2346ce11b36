/* planted.c - a backend for all operators whose implementations are the library's own, with the
 * fault planted that the variable PLANTED names; without it they are right. tigon check --strict
 * must refuse each fault and name its kind.
 * PLANTED=list prints all: fault, kind, operator, type.
 */
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>

static const tg_host *host;
static const fault *planted;

static tg_status run_planted(tg_ctx *ctx, tg_op_id op, const void *args)
{
    call c = {.ctx = ctx, .op = tg_op_at((int)op)};
    c.run = (tg_status(*)(tg_ctx *, const void *))host->default_of(ctx, c.op->name);
    memcpy(c.slot, args, (size_t)c.op->nargs * sizeof *c.slot);
    return planted ? planted->run(&c) : right(&c);
}

#define TG_OP(op, fields)                                              \
    static tg_status run_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                                  \
        return run_planted(ctx, TG_OP_##op, args);                     \
    }
#include <tigon/ops.def>
#undef TG_OP

static const tg_impl impls[] = {
#define TG_OP(op, fields) TG_IMPL(op, "", 0, TG_TAKES_FLOATS, NULL, run_##op),
#include <tigon/ops.def>
#undef TG_OP
    TG_IMPLS_END};

static tg_status open_planted(const tg_host *h)
{
    static const fault *const tables[] = {faults_of_values, faults_of_memory, faults_of_state,
                                          faults_of_process};
    const char *name = getenv("PLANTED");
    const int list = name && !strcmp(name, "list");
    host = h;
    for (int t = 0; t < 4; t++)
        for (const fault *f = tables[t]; f->name; f++) {
            if (list)
                printf("%s %s %s\n", f->name, f->kind,
                       f->where ? f->where : "rms_norm_forward f32");
            if (name && !strcmp(f->name, name))
                planted = f;
        }
    if (name && *name && !planted && !list)
        return h->fail(TG_EINVAL, "there is no fault \"%s\"", name);
    return TG_OK;
}

TG_BACKEND_ENTRY
{
    static const tg_backend backend = {
        .abi = TG_ABI,
        .size = sizeof(tg_backend),
        .vendor = "planted",
        .device = "cpu",
        .device_type = TG_DEVICE_CPU,
        .open = open_planted,
        .impls = impls,
    };
    return &backend;
}
