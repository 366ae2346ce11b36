/* tools/tigon/report/record.c - places in kernels' sources, gathered over launches. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* The same call of the same text of a kernel: its strings are those of the library, and
 * lie at one address. */
static int is_same(const record_place *p, int op, const tg_npu_call *call)
{
    return p->op == op && p->call.line == call->line && p->call.name == call->name &&
           p->call.file == call->file && p->call.pipe == call->pipe;
}

static record_place *place_of(record *r, int op, const tg_npu_call *call)
{
    for (int i = 0; i < r->n; i++)
        if (is_same(&r->place[i], op, call))
            return &r->place[i];
    if (r->n == r->room) {
        const int room = r->room ? 2 * r->room : 256;
        record_place *more = realloc(r->place, (size_t)room * sizeof *more);
        if (!more) {
            r->broken = 1;
            return NULL;
        }
        r->place = more;
        r->room = room;
    }
    record_place *new = &r->place[r->n++];
    *new = (record_place){op, *call};
    new->call.times = 0;
    new->call.busy_us = new->call.wait_us = 0;
    return new;
}

static void add_sums(tg_npu_call *to, const tg_npu_call *from)
{
    to->times += from->times;
    to->busy_us += from->busy_us;
    to->wait_us += from->wait_us;
}

static void add_source(record *r, const char *source)
{
    for (int i = 0; i < r->nsources; i++)
        if (!strcmp(r->source[i], source))
            return;
    if (r->nsources < RECORD_SOURCES)
        r->source[r->nsources++] = source;
}

void record_add(record *r, int op, const tg_npu_record *launch, int counts)
{
    add_source(r, launch->source);
    for (int i = 0; i < launch->ncalls; i++) {
        record_place *p = place_of(r, op, &launch->calls[i]);
        if (p && counts)
            add_sums(&p->call, &launch->calls[i]);
    }
}

void record_restart(record *r, int op)
{
    for (int i = 0; i < r->n; i++)
        if (r->place[i].op == op) {
            r->place[i].call.times = 0;
            r->place[i].call.busy_us = r->place[i].call.wait_us = 0;
        }
}

static int by_place(const void *a, const void *b)
{
    const record_place *x = a, *y = b;
    int order = x->op - y->op;
    order = order ? order : strcmp(x->call.name, y->call.name);
    order = order ? order : strcmp(x->call.pipe, y->call.pipe);
    order = order ? order : strcmp(x->call.file, y->call.file);
    return order ? order : x->call.line - y->call.line;
}

/* Kernels of the three types have the same text, each its own copy of it. */
void record_sort(record *r)
{
    int kept = 0;
    if (r->n)
        qsort(r->place, (size_t)r->n, sizeof *r->place, by_place);
    for (int i = 0; i < r->n; i++)
        if (kept && !by_place(&r->place[kept - 1], &r->place[i]))
            add_sums(&r->place[kept - 1].call, &r->place[i].call);
        else
            r->place[kept++] = r->place[i];
    r->n = kept;
}

void record_free(record *r)
{
    free(r->place);
    *r = (record){0};
}
