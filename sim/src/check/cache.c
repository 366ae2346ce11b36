/* check/cache.c - the lines of global memory that S has in its cache, which no copy sees and
 * which see no copy. */
#include <stdlib.h>

#include "global.h"

static check_line *line_of(check_page *p, uint32_t offset)
{
    if (!p->lines)
        p->lines = calloc(CHECK_PAGE / CHECK_LINE, sizeof *p->lines);
    return &p->lines[offset / CHECK_LINE];
}

/* An access by `pipe` to bytes of [low, high), a write, later than `tick`. */
static const check_record *written_since(const check_page *p, int pipe, uint32_t low, uint32_t high,
                                         uint32_t tick)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const check_record *r = &p->records[i];
        if (r->mark.pipe == pipe && (r->mark.access & SIM_WRITE) && r->mark.tick > tick &&
            r->low < high && r->high > low)
            return r;
    }
    return NULL;
}

/* The first access of a block that has flushed nothing. */
static void check_left_line(const check_access *access, const check_page *p, uint32_t low)
{
    const uintptr_t at = p->number * CHECK_PAGE + low;
    if (!check_left_changed(access->core->device, at / CHECK_LINE))
        return;
    const asc_site *site = check_site(access->core->shadow, access->who);
    char where[128];
    sim_fault(access->core, "dcache-left", site, NULL,
              "%s of %s by S: found a line that an earlier launch has left in its cache and that "
              "has been written since, expected asc_dcci_single or asc_dcci_entire_all before",
              site->name, check_describe(access->core->device, (void *)at, where));
}

/* A load wants its bytes alone; a store makes the whole line one that will be written back. */
void check_scalar_line(const check_access *access, check_page *p, uint32_t low, uint32_t high)
{
    check_global *g = access->core->shadow->global;
    const uint32_t first = low / CHECK_LINE * CHECK_LINE;
    const int store = access->access & SIM_WRITE;
    check_line *l = line_of(p, low);
    const check_record *copied = NULL;
    if (!l->cached && !l->clean && !g->flushed)
        check_left_line(access, p, low);
    if (l->cached > g->flushed)
        copied = written_since(p, ASCSIM_MTE3, store ? first : low,
                               store ? first + CHECK_LINE : high, l->cached);
    if (copied) {
        const asc_site *site = check_site(access->core->shadow, access->who);
        const asc_site *other = check_site(access->core->shadow, copied->mark.who);
        char where[128];
        sim_fault(
            access->core, "dcache-stale", site, other,
            "%s of %s by S: found its line in the cache since before %s wrote there, expected "
            "asc_dcci_single or asc_dcci_entire_all between",
            site->name,
            check_describe(access->core->device, (void *)(p->number * CHECK_PAGE + low), where),
            other->name);
    }
    if (copied || l->cached <= g->flushed)
        l->cached = access->tick;
    if (store) {
        l->dirty = access->tick;
        l->dirty_who = access->who;
        g->stores = 1;
    }
}

/* A copy in wants its bytes alone; one out would be overwritten by the line. */
void check_copy_lines(const check_access *access, const check_page *p, uint32_t low, uint32_t high)
{
    const check_global *g = access->core->shadow->global;
    if (!g->stores || !p->lines)
        return;
    for (uint32_t l = low / CHECK_LINE; l <= (high - 1) / CHECK_LINE; l++) {
        const check_line *at = &p->lines[l];
        const uint32_t first = l * CHECK_LINE, end = first + CHECK_LINE;
        if (at->dirty <= g->flushed ||
            (!(access->access & SIM_WRITE) &&
             !written_since(p, ASCSIM_S, first > low ? first : low, end < high ? end : high, 0)))
            continue;
        const asc_site *site = check_site(access->core->shadow, access->who);
        const asc_site *other = check_site(access->core->shadow, at->dirty_who);
        char where[128];
        sim_fault(access->core, "dcache-dirty", site, other,
                  "%s %s %s: found a line that S has stored to and that is still in its cache, "
                  "expected asc_dcci_single or asc_dcci_entire_all between",
                  site->name, access->access & SIM_WRITE ? "writes" : "reads",
                  check_describe(access->core->device,
                                 (void *)(p->number * CHECK_PAGE + l * CHECK_LINE), where));
        return;
    }
}

void check_global_flush(sim_core *core, const void *address)
{
    sim_shadow *shadow = core->shadow;
    if (!address) {
        shadow->global->flushed = shadow->now;
        return;
    }
    check_page *p = check_page_of(shadow, (uintptr_t)address / CHECK_PAGE);
    check_line *l = line_of(p, (uint32_t)((uintptr_t)address % CHECK_PAGE));
    l->cached = l->dirty = 0;
    l->clean = 1;
}
