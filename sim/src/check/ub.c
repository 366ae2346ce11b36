/* check/ub.c - the shadow of UB: which bytes are written, which only padded, and the accesses
 * since, each with the part that it stands for. A line of 256 bytes is kept by blocks of 32, as
 * vector instructions use it, until something touches part of a block; from then on, in this
 * block of the kernel, its eight blocks are kept by bytes. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { LINE = 256, LINES = SIM_UB_ARENA / LINE, CELLS = SIM_UB_ARENA / CHECK_BLOCK, ROOM = 4 };
enum { LINE_CELLS = LINE / CHECK_BLOCK };

typedef struct record {
    uint32_t mask; /* of the parts of its unit */
    check_mark mark;
} record;

/* Up to 32 parts: the blocks of a line or the bytes of a block. Whole ones have one writer and
 * at most one reader a pipe. */
typedef struct unit {
    uint32_t epoch, written, padding;
    uint16_t count, room;
    record *records; /* allocated apart when more than ROOM */
} unit;

struct check_ub {
    unit lines[LINES], cells[CELLS];
    uint32_t by_bytes[LINES]; /* epoch in which the line's cells took over */
    record line_records[LINES][ROOM], cell_records[CELLS][ROOM];
};

static void units_new(unit *units, record (*records)[ROOM], int count)
{
    for (int i = 0; i < count; i++) {
        units[i].records = records[i];
        units[i].room = ROOM;
    }
}

static void units_free(unit *units, int count)
{
    for (int i = 0; i < count; i++)
        if (units[i].room > ROOM)
            free(units[i].records);
}

check_ub *check_ub_new(void)
{
    check_ub *ub = calloc(1, sizeof *ub);
    if (!ub)
        return NULL;
    units_new(ub->lines, ub->line_records, LINES);
    units_new(ub->cells, ub->cell_records, CELLS);
    return ub;
}

void check_ub_free(check_ub *ub)
{
    if (!ub)
        return;
    units_free(ub->lines, LINES);
    units_free(ub->cells, CELLS);
    free(ub);
}

static record *append(unit *u)
{
    if (u->count == u->room) {
        record *more = malloc(2 * u->room * sizeof *more);
        memcpy(more, u->records, u->count * sizeof *more);
        if (u->room > ROOM)
            free(u->records);
        u->records = more;
        u->room *= 2;
    }
    return &u->records[u->count++];
}

static void refresh(unit *u, uint32_t epoch)
{
    if (u->epoch == epoch)
        return;
    u->epoch = epoch;
    u->written = u->padding = 0;
    u->count = 0;
}

static const asc_site *writer_of(const sim_shadow *shadow, const unit *u, int part)
{
    const asc_site *writer = NULL;
    for (int r = 0; r < u->count; r++)
        if ((u->records[r].mask >> part & 1) && (u->records[r].mark.access & SIM_WRITE))
            writer = check_site(shadow, u->records[r].mark.who);
    return writer;
}

/* `part` is the first that is missing, at `address`. */
static void report_unwritten(const check_access *access, const unit *u, int part,
                             const unsigned char *address)
{
    const sim_shadow *shadow = access->core->shadow;
    const asc_site *site = check_site(shadow, access->who);
    const long offset = (long)(address - access->core->ub);
    const char *operand = access->operand ? access->operand : "a word";
    if (!(u->padding >> part & 1)) {
        sim_fault(access->core, "ub-unwritten", site, NULL,
                  "%s reads %s at UB 0x%lx: found bytes that nothing has written in this "
                  "block, expected them written",
                  site->name, operand, offset);
        return;
    }
    const asc_site *writer = writer_of(shadow, u, part);
    sim_fault(access->core, "ub-padding", site, writer,
              "%s reads %s at UB 0x%lx: found padding, whose value %s leaves unspecified, "
              "expected data (fewer elements, or asc_set_copy_pad_val and right padding)",
              site->name, operand, offset, writer ? writer->name : "the copy");
}

/* What `mask` of a unit meets; what the access makes superfluous is dropped. */
static void check_against_earlier(const check_access *access, unit *u, const unsigned char *base,
                                  int part_bytes, uint32_t mask)
{
    const int write = access->access & SIM_WRITE, passing = access->passing;
    int kept = 0;
    for (int r = 0; r < u->count; r++) {
        record old = u->records[r];
        if (old.mask & mask) {
            if (old.mark.tick > access->known[old.mark.pipe])
                check_race(access, &old.mark, base + __builtin_ctz(old.mask & mask) * part_bytes);
            if (!passing &&
                (write || (old.mark.pipe == access->pipe && !(old.mark.access & SIM_WRITE))))
                old.mask &= ~mask;
        }
        if (old.mask)
            u->records[kept++] = old;
    }
    u->count = (uint16_t)kept;
}

static void check_unit(const check_access *access, unit *u, const unsigned char *base,
                       int part_bytes, uint32_t mask)
{
    refresh(u, access->core->shadow->epoch);
    const uint32_t missing = access->access & SIM_WRITE ? 0 : mask & ~u->written;
    if (missing)
        report_unwritten(access, u, __builtin_ctz(missing),
                         base + __builtin_ctz(missing) * part_bytes);
    check_against_earlier(access, u, base, part_bytes, mask);
    u->written |= mask; /* a read, too: said once is enough */
    u->padding &= ~mask;
    if (access->passing)
        return;
    *append(u) = (record){mask, check_mark_of(access)};
}

static inline uint32_t bits(uint32_t from, uint32_t count)
{
    return (count == 32 ? ~0u : (1u << count) - 1) << from;
}

/* The line's cells take over what is known of it. */
static void expand(sim_shadow *shadow, uint32_t line)
{
    check_ub *ub = shadow->ub;
    unit *from = &ub->lines[line];
    if (ub->by_bytes[line] == shadow->epoch)
        return;
    ub->by_bytes[line] = shadow->epoch;
    refresh(from, shadow->epoch);
    for (uint32_t c = 0; c < LINE_CELLS; c++) {
        unit *to = &ub->cells[line * LINE_CELLS + c];
        refresh(to, shadow->epoch);
        to->written = from->written >> c & 1 ? ~0u : 0;
        for (int r = 0; r < from->count; r++)
            if (from->records[r].mask >> c & 1)
                *append(to) = (record){~0u, from->records[r].mark};
    }
}

static void touch_bytes(const check_access *access, uint64_t at, uint64_t end)
{
    while (at < end) {
        const uint32_t within = at % CHECK_BLOCK;
        const uint64_t left = end - at;
        const uint32_t n = left < CHECK_BLOCK - within ? (uint32_t)left : CHECK_BLOCK - within;
        check_unit(access, &access->core->shadow->ub->cells[at / CHECK_BLOCK],
                   access->core->ub + at - within, 1, bits(within, n));
        at += n;
    }
}

void check_ub_touch(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    sim_shadow *shadow = access->core->shadow;
    uint64_t at = (uint64_t)(base - access->core->ub);
    const uint64_t end = at + bytes;
    while (at < end) {
        const uint32_t line = (uint32_t)(at / LINE), within = at % LINE;
        const uint64_t stop = end < (line + 1) * (uint64_t)LINE ? end : (line + 1) * (uint64_t)LINE;
        const uint32_t n = (uint32_t)(stop - at);
        if (shadow->ub->by_bytes[line] == shadow->epoch || (within | n) % CHECK_BLOCK) {
            expand(shadow, line);
            touch_bytes(access, at, stop);
        } else {
            check_unit(access, &shadow->ub->lines[line], access->core->ub + at - within,
                       CHECK_BLOCK, bits(within / CHECK_BLOCK, n / CHECK_BLOCK));
        }
        at = stop;
    }
}

void check_ub_pad(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    sim_shadow *shadow = access->core->shadow;
    const uint64_t from = (uint64_t)(base - access->core->ub);
    for (uint64_t at = from; at < from + bytes; at += LINE - at % LINE)
        expand(shadow, (uint32_t)(at / LINE));
    touch_bytes(access, from, from + bytes);
    for (uint64_t at = from; at < from + bytes; at++) {
        unit *padded = &shadow->ub->cells[at / CHECK_BLOCK];
        padded->written &= ~(1u << at % CHECK_BLOCK);
        padded->padding |= 1u << at % CHECK_BLOCK;
    }
}

const asc_site *check_ub_writer(sim_core *core, const unsigned char *address)
{
    const sim_shadow *shadow = core->shadow;
    const uint64_t at = (uint64_t)(address - core->ub);
    const uint32_t line = (uint32_t)(at / LINE);
    const int by_bytes = shadow->ub->by_bytes[line] == shadow->epoch;
    const unit *u = by_bytes ? &shadow->ub->cells[at / CHECK_BLOCK] : &shadow->ub->lines[line];
    if (u->epoch != shadow->epoch)
        return NULL;
    return writer_of(shadow, u, (int)(by_bytes ? at % CHECK_BLOCK : at % LINE / CHECK_BLOCK));
}
