/* tools/tigon/check_wanted.c - which rows are asked for, and whether something was done for each name. */
#include <string.h>

#include "check_command.h"

static int begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* "cpu/softmax" names rows, "softmax" operators. */
static int is_row_name(const char *name)
{
    return strchr(name, '/') != NULL;
}

static int names(const char *name, int row)
{
    const tg_row_info *r = tg_row_at(row);
    return begins(is_row_name(name) ? r->full_name : tg_op_at(r->op)->name, name);
}

int wanted_row(const wanted *w, int row)
{
    int any = !w->n;
    for (int i = 0; i < w->n; i++)
        any |= names(w->name[i], row);
    return any && row >= w->first_row;
}

int wanted_operator(const wanted *w, const char *op)
{
    int any = !w->n;
    for (int i = 0; i < w->n; i++)
        any |= begins(op, w->name[i]);
    return any;
}

int wanted_whole_operators(const wanted *w)
{
    int any = w->first_row > 0;
    for (int i = 0; i < w->n; i++)
        any |= is_row_name(w->name[i]);
    return !any;
}

void wanted_note(wanted *w, int row)
{
    for (int i = 0; i < w->n; i++)
        w->was_run[i] |= names(w->name[i], row);
}

const char *wanted_unknown(const wanted *w)
{
    for (int i = 0; i < w->n; i++) {
        int r = w->first_row;
        while (r < tg_row_count() && !names(w->name[i], r))
            r++;
        if (r == tg_row_count())
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
