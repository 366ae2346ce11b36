/* tools/tigon/check/kinds/pages.c - a problem's buffers on pages of their own. An access to
 * a page that is closed is noted by the handler of SIGSEGV, which opens the page, so that
 * the call goes on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kinds.h"

typedef struct region {
    unsigned char *map, *data; /* a closed page, the buffer's pages, a closed page */
    size_t size, bytes;        /* of the map, of the data */
    unsigned char *from;       /* in the problem's own buffer */
    int buffer;
    void *volatile touched; /* the first address that was not to be touched */
} region;

struct pages {
    const problem *p;
    int n;
    region region[PB_ARGS];
    tg_tensor view[PB_ARGS];
    uint64_t slot[PB_ARGS];
    unsigned char *volatile trip; /* the page that tells of its first access; NULL: none */
    void (*trip_fn)(void *arg);
    void *trip_arg;
    struct sigaction before;
};

static pages *watched; /* by the handler: one at a time */

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned char *page_of(const void *address)
{
    return (unsigned char *)((uintptr_t)address / page_size() * page_size());
}

static void on_touch(int number, siginfo_t *info, void *context)
{
    pages *g = watched;
    unsigned char *at = info->si_addr, *page = page_of(at);
    (void)context;
    for (int i = 0; g && i < g->n; i++) {
        region *r = &g->region[i];
        if (at < r->map || at >= r->map + r->size)
            continue;
        unsigned char *trip = __atomic_load_n(&g->trip, __ATOMIC_SEQ_CST);
        if (page == trip && __atomic_compare_exchange_n(&g->trip, &trip, NULL, 0, __ATOMIC_SEQ_CST,
                                                        __ATOMIC_SEQ_CST)) {
            g->trip_fn(g->trip_arg);
            mprotect(page, page_size(), PROT_READ | PROT_WRITE);
            return;
        }
        if (!g->trip_fn && !r->touched)
            r->touched = at;
        mprotect(page, page_size(), PROT_READ | PROT_WRITE);
        return;
    }
    signal(number, SIG_DFL); /* a crash that is none of ours: it happens again */
}

/* ---- places ---- */

typedef struct span {
    unsigned char *low, *high;
    size_t size;
} span;

static void extend(void *arg, char *row, int64_t first, int64_t cols)
{
    span *s = arg;
    unsigned char *begin = (unsigned char *)row, *end = begin + (size_t)cols * s->size;
    (void)first;
    s->low = !s->low || begin < s->low ? begin : s->low;
    s->high = end > s->high ? end : s->high;
}

/* What the tensors of a buffer take of it. */
static span span_of(const problem *p, int buffer, int *written)
{
    span s = {0};
    *written = 0;
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].buffer == buffer) {
            s.size = tg_type_size(tg_type_of(&p->tensor[i].view));
            pb_each_row(&p->tensor[i], extend, &s);
            *written |= p->tensor[i].written;
        }
    return s;
}

static int place(pages *g, int buffer, int at_end)
{
    int written;
    const span s = span_of(g->p, buffer, &written);
    const size_t page = page_size(), bytes = (size_t)(s.high - s.low);
    const size_t inner = (bytes + page - 1) / page * page;
    region *r = &g->region[g->n];
    if (!bytes)
        return -1;
    *r = (region){.size = inner + 2 * page, .bytes = bytes, .from = s.low, .buffer = buffer};
    r->map = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->map == MAP_FAILED)
        return -1;
    g->n++;
    memset(r->map, 0xFF, r->size);
    r->data = r->map + page + (at_end ? inner - bytes : 0);
    memcpy(r->data, s.low, bytes);
    mprotect(r->map, page, PROT_NONE);
    mprotect(r->map + page + inner, page, PROT_NONE);
    return written ? 0 : mprotect(r->map + page, inner, PROT_READ);
}

static void make_views(pages *g)
{
    memcpy(g->slot, problem_args(g->p), sizeof g->slot);
    for (int i = 0; i < g->p->op->ntensors; i++) {
        const pb_tensor *x = &g->p->tensor[i];
        if (!x->present)
            continue;
        int k = 0;
        while (g->region[k].buffer != x->buffer)
            k++;
        unsigned char *first = (unsigned char *)x->view.data + x->view.byte_offset;
        g->view[i] = x->view;
        g->view[i].data = g->region[k].data + (first - g->region[k].from);
        g->view[i].byte_offset = 0;
        g->slot[x->decl->slot] = (uint64_t)(uintptr_t)&g->view[i];
    }
}

pages *pages_place(const problem *p, int at_end)
{
    pages *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->p = p;
    for (int k = 0; k < p->nbuffers; k++)
        if (place(g, k, at_end)) {
            pages_free(g);
            return NULL;
        }
    make_views(g);
    watched = g;
    struct sigaction action = {.sa_sigaction = on_touch, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, &g->before);
    return g;
}

const void *pages_args(const pages *g)
{
    return g->slot;
}

void pages_trip(pages *g, int tensor, void (*fn)(void *arg), void *arg)
{
    for (int i = 0; i < g->n; i++)
        if (g->region[i].buffer == g->p->tensor[tensor].buffer) {
            unsigned char *page = page_of(g->region[i].data + g->region[i].bytes / 2);
            g->trip_fn = fn;
            g->trip_arg = arg;
            mprotect(page, page_size(), PROT_NONE);
            g->trip = page;
        }
}

int pages_touched(const pages *g, char *where, size_t size)
{
    for (int i = 0; i < g->n; i++) {
        const region *r = &g->region[i];
        if (!r->touched)
            continue;
        const char *name = "?";
        for (int k = g->p->op->ntensors - 1; k >= 0; k--)
            if (g->p->tensor[k].present && g->p->tensor[k].buffer == r->buffer)
                name = g->p->op->tensor[k].name;
        const int64_t at = (unsigned char *)r->touched - r->data;
        if (at < 0)
            snprintf(where, size, "what lies %lld bytes before %s", (long long)-at, name);
        else if (at >= (int64_t)r->bytes)
            snprintf(where, size, "what lies %lld bytes behind the end of %s",
                     (long long)(at - (int64_t)r->bytes), name);
        else
            snprintf(where, size, "the input %s, byte %lld, to write there", name, (long long)at);
        return 1;
    }
    return 0;
}

void pages_fetch(const pages *g)
{
    for (int i = 0; i < g->n; i++)
        memcpy(g->region[i].from, g->region[i].data, g->region[i].bytes);
}

void pages_free(pages *g)
{
    if (!g)
        return;
    if (watched == g) {
        watched = NULL;
        sigaction(SIGSEGV, &g->before, NULL);
    }
    for (int i = 0; i < g->n; i++)
        munmap(g->region[i].map, g->region[i].size);
    free(g);
}
