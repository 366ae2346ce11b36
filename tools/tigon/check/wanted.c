/* tools/tigon/check/wanted.c - which implementations are asked for, and whether something was
 * done for each name. */
#include <string.h>

#include "checker.h"
#include "share/names.h"

/* "cpu/softmax" names implementations, "softmax" operators. */
static int is_impl_name(const char *name)
{
    return strchr(name, '/') != NULL;
}

static int names(const char *name, int impl)
{
    const tg_impl_info *r = tg_impl_at(impl);
    return name_begins(is_impl_name(name) ? r->full_name : tg_op_at(r->op)->name, name);
}

int wanted_impl(const wanted *w, int impl)
{
    int any = !w->n;
    for (int i = 0; i < w->n; i++)
        any |= names(w->name[i], impl);
    return any && impl >= w->first_impl;
}

int wanted_operator(const wanted *w, const char *op)
{
    return name_is_wanted(w->name, w->n, op);
}

int wanted_whole_operators(const wanted *w)
{
    int any = w->first_impl > 0;
    for (int i = 0; i < w->n; i++)
        any |= is_impl_name(w->name[i]);
    return !any;
}

void wanted_note(wanted *w, int impl)
{
    for (int i = 0; i < w->n; i++)
        w->was_run[i] |= names(w->name[i], impl);
}

const char *wanted_unknown(const wanted *w)
{
    for (int i = 0; i < w->n; i++) {
        int r = w->first_impl;
        while (r < tg_impl_count() && !names(w->name[i], r))
            r++;
        if (r == tg_impl_count())
            return w->name[i];
    }
    return NULL;
}

const char *wanted_not_run(const wanted *w)
{
    for (int i = 0; i < w->n; i++)
        if (!w->was_run[i])
            return w->name[i];
    return NULL;
}
