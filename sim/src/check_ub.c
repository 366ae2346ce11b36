/* check_ub.c - the shadow of UB: for each 32 bytes which are written, which only padded, and the accesses since, each with the
 * bytes that it stands for. Whole blocks, the usual case, have one writer and at most one reader a pipe. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { CELLS = SIM_UB_ARENA / CHECK_BLOCK, ROOM = 4 };

typedef struct record {
    uint32_t mask;
    check_mark mark;
} record;

typedef struct cell {
    uint32_t epoch, written, padding;
    uint16_t count, room;
    record *records; /* in `slab` until there are more than ROOM */
} cell;

struct check_ub {
    cell cells[CELLS];
    record slab[CELLS][ROOM];
};

static int moved(const check_ub *ub, int c)
{
    return ub->cells[c].records != ub->slab[c];
}

check_ub *check_ub_new(void)
{
    check_ub *ub = calloc(1, sizeof *ub);
    for (int c = 0; ub && c < CELLS; c++) {
        ub->cells[c].records = ub->slab[c];
        ub->cells[c].room = ROOM;
    }
    return ub;
}

void check_ub_free(check_ub *ub)
{
    for (int c = 0; ub && c < CELLS; c++)
        if (moved(ub, c))
            free(ub->cells[c].records);
    free(ub);
}

static record *append(check_ub *ub, int c)
{
    cell *at = &ub->cells[c];
    if (at->count == at->room) {
        record *more = malloc(2 * at->room * sizeof *more);
        memcpy(more, at->records, at->count * sizeof *more);
        if (moved(ub, c))
            free(at->records);
        at->records = more;
        at->room *= 2;
    }
    return &at->records[at->count++];
}

static void report_unwritten(const check_access *access, const cell *at, const unsigned char *block,
                             uint32_t missing)
{
    const sim_shadow *shadow = access->core->shadow;
    const asc_site *site = check_site(shadow, access->who), *writer = NULL;
    const int first = __builtin_ctz(missing);
    const long offset = (long)(block + first - access->core->ub);
    const char *operand = access->operand ? access->operand : "a word";
    if (!(at->padding >> first & 1)) {
        sim_fault(access->core, "ub-unwritten", site, NULL,
                  "%s reads %s at UB 0x%lx: found bytes that nothing has written in this "
                  "block, expected them written",
                  site->name, operand, offset);
        return;
    }
    for (int r = 0; r < at->count; r++)
        if ((at->records[r].mask >> first & 1) && (at->records[r].mark.access & SIM_WRITE))
            writer = check_site(shadow, at->records[r].mark.who);
    sim_fault(access->core, "ub-padding", site, writer,
              "%s reads %s at UB 0x%lx: found padding, whose value %s leaves unspecified, "
              "expected data (fewer elements, or asc_set_copy_pad_val and right padding)",
              site->name, operand, offset, writer ? writer->name : "the copy");
}

/* What `mask` of a block meets; what the access makes superfluous is dropped. */
static void meet(const check_access *access, cell *at, const unsigned char *block, uint32_t mask)
{
    const int write = access->access & SIM_WRITE;
    int kept = 0;
    for (int r = 0; r < at->count; r++) {
        record old = at->records[r];
        if (old.mask & mask) {
            check_race(access, &old.mark, block + __builtin_ctz(old.mask & mask));
            if (write || (old.mark.pipe == access->pipe && !(old.mark.access & SIM_WRITE)))
                old.mask &= ~mask;
        }
        if (old.mask)
            at->records[kept++] = old;
    }
    at->count = (uint16_t)kept;
}

static void touch(const check_access *access, int c, uint32_t mask)
{
    sim_shadow *shadow = access->core->shadow;
    cell *at = &shadow->ub->cells[c];
    const unsigned char *block = access->core->ub + (size_t)c * CHECK_BLOCK;
    if (at->epoch != shadow->epoch) {
        at->epoch = shadow->epoch;
        at->written = at->padding = 0;
        at->count = 0;
    }
    if (!(access->access & SIM_WRITE) && (mask & ~at->written))
        report_unwritten(access, at, block, mask & ~at->written);
    meet(access, at, block, mask);
    at->written |= mask; /* a read, too: said once is enough */
    at->padding &= ~mask;
    const check_mark mark = {access->tick, access->who, access->pipe, access->access};
    *append(shadow->ub, c) = (record){mask, mark};
}

static inline uint32_t bits(uint32_t from, uint32_t count)
{
    return (count == CHECK_BLOCK ? ~0u : (1u << count) - 1) << from;
}

void check_ub_touch(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    uint64_t at = (uint64_t)(base - access->core->ub);
    const uint64_t end = at + bytes;
    while (at < end) {
        const uint32_t within = at % CHECK_BLOCK;
        const uint64_t left = end - at;
        const uint32_t n = left < CHECK_BLOCK - within ? (uint32_t)left : CHECK_BLOCK - within;
        touch(access, (int)(at / CHECK_BLOCK), bits(within, n));
        at += n;
    }
}

void check_ub_pad(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    check_ub_touch(access, base, bytes);
    const uint64_t from = (uint64_t)(base - access->core->ub);
    for (uint64_t at = from; at < from + bytes; at++) {
        cell *padded = &access->core->shadow->ub->cells[at / CHECK_BLOCK];
        padded->written &= ~(1u << at % CHECK_BLOCK);
        padded->padding |= 1u << at % CHECK_BLOCK;
    }
}
