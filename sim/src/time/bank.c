/* time/bank.c - cycles that a vector instruction needs to read and write UB, banks and bank groups
 * arbitrated.
 *
 * Address bits: 0-4 byte of a block, 5-8 group (16), 9-15 row, 16-17 bank of the group. In a cycle
 * a group does one read and one write, a bank one of either. Writes go first, then the sources in
 * order; a block that was refused tries again in the next cycle. A repeat is read when the one
 * before it has been; its result is written `distance` cycles later. With a distance of 15 this
 * gives the eight published scenarios of bank_conflict_ub to the cycle, the free in-place operation
 * among them: odd distances keep reads and writes of neighbouring repeats on different halves of
 * the groups. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { BLOCKS = 32, WRITES = 64, REMEMBERED = 1024 };

typedef struct entry {
    time_pattern pattern;
    time_conflict conflict;
} entry;

struct time_banks {
    entry *entries;
};

time_banks *sim_banks_new(void)
{
    time_banks *banks = calloc(1, sizeof *banks);
    if (banks && !(banks->entries = calloc(REMEMBERED, sizeof *banks->entries))) {
        free(banks);
        return NULL;
    }
    return banks;
}

void sim_banks_free(time_banks *banks)
{
    if (banks) {
        free(banks->entries);
        free(banks);
    }
}

/* Blocks that wait for a port. */
typedef struct blocks {
    int count;
    uint8_t bank[BLOCKS]; /* group + 16 * bank in group */
} blocks;

typedef struct ports {
    uint32_t read_groups, write_groups;
    uint64_t read_banks, write_banks;
} ports;

static void add_blocks(blocks *list, const time_access *access, uint32_t repeat)
{
    int64_t last = -1;
    for (uint32_t k = 0; k < access->blocks && list->count < BLOCKS; k++) {
        const int64_t address = access->base + (int64_t)repeat * access->repeat_stride +
                                (int64_t)k * access->block_stride;
        const int64_t block = (address & (SIM_UB_ARENA - 1)) >> 5;
        if (block != last) { /* a block that repeats is read once */
            list->bank[list->count++] = (uint8_t)((block & 15) | (block >> 11 << 4));
        }
        last = block;
    }
}

/* A source with a repeat stride of 0 is read by the first repeat alone. */
static void gather_repeat(blocks *list, const time_pattern *pattern, uint32_t repeat, int access)
{
    list->count = 0;
    for (uint32_t i = 0; i < pattern->count; i++) {
        const time_access *operand = &pattern->access[i];
        const int again = access == SIM_WRITE || repeat == 0 || operand->repeat_stride != 0;
        if ((operand->access & access) && again) {
            add_blocks(list, operand, repeat);
        }
    }
}

static void grant_writes(blocks *list, ports *now, time_conflict *conflict)
{
    int left = 0;
    for (int i = 0; i < list->count; i++) {
        const uint32_t group = 1u << (list->bank[i] & 15);
        if (now->write_groups & group) {
            list->bank[left++] = list->bank[i];
        } else {
            now->write_groups |= group;
            now->write_banks |= 1ull << list->bank[i];
        }
    }
    conflict->group += left > 0;
    list->count = left;
}

static void grant_reads(blocks *list, ports *now, time_conflict *conflict)
{
    int left = 0, group_refused = 0;
    for (int i = 0; i < list->count; i++) {
        const uint32_t group = 1u << (list->bank[i] & 15);
        if ((now->read_groups & group) || (now->write_banks >> list->bank[i] & 1)) {
            group_refused |= (now->read_groups & group) != 0;
            list->bank[left++] = list->bank[i];
        } else {
            now->read_groups |= group;
        }
    }
    if (left) {
        conflict->group += group_refused;
        conflict->bank += !group_refused;
    }
    list->count = left;
}

static time_conflict arbitrate(const time_pattern *pattern)
{
    time_conflict conflict = {0};
    blocks reads, writes[WRITES];
    uint64_t due[WRITES];
    uint32_t read = 0, written = 0; /* repeats */
    uint64_t now = 0, next_read = 0;
    gather_repeat(&reads, pattern, 0, SIM_READ);
    for (; written < pattern->repeats; now++) {
        ports ports = {0};
        if (written < read && due[written % WRITES] <= now) {
            blocks *head = &writes[written % WRITES];
            grant_writes(head, &ports, &conflict);
            written += head->count == 0;
        }
        if (read == pattern->repeats || now < next_read || read - written == WRITES) {
            continue;
        }
        grant_reads(&reads, &ports, &conflict);
        if (reads.count == 0) {
            gather_repeat(&writes[read % WRITES], pattern, read, SIM_WRITE);
            due[read % WRITES] = now + pattern->distance;
            next_read += pattern->per_repeat;
            next_read = next_read > now + 1 ? next_read : now + 1;
            if (++read < pattern->repeats) {
                gather_repeat(&reads, pattern, read, SIM_READ);
            }
        }
    }
    const uint64_t clean = (uint64_t)pattern->repeats * pattern->per_repeat;
    const uint64_t written_at = now - pattern->distance;
    conflict.cycles = (uint32_t)(written_at > next_read ? written_at : next_read);
    /* What was lost, split as the refusals were: one cycle can refuse several, and a wait may cost
     * nothing. */
    const uint32_t refused = conflict.group + conflict.bank,
                   lost = conflict.cycles - (uint32_t)clean;
    conflict.group = refused ? (uint32_t)((uint64_t)lost * conflict.group / refused) : 0;
    conflict.bank = lost - conflict.group;
    return conflict;
}

time_conflict sim_banks_cycles(time_banks *banks, const time_pattern *pattern)
{
    const unsigned char *bytes = (const unsigned char *)pattern;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *pattern; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, 4);
        hash = (hash ^ word) * 1099511628211u;
    }
    entry *known = &banks->entries[(hash ^ hash >> 29) % REMEMBERED];
    if (memcmp(&known->pattern, pattern, sizeof *pattern) != 0) {
        known->pattern = *pattern;
        known->conflict = arbitrate(pattern);
    }
    return known->conflict;
}
