/* check/pages.c - pages of global memory that a block has accesses in, found by their number. */
#include <stdlib.h>
#include <string.h>

#include "global.h"

check_global *check_global_new(void)
{
    check_global *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->mask = 1023;
    g->pages = calloc(g->mask + 1, sizeof *g->pages);
    if (!g->pages) {
        free(g);
        return NULL;
    }
    return g;
}

void check_global_free(check_global *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i <= g->mask; i++) {
        free(g->pages[i].records);
        free(g->pages[i].lines);
    }
    free(g->pages);
    free(g->used);
    free(g);
}

static uint32_t slot(const check_global *g, uint32_t epoch, uintptr_t number)
{
    uint32_t at = (uint32_t)(number * 0x9E3779B97F4A7C15u >> 32) & g->mask;
    while (g->pages[at].epoch == epoch && g->pages[at].number != number)
        at = (at + 1) & g->mask;
    return at;
}

static void note_used(check_global *g, uint32_t at)
{
    if (g->used_count == g->used_room) {
        g->used_room = g->used_room ? 2 * g->used_room : 256;
        g->used = realloc(g->used, g->used_room * sizeof *g->used);
    }
    g->used[g->used_count++] = at;
}

static void grow(check_global *g, uint32_t epoch)
{
    const check_global old = *g;
    const uint32_t used = g->used_count;
    g->mask = 2 * g->mask + 1;
    g->pages = calloc(g->mask + 1, sizeof *g->pages);
    for (uint32_t i = 0; i < used; i++) {
        const uint32_t at = slot(g, epoch, old.pages[old.used[i]].number);
        g->pages[at] = old.pages[old.used[i]];
        old.pages[old.used[i]].records = NULL;
        old.pages[old.used[i]].lines = NULL;
        g->used[i] = at;
    }
    for (uint32_t i = 0; i <= old.mask; i++) {
        free(old.pages[i].records);
        free(old.pages[i].lines);
    }
    free(old.pages);
}

check_page *check_page_of(sim_shadow *shadow, uintptr_t number)
{
    check_global *g = shadow->global;
    uint32_t at = slot(g, shadow->epoch, number);
    check_page *p = &g->pages[at];
    if (p->epoch == shadow->epoch)
        return p;
    if (2 * g->used_count > g->mask) {
        grow(g, shadow->epoch);
        at = slot(g, shadow->epoch, number);
        p = &g->pages[at];
    }
    p->number = number;
    p->epoch = shadow->epoch;
    p->count = 0;
    if (p->lines)
        memset(p->lines, 0, CHECK_PAGE / CHECK_LINE * sizeof *p->lines);
    note_used(g, at);
    return p;
}
