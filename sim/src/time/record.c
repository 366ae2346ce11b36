/* time/record.c - at issue: a record an instruction, in program order.
 *
 * Blocks of one kernel mostly issue the same instructions on other addresses, so a block's records
 * are kept apart from the addresses of its copies, and blocks with equal records share them. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { DCACHE_LINES = 512 }; /* 32 KiB of 64 B, taken as direct-mapped */

struct sim_record_list {
    time_record *records;
    uint64_t *address;
    int64_t count, room, copies, copy_room;
    double pending; /* cycles of S since the last record */
    uint64_t dcache[DCACHE_LINES];
    time_banks *banks;
    time_chip chip;
    const char *soc;
    int failed; /* too long, or out of memory: the launch has no times */
};

sim_record_list *sim_records_new(void)
{
    sim_record_list *list = calloc(1, sizeof *list);
    if (list && !(list->banks = sim_banks_new())) {
        free(list);
        return NULL;
    }
    return list;
}

void sim_records_free(sim_record_list *list)
{
    if (list) {
        sim_banks_free(list->banks);
        free(list->records);
        free(list->address);
        free(list);
    }
}

static int recording(const sim_core *core)
{
    return core->records && core->device->options.timing != ASCSIM_TIME_NONE;
}

void sim_time_begin(sim_core *core)
{
    if (!recording(core)) {
        return;
    }
    sim_record_list *list = core->records;
    list->count = list->copies = 0;
    list->pending = 0;
    list->failed = 0;
    memset(list->dcache, 0, sizeof list->dcache);
    if (list->soc != core->device->soc) {
        sim_time_chip(&list->chip, core->device->soc);
        list->soc = core->device->soc;
    }
}

static void *grown(void *memory, int64_t *room, size_t bytes)
{
    const int64_t wanted = *room ? 2 * *room : 4096;
    void *more = realloc(memory, (size_t)wanted * bytes);
    if (more) {
        *room = wanted;
    }
    return more;
}

static time_record *next_record(sim_record_list *list)
{
    if (list->failed || list->count * (int64_t)sizeof *list->records >= TIME_MOST_BYTES) {
        list->failed = 1;
        return NULL;
    }
    if (list->count == list->room) {
        time_record *more = grown(list->records, &list->room, sizeof *more);
        if (!more) {
            list->failed = 1;
            return NULL;
        }
        list->records = more;
    }
    return &list->records[list->count++];
}

static void record_copy(sim_record_list *list, time_record *record, const sim_core *core,
                        const sim_instr *instr)
{
    const ascsim *device = core->device;
    const time_chip *chip = &list->chip;
    const sim_operand *memory = NULL;
    for (int i = 0; i < instr->operands; i++) {
        memory = instr->operand[i].global ? &instr->operand[i] : memory;
    }
    if (!memory) { /* nothing that the memory has to do with */
        record->kind = SIM_SCALAR;
        return;
    }
    if (list->copies == list->copy_room) {
        uint64_t *more = grown(list->address, &list->copy_room, sizeof *more);
        if (!more) {
            list->failed = 1;
            return;
        }
        list->address = more;
    }
    list->address[list->copies++] = (uintptr_t)memory->base;
    const sim_region *region = sim_region_of(device, memory->base);
    record->streams = region && region->streams;
    const int split = memory->inner > 1; /* the bursts are the inner pieces */
    record->copy.bursts = memory->planes * memory->outer * memory->inner;
    record->copy.length = memory->bytes;
    const int rows = memory->outer > 1 || memory->planes == 1;
    record->copy.stride = split  ? memory->inner_stride
                          : rows ? memory->outer_stride
                                 : memory->plane_stride;
    const double bytes = (double)record->copy.bursts * record->copy.length;
    const double burst = record->streams ? chip->stream_burst_interval : chip->burst_interval;
    double interval = chip->copy_interval;
    interval = record->copy.bursts > 1 && record->copy.bursts * burst > interval
                   ? record->copy.bursts * burst
                   : interval;
    interval = bytes / chip->request_bytes > interval ? bytes / chip->request_bytes : interval;
    record->busy = (uint32_t)(interval + 0.5);
    if (core->cube) {
        sim_time_cube_copy(record, instr, chip);
    }
}

void sim_time_issue(sim_core *core, const sim_instr *instr)
{
    if (!recording(core)) {
        return;
    }
    sim_record_list *list = core->records;
    time_record *record = next_record(list);
    if (!record) {
        return;
    }
    memset(record, 0, sizeof *record); /* padding too: records are compared as bytes */
    record->site = instr->site;
    record->kind = (uint8_t)instr->kind;
    record->op = (uint8_t)instr->op;
    record->pipe = (uint8_t)instr->pipe;
    record->target = (uint8_t)instr->target;
    record->event = instr->event; /* a wrong one has been reported and cut */
    record->type = instr->type;
    record->scalar = (uint32_t)(list->pending + list->chip.call_cycles);
    list->pending = 0;
    if (instr->kind == SIM_COMPUTE && instr->pipe == ASCSIM_V) {
        sim_time_vector_cost(record, instr, list->banks, &list->chip);
    } else if (instr->kind == SIM_COMPUTE) {
        sim_time_cube_cost(record, instr, &list->chip);
    } else if (instr->kind == SIM_COPY) {
        record_copy(list, record, core, instr);
    }
}

void sim_time_scalar(sim_core *core, const void *address, uint32_t bytes, int access, int global)
{
    (void)bytes;
    (void)access;
    if (!recording(core)) {
        return;
    }
    sim_record_list *list = core->records;
    if (!global) {
        list->pending += list->chip.ub_scalar_cycles;
        return;
    }
    const uint64_t line = (uintptr_t)address / (uint64_t)list->chip.cache_line_bytes + 1;
    uint64_t *cached = &list->dcache[line % DCACHE_LINES];
    list->pending +=
        *cached == line ? list->chip.gm_scalar_cycles : list->chip.gm_scalar_miss_cycles;
    *cached = line;
}

/* A copy of what the list holds; NULL if there is no memory. */
static time_program *program_of(const sim_record_list *list, uint64_t hash)
{
    const size_t bytes = (size_t)list->count * sizeof *list->records;
    time_program *program = malloc(sizeof *program);
    time_record *records = malloc(bytes + 1);
    if (!program || !records) {
        free(program);
        free(records);
        return NULL;
    }
    memcpy(records, list->records, bytes);
    *program = (time_program){records, list->count, list->copies, hash};
    return program;
}

/* The program that equals the list: an earlier block's, or a new one. */
static const time_program *shared_program(time_state *state, const sim_record_list *list,
                                          uint64_t hash)
{
    const time_program *known = sim_time_program(state, hash, list->records, list->count);
    if (known) {
        return known;
    }
    time_program *program = program_of(list, hash);
    return program && sim_time_keep(state, program) == 0 ? program : NULL;
}

static uint64_t hash_of(const sim_record_list *list)
{
    uint64_t hash = (uint64_t)list->count;
    const unsigned char *bytes = (const unsigned char *)list->records;
    for (size_t i = 0; i < (size_t)list->count * sizeof *list->records; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

void sim_time_end(sim_core *core)
{
    sim_record_list *list = core->records;
    if (!recording(core)) {
        return;
    }
    if (list->failed) {
        sim_time_give_up(core->device);
        return;
    }
    const uint64_t hash = hash_of(list);
    const size_t copies = (size_t)list->copies + 1;
    int kept = 0;
    time_block block = {NULL, malloc(copies * sizeof *block.address),
                        calloc(copies, sizeof *block.use)};
    if (block.address && block.use) {
        if (list->copies) {
            memcpy(block.address, list->address, (copies - 1) * sizeof *block.address);
        }
        pthread_mutex_lock(&core->device->lock);
        time_state *state = sim_time_state(core->device);
        block.program = state ? shared_program(state, list, hash) : NULL;
        if (block.program &&
            sim_time_block(state, core->unit, core->blocks * sim_grid_units(core->grid), &block) ==
                0) {
            block = (time_block){0}; /* the state's */
            kept = 1;
        }
        pthread_mutex_unlock(&core->device->lock);
    }
    free(block.address);
    free(block.use);
    if (!kept) {
        sim_time_give_up(core->device);
    }
}
