/* check/local.c - the shadow of one memory of a core: which bytes are written, which only padded,
 * and the accesses since, each with the part that it stands for. A line of 256 bytes is kept by
 * blocks of 32, as vector instructions use it, until something touches part of a block; from then
 * on, in this block of the kernel, its eight blocks are kept by bytes. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { LINE = 256, ROOM = 4, LINE_CELLS = LINE / CHECK_BLOCK };

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

struct check_local {
    int count;               /* of lines */
    unit *lines, *cells;     /* in one piece */
    record (*records)[ROOM]; /* of each unit */
    uint32_t *by_bytes;      /* a line: epoch in which its cells took over */
};

check_local *check_local_new(uint32_t bytes)
{
    check_local *local = calloc(1, sizeof *local);
    if (!local)
        return NULL;
    local->count = (int)(bytes / LINE);
    const size_t units = (size_t)local->count * (1 + LINE_CELLS);
    local->lines = calloc(units, sizeof *local->lines);
    local->records = calloc(units, sizeof *local->records);
    local->by_bytes = calloc((size_t)local->count, sizeof *local->by_bytes);
    if (!local->lines || !local->records || !local->by_bytes) {
        check_local_free(local);
        return NULL;
    }
    local->cells = local->lines + local->count;
    for (size_t i = 0; i < units; i++) {
        local->lines[i].records = local->records[i];
        local->lines[i].room = ROOM;
    }
    return local;
}

void check_local_free(check_local *local)
{
    if (!local)
        return;
    for (int i = 0; local->lines && i < local->count * (1 + LINE_CELLS); i++)
        if (local->lines[i].room > ROOM)
            free(local->lines[i].records);
    free(local->lines);
    free(local->records);
    free(local->by_bytes);
    free(local);
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
    const long offset = (long)(address - access->core->memory[access->space]);
    const sim_space_facts *space = &sim_spaces[access->space];
    const char *operand = access->operand ? access->operand : "a word";
    if (!(u->padding >> part & 1)) {
        sim_fault(access->core, access->space == SIM_UB ? "ub-unwritten" : "cube-unwritten", site,
                  NULL,
                  "%s reads %s at %s 0x%lx: found bytes that nothing has written in this "
                  "block, expected them written",
                  site->name, operand, space->name, offset);
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
    const int looks = !(access->access & SIM_WRITE) && !access->lenient;
    const uint32_t missing = looks ? mask & ~u->written : 0;
    if (missing)
        report_unwritten(access, u, __builtin_ctz(missing),
                         base + __builtin_ctz(missing) * part_bytes);
    check_against_earlier(access, u, base, part_bytes, mask);
    if (!access->lenient)
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
static void expand(check_local *local, uint32_t epoch, uint32_t line)
{
    unit *from = &local->lines[line];
    if (local->by_bytes[line] == epoch)
        return;
    local->by_bytes[line] = epoch;
    refresh(from, epoch);
    for (uint32_t c = 0; c < LINE_CELLS; c++) {
        unit *to = &local->cells[line * LINE_CELLS + c];
        refresh(to, epoch);
        to->written = from->written >> c & 1 ? ~0u : 0;
        for (int r = 0; r < from->count; r++)
            if (from->records[r].mask >> c & 1)
                *append(to) = (record){~0u, from->records[r].mark};
    }
}

static void touch_bytes(const check_access *access, check_local *local, uint64_t at, uint64_t end)
{
    while (at < end) {
        const uint32_t within = at % CHECK_BLOCK;
        const uint64_t left = end - at;
        const uint32_t n = left < CHECK_BLOCK - within ? (uint32_t)left : CHECK_BLOCK - within;
        check_unit(access, &local->cells[at / CHECK_BLOCK],
                   access->core->memory[access->space] + at - within, 1, bits(within, n));
        at += n;
    }
}

void check_local_touch(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    const sim_shadow *shadow = access->core->shadow;
    check_local *local = shadow->local[access->space];
    unsigned char *memory = access->core->memory[access->space];
    uint64_t at = (uint64_t)(base - memory);
    const uint64_t end = at + bytes;
    while (at < end) {
        const uint32_t line = (uint32_t)(at / LINE), within = at % LINE;
        const uint64_t stop = end < (line + 1) * (uint64_t)LINE ? end : (line + 1) * (uint64_t)LINE;
        const uint32_t n = (uint32_t)(stop - at);
        if (local->by_bytes[line] == shadow->epoch || (within | n) % CHECK_BLOCK) {
            expand(local, shadow->epoch, line);
            touch_bytes(access, local, at, stop);
        } else {
            check_unit(access, &local->lines[line], memory + at - within, CHECK_BLOCK,
                       bits(within / CHECK_BLOCK, n / CHECK_BLOCK));
        }
        at = stop;
    }
}

void check_local_pad(const check_access *access, const unsigned char *base, uint64_t bytes)
{
    const sim_shadow *shadow = access->core->shadow;
    check_local *local = shadow->local[access->space];
    const uint64_t from = (uint64_t)(base - access->core->memory[access->space]);
    for (uint64_t at = from; at < from + bytes; at += LINE - at % LINE)
        expand(local, shadow->epoch, (uint32_t)(at / LINE));
    touch_bytes(access, local, from, from + bytes);
    for (uint64_t at = from; at < from + bytes; at++) {
        unit *padded = &local->cells[at / CHECK_BLOCK];
        padded->written &= ~(1u << at % CHECK_BLOCK);
        padded->padding |= 1u << at % CHECK_BLOCK;
    }
}

const asc_site *check_ub_writer(const sim_core *core, const unsigned char *address)
{
    const sim_shadow *shadow = core->shadow;
    const check_local *local = shadow->local[SIM_UB];
    const uint64_t at = (uint64_t)(address - core->ub);
    const uint32_t line = (uint32_t)(at / LINE);
    const int by_bytes = local->by_bytes[line] == shadow->epoch;
    const unit *u = by_bytes ? &local->cells[at / CHECK_BLOCK] : &local->lines[line];
    if (u->epoch != shadow->epoch)
        return NULL;
    return writer_of(shadow, u, (int)(by_bytes ? at % CHECK_BLOCK : at % LINE / CHECK_BLOCK));
}

/* The unit that keeps what is at `at`, and the part of it. */
static unit *unit_of(sim_core *core, int space, const unsigned char *address, int *part)
{
    const sim_shadow *shadow = core->shadow;
    check_local *local = shadow->local[space];
    const uint64_t at = (uint64_t)(address - core->memory[space]);
    const uint32_t line = (uint32_t)(at / LINE);
    unit *u = &local->lines[line];
    *part = (int)(at % LINE / CHECK_BLOCK);
    if (local->by_bytes[line] == shadow->epoch) {
        u = &local->cells[at / CHECK_BLOCK];
        *part = -1; /* all of it */
    }
    refresh(u, shadow->epoch);
    return u;
}

int check_local_written(sim_core *core, int space, const unsigned char *address)
{
    int part;
    const unit *u = unit_of(core, space, address, &part);
    return part < 0 ? u->written == ~0u : (int)(u->written >> part & 1);
}

void check_local_forget(sim_core *core, int space, const unsigned char *address, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += CHECK_BLOCK) {
        int part;
        unit *u = unit_of(core, space, address + at, &part);
        u->written &= part < 0 ? 0 : ~(1u << part);
    }
}

/* The parts of a unit that something touched. */
static uint32_t touched(const unit *u, uint32_t epoch)
{
    uint32_t parts = u->epoch == epoch ? u->written | u->padding : 0;
    for (int r = 0; u->epoch == epoch && r < u->count; r++)
        parts |= u->records[r].mask;
    return parts;
}

void check_local_used(const check_local *local, uint32_t epoch, uint64_t *used)
{
    for (int line = 0; line < local->count; line++) {
        uint64_t cells = 0;
        if (local->by_bytes[line] != epoch)
            cells = touched(&local->lines[line], epoch);
        else
            for (int c = 0; c < LINE_CELLS; c++)
                cells |= (uint64_t) !!touched(&local->cells[line * LINE_CELLS + c], epoch) << c;
        used[line * LINE_CELLS / 64] |= cells << line * LINE_CELLS % 64;
    }
}
