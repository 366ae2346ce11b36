/* check/launch.c - after a launch: what its blocks, and the cores of a block, did to each other in
 * global memory. */
#include <stdlib.h>
#include <string.h>

#include "cross.h"
#include "parts.h"

/* ---- accesses of all blocks ---- */

typedef struct check_intervals {
    check_interval *items;
    size_t count, room;
    check_interval
        *doubtful; /* reads, in a mix launch, of what another core may have written meanwhile */
    size_t doubts;
} check_intervals;

void check_launch_add(ascsim *device, const check_interval *items, size_t count)
{
    if (count == 0)
        return;
    pthread_mutex_lock(&device->lock);
    if (!device->global)
        device->global = calloc(1, sizeof *device->global);
    check_intervals *all = device->global;
    if (all->count + count > all->room) {
        all->room = 2 * (all->count + count);
        all->items = realloc(all->items, all->room * sizeof *all->items);
    }
    memcpy(all->items + all->count, items, count * sizeof *items);
    all->count += count;
    pthread_mutex_unlock(&device->lock);
}

void sim_check_close(ascsim *device)
{
    check_intervals *all = device->global;
    if (all) {
        free(all->items);
        free(all->doubtful);
    }
    free(all);
    device->global = NULL;
    check_left_free(device);
}

void check_launch_doubt(ascsim *device, const check_interval *read)
{
    pthread_mutex_lock(&device->lock);
    if (!device->global)
        device->global = calloc(1, sizeof *device->global);
    check_intervals *all = device->global;
    all->doubtful = realloc(all->doubtful, (all->doubts + 1) * sizeof *read);
    all->doubtful[all->doubts++] = *read;
    pthread_mutex_unlock(&device->lock);
}

static int three_way(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* An order in which only accesses that are equal in every field compare as equal. */
static int by_place(const void *a, const void *b)
{
    const check_interval *x = a, *y = b;
    int order = three_way(x->low, y->low);
    order = order ? order : three_way((uint64_t)x->unit, (uint64_t)y->unit);
    order = order ? order : three_way(x->high, y->high);
    order = order ? order : three_way(x->access, y->access);
    order = order ? order : three_way(x->atomic, y->atomic);
    order = order ? order : three_way(x->tick, y->tick);
    return order ? order : x->site->line - y->site->line;
}

static void report_atomics(ascsim *device, const check_interval *first,
                           const check_interval *second)
{
    static const char *const kinds[] = {"none", "add", "max", "min"};
    const uintptr_t at = first->low > second->low ? first->low : second->low;
    char where[128];
    sim_launch_fault(
        device, second->block, "gm-atomic-mixed", second->site, first->site,
        "%s in block %d changes %s by an atomic %s, %s in block %d by an atomic %s: found atomics "
        "of two kinds or types, whose order decides the result, expected one",
        second->site->name, second->block, check_describe(device, (void *)at, where),
        kinds[second->atomic >> 4], first->site->name, first->block, kinds[first->atomic >> 4]);
}

/* Two cores of one block. */
static void report_cores(ascsim *device, const check_interval *first, const check_interval *second,
                         const char *where)
{
    sim_launch_fault(device, second->block,
                     second->access & SIM_WRITE ? "cross-write-write" : "cross-read-write",
                     second->site, first->site,
                     "%s (%s) %s %s, which %s (%s) of another core of the block %s: found no flag "
                     "between the cores that orders them, expected an arrival behind one and a "
                     "wait before the other",
                     second->site->name, check_pipe_names[second->pipe],
                     second->access & SIM_WRITE ? "writes" : "reads", where, first->site->name,
                     check_pipe_names[first->pipe], first->access & SIM_WRITE ? "writes" : "reads");
}

static void report_pair(ascsim *device, const sim_cross *cross, const check_interval *x,
                        const check_interval *y)
{
    const check_interval *first = x->unit < y->unit ? x : y, *second = first == x ? y : x;
    if (cross && x->block == y->block && !(x->access & y->access & SIM_ATOMIC)) {
        char place[128];
        if (!(second->access & SIM_WRITE) || !(first->access & SIM_WRITE)) { /* the writer first */
            const check_interval *writer = first->access & SIM_WRITE ? first : second;
            second = writer == first ? second : first;
            first = writer;
        }
        report_cores(device, first, second,
                     check_describe(device, (void *)(x->low > y->low ? x->low : y->low), place));
        return;
    }
    if (x->access & y->access & SIM_ATOMIC) {
        report_atomics(device, first, second);
        return;
    }
    const int both = (x->access & SIM_WRITE) && (y->access & SIM_WRITE);
    const uintptr_t at = x->low > y->low ? x->low : y->low;
    char where[128];
    sim_launch_fault(
        device, second->block, both ? "gm-write-write" : "gm-read-write", second->site, first->site,
        "%s in block %d %s %s, which %s in block %d %s: found %s, expected %s", second->site->name,
        second->block, second->access & SIM_WRITE ? "writes" : "reads",
        check_describe(device, (void *)at, where), first->site->name, first->block,
        first->access & SIM_WRITE ? "writes" : "reads",
        both ? "two writers" : "no order between the blocks of a launch",
        both ? "one, or atomics in both" : "the one in an earlier launch");
}

/* An atomic store before the read: in one core, or by flags between cores. */
static int reads_back(const sim_cross *cross, const check_interval *store,
                      const check_interval *read)
{
    if (!(store->access & SIM_ATOMIC) || (read->access & SIM_WRITE))
        return 0;
    return store->unit == read->unit ? store->tick < read->tick
                                     : cross && check_cross_before(cross, store, read);
}

static void report_read_back(ascsim *device, const check_interval *store,
                             const check_interval *read)
{
    char where[128];
    sim_launch_fault(
        device, read->block, "gm-atomic-read", read->site, store->site,
        "%s reads %s, which %s has changed by atomics: found both in one launch, where "
        "the model applies atomics when it has ended, expected the read in a later one",
        read->site->name, check_describe(device, (void *)read->low, where), store->site->name);
}

static int clashes(const sim_cross *cross, const check_interval *x, const check_interval *y)
{
    return x->unit != y->unit && ((x->access | y->access) & SIM_WRITE) &&
           !check_commute(x->access, x->atomic, y->access, y->atomic) &&
           !check_cross_ordered(cross, x, y);
}

/* Those that still reach behind `low`; the rest is dropped. */
static size_t check_against_open(ascsim *device, const sim_cross *cross,
                                 check_interval const **open, size_t count,
                                 const check_interval *new)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (open[i]->high <= new->low)
            continue;
        open[kept++] = open[i];
        if (reads_back(cross, open[i], new))
            report_read_back(device, open[i], new);
        else if (reads_back(cross, new, open[i]))
            report_read_back(device, new, open[i]);
        else if (clashes(cross, open[i], new))
            report_pair(device, cross, open[i], new);
    }
    return kept;
}

static int any_writes(const check_intervals *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].access & SIM_WRITE)
            return 1;
    return 0;
}

/* In order of addresses. Readers are looked at for writers alone. */
static void sweep(ascsim *device, const sim_cross *cross, const check_intervals *all)
{
    const check_interval **writers = malloc(2 * all->count * sizeof *writers);
    const check_interval **readers = writers + all->count;
    size_t writing = 0, reading = 0;
    for (size_t i = 0; i < all->count; i++) {
        const check_interval *new = &all->items[i];
        writing = check_against_open(device, cross, writers, writing, new);
        if (new->access & SIM_WRITE) {
            reading = check_against_open(device, cross, readers, reading, new);
            writers[writing++] = new;
        } else {
            readers[reading++] = new;
        }
    }
    free(writers);
}

/* Stores of S by different blocks side by side in one line of the cache. */
static void shared_lines(ascsim *device, const check_intervals *all)
{
    const check_interval *last = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const check_interval *new = &all->items[i];
        if (new->pipe != ASCSIM_S || !(new->access &SIM_WRITE))
            continue;
        if (last && last->unit != new->unit && last->high <= new->low &&
            (last->high - 1) / CHECK_LINE == new->low / CHECK_LINE) {
            const int later = new->unit > last->unit;
            const check_interval *first = later ? last : new, *second = later ? new : last;
            char where[128];
            sim_launch_fault(
                device, second->block, "gm-line-shared", second->site, first->site,
                "S of block %d stores to the 64-byte line of %s: found stores of block %d in the "
                "same line, expected lines of its own, or copies",
                second->block, check_describe(device, (void *)second->low, where), first->block);
        }
        last = new;
    }
}

static void keep_written(ascsim *device, const check_intervals *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const check_interval *new = &all->items[i];
        if (!(new->access &SIM_WRITE))
            continue;
        for (int r = 0; r < device->region_count; r++) {
            sim_region *region = &device->regions[r];
            if (new->low >= (uintptr_t)region->base &&new->low <
                (uintptr_t)region->base + region->bytes)
                sim_written_add(region, (void *)new->low, new->high - new->low);
        }
    }
}

/* Reads of what no core has written after all. */
static void report_unwritten(ascsim *device, check_intervals *all)
{
    qsort(all->doubtful, all->doubts, sizeof *all->doubtful, by_place);
    for (size_t i = 0; i < all->doubts; i++) {
        const check_interval *read = &all->doubtful[i];
        const unsigned char *low = (const unsigned char *)read->low;
        const sim_region *region = check_region(device, low, read->high - read->low);
        const unsigned char *at =
            region && region->written ? check_unwritten(region, low, read->high - read->low) : NULL;
        char where[128];
        if (at)
            sim_launch_fault(device, read->block, "gm-unwritten", read->site, NULL,
                             "%s reads %s: found bytes that neither host nor kernel has written, "
                             "expected them written",
                             read->site->name, check_describe(device, at, where));
    }
    all->doubts = 0;
}

void sim_check_launch(ascsim *device, sim_cross *cross)
{
    check_intervals *all = device->global;
    if (cross)
        check_cross_end(cross);
    check_left_end(device, all ? all->items : NULL, all ? all->count : 0);
    if (!all || all->count == 0)
        return;
    if (any_writes(all)) {
        qsort(all->items, all->count, sizeof *all->items, by_place);
        sweep(device, cross, all);
        shared_lines(device, all);
        keep_written(device, all);
    }
    report_unwritten(device, all);
    all->count = 0;
}
