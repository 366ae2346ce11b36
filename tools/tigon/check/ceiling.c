/* tools/tigon/check/ceiling.c - the levels of this processor, each as on a processor
 * that has no more. */
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>

#include "check.h"

void ceilings_set(tg_ctx *ctx, const char *level)
{
    tg_ctx_set_cpu_max(ctx, level ? level : getenv("TIGON_CPU_MAX"));
}

static int has(const ceilings *c, const char *level)
{
    int i = 0;
    while (i < c->n && strcmp(c->level[i], level))
        i++;
    return i < c->n;
}

static int supported(const tg_ctx *ctx)
{
    int n = 0;
    for (int r = 0; r < tg_impl_count(); r++)
        n += tg_impl_supported(ctx, r);
    return n;
}

/* Levels are the variants of the CPU's implementations that are ceilings as well. Without a ceiling
 * there may be more: matrix units, which no level has. */
void ceilings_find(ceilings *c, tg_ctx *ctx)
{
    const int all = supported(ctx);
    c->beyond = 1;
    for (int r = 0; r < tg_impl_count() && c->n < CEILINGS - 1; r++) {
        const tg_impl_info *impl = tg_impl_at(r);
        if (strcmp(impl->backend, "cpu") || !*impl->variant || !tg_impl_supported(ctx, r) ||
            has(c, impl->variant))
            continue;
        if (!tg_ctx_set_cpu_max(ctx, impl->variant)) {
            c->level[c->n++] = impl->variant;
            c->beyond &= supported(ctx) < all;
        }
        ceilings_set(ctx, NULL);
    }
}

int ceilings_of(const ceilings *c, const tg_ctx *ctx, int number, const char **ceiling)
{
    int n = 0;
    const tg_impl_info *impl = tg_impl_at(number);
    const int cpu = !strcmp(impl->backend, "cpu");
    const int calls = (impl->takes & TG_TAKES_ANY_DEVICE) != 0;
    if (calls && c->beyond)
        ceiling[n++] = NULL;
    if (calls || !cpu || tg_default_of(ctx, tg_op_at(impl->op)->name) != number)
        for (int i = 0; i < c->n; i++)
            if (calls || (cpu && !strcmp(impl->variant, c->level[i])))
                ceiling[n++] = c->level[i];
    if (!n)
        ceiling[n++] = NULL;
    return n;
}

static int accepted(const ceilings *c, tg_ctx *ctx, problem *p, const int *impls, int nimpls)
{
    for (int i = 0; i < nimpls; i++)
        if ((!c->n || !strcmp(tg_impl_at(impls[i])->backend, "cpu")) &&
            tg_impl_supported(ctx, impls[i]) && problem_impl_accepts(ctx, impls[i], p))
            return 1;
    return 0;
}

const char *ceilings_gap(const ceilings *c, tg_ctx *ctx, problem *p, const int *impls, int nimpls)
{
    const char *gap = c->n || accepted(c, ctx, p, impls, nimpls) ? NULL : tg_ctx_device(ctx);
    for (int i = 0; !gap && i < c->n; i++) {
        ceilings_set(ctx, c->level[i]);
        gap = accepted(c, ctx, p, impls, nimpls) ? NULL : c->level[i];
    }
    ceilings_set(ctx, NULL);
    return gap;
}
