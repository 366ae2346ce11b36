/* tools/tigon/check_ceiling.c - the levels of this processor, each as on a processor that has no more. */
#include <stdlib.h>
#include <string.h>

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
    for (int r = 0; r < tg_row_count(); r++)
        n += tg_row_supported(ctx, r);
    return n;
}

/* Levels are the variants of the CPU's rows that are ceilings as well. Without a ceiling there may be
 * more: matrix units, which no level has. */
void ceilings_find(ceilings *c, tg_ctx *ctx)
{
    const int all = supported(ctx);
    c->beyond = 1;
    for (int r = 0; r < tg_row_count() && c->n < CEILINGS - 1; r++) {
        const tg_row_info *row = tg_row_at(r);
        if (strcmp(row->backend, "cpu") || !*row->variant || !tg_row_supported(ctx, r) ||
            has(c, row->variant))
            continue;
        if (!tg_ctx_set_cpu_max(ctx, row->variant)) {
            c->level[c->n++] = row->variant;
            c->beyond &= supported(ctx) < all;
        }
        ceilings_set(ctx, NULL);
    }
}

int ceilings_of(const ceilings *c, const tg_ctx *ctx, int number, const char **ceiling)
{
    int n = 0;
    const tg_row_info *row = tg_row_at(number);
    const int unfused = !strcmp(row->backend, "unfused"), cpu = !strcmp(row->backend, "cpu");
    if (unfused && c->beyond)
        ceiling[n++] = NULL;
    if (!cpu || tg_default_of(ctx, tg_op_at(row->op)->name) != number)
        for (int i = 0; i < c->n; i++)
            if (unfused || (cpu && !strcmp(row->variant, c->level[i])))
                ceiling[n++] = c->level[i];
    if (!n)
        ceiling[n++] = NULL;
    return n;
}

static int accepted(const ceilings *c, tg_ctx *ctx, problem *p, const int *rows, int nrows)
{
    for (int i = 0; i < nrows; i++)
        if ((!c->n || !strcmp(tg_row_at(rows[i])->backend, "cpu")) &&
            tg_row_supported(ctx, rows[i]) && problem_row_accepts(ctx, rows[i], p))
            return 1;
    return 0;
}

const char *ceilings_gap(const ceilings *c, tg_ctx *ctx, problem *p, const int *rows, int nrows)
{
    const char *gap = c->n || accepted(c, ctx, p, rows, nrows) ? NULL : tg_ctx_device(ctx);
    for (int i = 0; !gap && i < c->n; i++) {
        ceilings_set(ctx, c->level[i]);
        gap = accepted(c, ctx, p, rows, nrows) ? NULL : c->level[i];
    }
    ceilings_set(ctx, NULL);
    return gap;
}
