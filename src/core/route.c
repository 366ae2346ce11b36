/* Which implementations a call tries, and in which order: by the lists that a context was given,
 * or by its device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* ---- lists of implementations ---- */

/* Calls visit for each word of a list; stops at the first that is not TG_OK. */
static tg_status each_word(const char *list, tg_status (*visit)(const char *word, void *arg),
                           void *arg)
{
    while (*list) {
        char word[128];
        const size_t length = strcspn(list, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
        char *start = word + strspn(word, " ");
        start[strcspn(start, " ")] = '\0';
        if (*start)
            TG_TRY(visit(start, arg));
    }
    return TG_OK;
}

typedef struct list_check {
    const char *who; /* a variable of the environment or a function */
    int op;          /* implementations of this operator may be named; -1: none */
} list_check;

static tg_status check_word(const char *word, void *arg)
{
    const list_check *c = arg;
    const reg_impl *impl;
    TG_TRY(tg_registry_bring_vendor(word));
    if (tg_registry_backend_by_vendor(word) >= 0)
        return TG_OK;
    for (int i = 0; c->op >= 0 && (impl = tg_registry_impl(i)); i++)
        if (impl->op == c->op && strcmp(impl->info.full_name, word) == 0)
            return TG_OK;
    char known[256];
    tg_registry_vendors(known, sizeof known);
    return tg_fail(TG_ENOTFOUND, "%s: there is no backend%s %s, expected some of %s", c->who,
                   c->op >= 0 ? " or implementation of this operator" : "", word, known);
}

tg_status tg_ctx_use_list(tg_ctx *ctx, int op, const char *list, const char *who)
{
    impl_list *to = op >= 0 ? &ctx->op_impl[op] : &ctx->impl;
    impl_list copy = {0};
    if (list && *list) {
        list_check c = {who, op};
        TG_TRY(each_word(list, check_word, &c));
        copy.words = strdup(list);
        if (!copy.words)
            return tg_fail(TG_ENOMEM, "%s: no memory", who);
        snprintf(copy.who, sizeof copy.who, "%s", who);
    }
    free(to->words);
    *to = copy;
    ctx->settings++;
    return TG_OK;
}

tg_status tg_ctx_set_impl(tg_ctx *ctx, const char *list)
{
    return tg_ctx_use_list(ctx, -1, list, __func__);
}

tg_status tg_ctx_set_op_impl(tg_ctx *ctx, const char *op, const char *list)
{
    const int id = tg_op_by_name(op);
    if (id < 0)
        return tg_fail(TG_ENOTFOUND, "%s: there is no operator %s", __func__, op ? op : "NULL");
    return tg_ctx_use_list(ctx, id, list, __func__);
}

const impl_list *tg_ctx_list(const tg_ctx *ctx, int op)
{
    const impl_list *list = ctx->op_impl[op].words ? &ctx->op_impl[op] : &ctx->impl;
    return list->words ? list : NULL;
}

/* ---- the implementations that a call tries ---- */

typedef struct route_build {
    tg_ctx *ctx;
    route *r;
    int op, on_device, device_type;
    int composed; /* of the CPU's, those alone that are made of calls of other operators */
} route_build;

int tg_ctx_has_parts(const tg_ctx *ctx, const reg_impl *impl, int on_device)
{
    tg_ctx *keeps = (tg_ctx *)(uintptr_t)ctx; /* routes, from the first question on */
    for (const char *const *call = impl->calls; call && *call; call++)
        if (tg_ctx_route(keeps, tg_op_by_name(*call), on_device)->count == 0)
            return 0;
    return 1;
}

static void add_impl(route_build *b, const reg_impl *impl)
{
    const int device_type = tg_registry_backend(impl->backend)->table.device_type;
    const int anywhere = (impl->impl.takes & TG_TAKES_ANY_DEVICE) != 0;
    if (impl->op == b->op && (anywhere || (device_type == b->device_type && !b->composed)) &&
        tg_impl_supported(b->ctx, impl->index) && b->r->count < MAX_ROUTE &&
        tg_ctx_has_parts(b->ctx, impl, b->on_device))
        b->r->impls[b->r->count++] = impl;
}

static void add_backend(route_build *b, int backend)
{
    const reg_impl *impl;
    for (int i = 0; (impl = tg_registry_impl(i)); i++)
        if (impl->backend == backend)
            add_impl(b, impl);
}

static tg_status add_word(const char *word, void *arg)
{
    route_build *b = arg;
    const int backend = tg_registry_backend_by_vendor(word);
    if (backend >= 0)
        add_backend(b, backend);
    else
        add_impl(b, tg_registry_impl(tg_find(b->ctx, word)));
    return TG_OK;
}

/* The device's plug-ins, last loaded first; then cpu's; then what is built in: cpu, ref. Strict
 * contexts of an accelerator take compositions alone of these. */
static void add_automatic(route_build *b)
{
    enum { CPU, REF, FIRST_PLUGIN };
    int last = 0;
    while (tg_registry_backend(last))
        last++;
    const char *device = b->ctx->device;
    const int accelerator = strcmp(device, "cpu") != 0;
    for (int i = last - 1; i >= FIRST_PLUGIN; i--)
        if (tg_backend_serves(i, device))
            add_backend(b, i);
    b->composed = accelerator && b->ctx->strict;
    for (int i = last - 1; accelerator && i >= FIRST_PLUGIN; i--)
        if (tg_backend_serves(i, "cpu"))
            add_backend(b, i);
    add_backend(b, CPU);
    if (!b->ctx->strict)
        add_backend(b, REF);
}

const route *tg_ctx_resolve(tg_ctx *ctx, int op, int on_device, int generation)
{
    route *r = &ctx->routes[op][on_device];
    route_build b = {ctx, r, op, on_device, on_device ? ctx->device_type : TG_DEVICE_CPU, 0};
    const impl_list *list = tg_ctx_list(ctx, op);
    r->count = 0;
    if (list)
        each_word(list->words, add_word, &b);
    else
        add_automatic(&b);
    r->generation = generation;
    return r;
}

int tg_resolve(tg_ctx *ctx, int op, int *impls, int max)
{
    if (op < 0 || op >= TG_OP_COUNT)
        return 0;
    const int on_device = ctx->device_type != TG_DEVICE_CPU;
    const route *r = tg_ctx_route(ctx, op, on_device);
    if (r->count == 0 && on_device)
        r = tg_ctx_route(ctx, op, 0);
    for (int i = 0; i < r->count && i < max; i++)
        impls[i] = r->impls[i]->index;
    return r->count;
}
