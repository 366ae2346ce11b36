/* report/faults.c - the lists of faults: one of each block, merged into the device's when the
 * block ends, so that what is reported does not depend on the threads of the host. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

typedef struct fault {
    const char *kind;
    const asc_site *site, *other;
    char *text;
    int64_t launch, count;
    uint32_t tick, last; /* of the first, of the latest */
    int block;
} fault;

struct sim_faults {
    fault *faults;
    int count, room;
    ascsim_fault *view; /* what ascsim_faults() handed out */
};

sim_faults *sim_faults_new(void)
{
    return calloc(1, sizeof(sim_faults));
}

static void empty(sim_faults *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->faults[i].text);
    list->count = 0;
}

void sim_faults_free(sim_faults *list)
{
    if (!list)
        return;
    empty(list);
    free(list->faults);
    free(list->view);
    free(list);
}

static int same_site(const asc_site *a, const asc_site *b)
{
    if (a == b)
        return 1;
    return a && b && a->file && b->file && a->line == b->line && !strcmp(a->file, b->file);
}

static fault *find(const sim_faults *list, const char *kind, const asc_site *site,
                   const asc_site *other)
{
    for (int i = 0; i < list->count; i++) {
        fault *f = &list->faults[i];
        if (same_site(f->site, site) && same_site(f->other, other) && !strcmp(f->kind, kind))
            return f;
    }
    return NULL;
}

static fault *add(sim_faults *list, const fault *new)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->faults = realloc(list->faults, (size_t)list->room * sizeof *list->faults);
    }
    list->faults[list->count] = *new;
    return &list->faults[list->count++];
}

static int earlier(const fault *a, const fault *b)
{
    if (a->launch != b->launch)
        return a->launch < b->launch;
    if (a->block != b->block)
        return a->block < b->block;
    return a->tick < b->tick;
}

static char *formatted(const char *format, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    return strdup(text);
}

void sim_faults_add(sim_faults *list, const sim_core *core, uint32_t tick, const char *kind,
                    const asc_site *site, const asc_site *other, const char *format, va_list args)
{
    fault *known = find(list, kind, site, other);
    if (known) {
        known->count += known->last != tick;
        known->last = tick;
        return;
    }
    add(list, &(fault){kind, site, other, formatted(format, args), core->device->launches, 1, tick,
                       tick, (int)core->block});
}

/* Takes over the text of `new`. Under the device's lock. */
static void merge(ascsim *device, const fault *new)
{
    if (!device->faults)
        device->faults = sim_faults_new();
    fault *known = find(device->faults, new->kind, new->site, new->other);
    if (!known) {
        add(device->faults, new);
        return;
    }
    fault both = earlier(new, known) ? *new : *known;
    free(earlier(new, known) ? known->text : new->text);
    both.count = known->count + new->count;
    *known = both;
}

void sim_faults_merge(ascsim *device, sim_faults *list)
{
    if (list->count == 0)
        return;
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < list->count; i++)
        merge(device, &list->faults[i]);
    pthread_mutex_unlock(&device->lock);
    list->count = 0;
}

void sim_launch_fault(ascsim *device, int block, const char *kind, const asc_site *site,
                      const asc_site *other, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    merge(device, &(fault){kind, site, other, formatted(format, args), device->launches, 1,
                           UINT32_MAX, 0, block});
    va_end(args);
}

/* ---- what a host sees ---- */

static int by_order(const void *a, const void *b)
{
    const fault *x = a, *y = b;
    if (earlier(x, y) || earlier(y, x))
        return earlier(x, y) ? -1 : 1;
    const int kind = strcmp(x->kind, y->kind);
    return kind ? kind : strcmp(x->text, y->text);
}

/* Two places in the code can be one line: known only now that places have become lines. */
static void join_lines(sim_faults *list)
{
    sim_faults joined = {0};
    for (int i = 0; i < list->count; i++) {
        fault *f = &list->faults[i], *first = find(&joined, f->kind, f->site, f->other);
        if (first) {
            first->count += f->count;
            free(f->text);
        } else {
            add(&joined, f);
        }
    }
    free(list->faults);
    joined.view = list->view;
    *list = joined;
}

int ascsim_faults(ascsim *device, const ascsim_fault **faults)
{
    sim_faults *list = device->faults;
    *faults = NULL;
    if (!list || list->count == 0)
        return 0;
    sim_sites_resolve();
    qsort(list->faults, (size_t)list->count, sizeof *list->faults, by_order);
    join_lines(list);
    list->view = realloc(list->view, (size_t)list->count * sizeof *list->view);
    for (int i = 0; i < list->count; i++) {
        const fault *f = &list->faults[i];
        const asc_site none = {NULL, 0, NULL};
        const asc_site *site = f->site ? f->site : &none, *other = f->other ? f->other : &none;
        list->view[i] = (ascsim_fault){f->kind,    f->text,     site->file, other->file,
                                       site->line, other->line, f->block,   f->count};
    }
    *faults = list->view;
    return list->count;
}

void ascsim_clear_faults(ascsim *device)
{
    if (device->faults)
        empty(device->faults);
}

static const char *meaning(const char *kind)
{
    static const char *const known[][2] = {
#define SIM_FAULT(name, text) {name, text},
#include "faults.inc"
#undef SIM_FAULT
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i][0], kind))
            return known[i][1];
    return "";
}

void ascsim_report_faults(ascsim *device, FILE *out)
{
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    for (int i = 0; i < count; i++) {
        const ascsim_fault *f = &faults[i];
        if (f->file)
            fprintf(out, "%s:%d: ", f->file, f->line);
        fprintf(out, "%s: %s\n", f->kind, f->text);
        if (f->other_file)
            fprintf(out, "    %s:%d: the earlier one\n", f->other_file, f->other_line);
        fprintf(out, "    %s; first in block %d, %lld time%s in all\n", meaning(f->kind), f->block,
                (long long)f->count, f->count == 1 ? "" : "s");
    }
    if (count)
        fprintf(out, "%d fault%s\n", count, count == 1 ? "" : "s");
}
