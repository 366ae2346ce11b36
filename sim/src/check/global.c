/* check/global.c - what one block does to global memory: accesses by page, each a range of
 * bytes, and the lines that S has in its cache. When the block ends its ranges go to the device,
 * where launch.c compares blocks. */
#include <stdlib.h>
#include <string.h>

#include "cross.h"
#include "global.h"

void check_global_begin(sim_core *core)
{
    check_global *g = core->shadow->global;
    g->used_count = g->flushed = 0;
    g->stores = 0;
}

static void append(check_page *p, check_record r)
{
    if (r.low >= r.high)
        return;
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 4;
        p->records = realloc(p->records, p->room * sizeof *p->records);
    }
    p->records[p->count++] = r;
}

/* ---- accesses ---- */

/* The first byte of [low, high) that this block has not written itself, `high` if there is none. */
static uint32_t not_written(const check_page *p, uint32_t low, uint32_t high)
{
    for (uint32_t i = 0; i < p->count && low < high; i++) {
        const check_record *r = &p->records[i];
        if ((r->mark.access & SIM_WRITE) && r->low <= low && low < r->high) {
            low = r->high;
            i = UINT32_MAX; /* from the start */
        }
    }
    return low < high ? low : high;
}

static void check_written(const check_access *access, const check_page *p, uint32_t low,
                          uint32_t high)
{
    unsigned char *const base = (unsigned char *)(p->number * CHECK_PAGE);
    const sim_region *region = check_region(access->core->device, base + low, high - low);
    while (region && region->written && low < high) {
        const unsigned char *missing = check_unwritten(region, base + low, high - low);
        if (!missing)
            return;
        const uint32_t at = (uint32_t)(missing - base);
        low = not_written(p, at, high);
        if (low == at) {
            const asc_site *site = check_site(access->core->shadow, access->who);
            char where[128];
            if (access->core->cross) { /* another core may be writing it */
                check_launch_doubt(access->core->device,
                                   &(check_interval){.low = (uintptr_t)base + at,
                                                     .high = (uintptr_t)base + high,
                                                     .site = site,
                                                     .block = (int32_t)access->core->block,
                                                     .unit = access->core->unit});
                return;
            }
            sim_fault(access->core, "gm-unwritten", site, NULL,
                      "%s reads %s: found bytes that neither host nor kernel has written, "
                      "expected them written",
                      site->name, check_describe(access->core->device, missing, where));
            return;
        }
    }
}

/* Whether whatever clashes with the old access clashes with the new one too, so that the old one
 * can be forgotten. */
static int supersedes(const check_access *now, const check_mark *old)
{
    if (now->access & SIM_ATOMIC)
        return now->pipe == old->pipe &&
               check_commute(now->access, now->atomic, old->access, old->atomic);
    return (now->access & SIM_WRITE) || (now->pipe == old->pipe && !(old->access & SIM_WRITE));
}

static void check_against_earlier(const check_access *access, check_page *p, uint32_t low,
                                  uint32_t high)
{
    const uint32_t count = p->count;
    /* What came before a wait for other cores is ordered otherwise than what comes behind it, and
     * is kept. */
    const uint32_t last_wait = check_cross_last_wait(access->core);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        check_record old = p->records[i];
        if (old.low < high && low < old.high) {
            const uint32_t from = old.low > low ? old.low : low;
            check_race(access, &old.mark, (void *)(p->number * CHECK_PAGE + from));
            if (old.mark.tick > last_wait &&
                supersedes(access, &old.mark)) { /* what lies on both sides stays */
                append(p, (check_record){(uint16_t)high, old.high, old.mark});
                old.high = (uint16_t)low;
            }
        }
        if (old.low < old.high)
            p->records[kept++] = old;
    }
    if (kept < count) /* what was cut off closes up */
        memmove(p->records + kept, p->records + count, (p->count - count) * sizeof *p->records);
    p->count -= count - kept;
}

static int same_mark(const check_mark *a, const check_mark *b)
{
    return a->tick == b->tick && a->who == b->who && a->pipe == b->pipe && a->access == b->access &&
           a->atomic == b->atomic;
}

/* The very same has been looked at: S going over its data again. */
static int is_recorded(const check_page *p, const check_mark *mark, uint32_t low, uint32_t high)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->records[i].low <= low && p->records[i].high >= high &&
            same_mark(&p->records[i].mark, mark))
            return 1;
    return 0;
}

static void check_bytes(const check_access *access, check_page *p, uint32_t low, uint32_t high)
{
    const check_mark mark = check_mark_of(access);
    if (is_recorded(p, &mark, low, high))
        return;
    if (access->pipe != ASCSIM_S)
        check_copy_lines(access, p, low, high);
    else
        for (uint32_t at = low, next; at < high; at = next) {
            next = (at / CHECK_LINE + 1) * CHECK_LINE;
            check_scalar_line(access, p, at, next < high ? next : high);
        }
    if (!(access->access & SIM_WRITE) || (access->access & SIM_ATOMIC))
        check_written(access, p, low, high);
    check_against_earlier(access, p, low, high);
    check_record *last = p->count ? &p->records[p->count - 1] : NULL;
    if (last && last->high == low && same_mark(&last->mark, &mark))
        last->high = (uint16_t)high;
    else
        append(p, (check_record){(uint16_t)low, (uint16_t)high, mark});
}

void check_global_touch(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)base;
    const uintptr_t end = at + bytes;
    while (at < end) {
        const uintptr_t number = at / CHECK_PAGE, next = (number + 1) * CHECK_PAGE;
        const uintptr_t to = next < end ? next : end;
        check_bytes(access, check_page_of(access->core->shadow, number),
                    (uint32_t)(at - number * CHECK_PAGE), (uint32_t)(to - number * CHECK_PAGE));
        at = to;
    }
}

/* What S has in its cache stays there when the block ends. */
static void leave_lines(const sim_core *core, const check_global *g)
{
    ascsim *device = core->device;
    pthread_mutex_lock(&device->lock);
    for (uint32_t u = 0; u < g->used_count; u++) {
        const check_page *p = &g->pages[g->used[u]];
        for (uint32_t l = 0; p->lines && l < CHECK_PAGE / CHECK_LINE; l++)
            if (p->lines[l].cached > g->flushed)
                check_left_add(device, p->number * (CHECK_PAGE / CHECK_LINE) + l,
                               (int32_t)core->block, p->lines[l].cached);
    }
    pthread_mutex_unlock(&device->lock);
}

void check_global_end(sim_core *core)
{
    sim_shadow *shadow = core->shadow;
    check_global *g = shadow->global;
    leave_lines(core, g);
    size_t count = 0, room = 0;
    check_interval *list = NULL;
    for (uint32_t u = 0; u < g->used_count; u++) {
        const check_page *p = &g->pages[g->used[u]];
        for (uint32_t i = 0; i < p->count; i++) {
            const check_record *r = &p->records[i];
            const uintptr_t base = p->number * CHECK_PAGE;
            const check_interval new = {.low = base + r->low,
                                        .high = base + r->high,
                                        .site = check_site(shadow, r->mark.who),
                                        .block = (int32_t)core->block,
                                        .tick = r->mark.tick,
                                        .unit = core->unit,
                                        .pipe = r->mark.pipe,
                                        .access = r->mark.access,
                                        .atomic = r->mark.atomic};
            check_interval *last = count ? &list[count - 1] : NULL;
            if (last && last->high == new.low && last->site == new.site &&
                last->access == new.access && last->atomic == new.atomic &&
                (!core->cross || last->tick == new.tick)) {
                last->high = new.high;
                continue;
            }
            if (count == room) {
                room = room ? 2 * room : 64;
                list = realloc(list, room * sizeof *list);
            }
            list[count++] = new;
        }
    }
    check_launch_add(core->device, list, count);
    free(list);
}
