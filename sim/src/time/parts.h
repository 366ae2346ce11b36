/* time/parts.h - what the files of the cost model share.
 *
 *   record.c   at issue: one record an instruction, in program order; equal programs of blocks are
 *              kept once
 *   cost.c     what an instruction costs in its pipe; bank.c: cycles that UB's banks add
 *   play.c     after the launch: all blocks on all cores, as discrete events; cross.c: flags
 *              between cores
 *   share.c    copies in flight share the memory; l2.c: what of them L2 holds
 *   launch.c   plays under both readings of what is unsettled, keeps the results */
#ifndef SIM_TIME_PARTS_H
#define SIM_TIME_PARTS_H

#include "time.h"

/* One instruction of a block. */
typedef struct time_record {
    const asc_site *site;
    uint8_t kind, op, pipe, target, event, type, streams;
    uint8_t unit_flag; /* mmad, copies out of L0C: what it waits for and leaves */
    uint16_t tile;     /* of L0C that the unit flag is of: its first fractal */
    uint32_t scalar;   /* cycles of S since the record before, issuing it included */
    uint32_t startup,
        /* V: cycles until results flow, cycles of repeats; copies: busy is the issue interval */
        busy;
    union {
        struct {
            uint32_t group_conflict, bank_conflict; /* cycles, contained in busy */
            uint32_t lanes, ub_read, ub_written;    /* bytes */
        } vector;
        struct {
            int64_t stride; /* of global memory, between bursts */
            uint32_t bursts, length;
            uint32_t least; /* cycles that its core needs for the data */
        } copy;
        struct {
            uint64_t operations;
        } cube;
    };
} time_record;

/* The records of a block, shared by blocks with equal ones: they differ in addresses of global
 * memory alone. */
typedef struct time_program {
    time_record *records;
    int64_t count, copies;
    uint64_t hash;
} time_program;

/* What a copy found in L2. */
typedef struct time_use {
    uint32_t lines, hits;
    uint32_t fetched, evicted; /* bytes from HBM; dirty bytes that made room */
} time_use;

typedef struct time_block { /* of a unit */
    const time_program *program;
    uint64_t *address; /* of global memory, one a copy */
    time_use *use;     /* one a copy, found by the first play */
} time_block;

/* Facts of the chip by the names of ascsim_chips.inc. Rates are bytes a second there and bytes a
 * cycle of a vector core here. */
typedef struct time_chip {
#define TIME_CONSTANT(name) double name;
#include "constants.inc"
#undef TIME_CONSTANT
} time_chip;

/* bank.c: accesses of an instruction to UB, in 32 B blocks */
typedef struct time_access {
    uint32_t base;                       /* offset in UB */
    int32_t repeat_stride, block_stride; /* bytes */
    uint16_t blocks;                     /* in a repeat */
    uint16_t access;                     /* sim_access bits */
} time_access;
enum { TIME_ACCESSES = 4 };
typedef struct time_pattern {
    time_access access[TIME_ACCESSES];
    uint32_t count, repeats;
    uint32_t per_repeat; /* cycles that the arithmetic needs */
    uint32_t distance;   /* cycles from reading a repeat to writing its result */
} time_pattern;
typedef struct time_conflict {
    uint32_t cycles, group, bank; /* all; of which lost to one group, to one bank */
} time_conflict;
typedef struct time_banks time_banks; /* remembers patterns it has seen */
time_banks *sim_banks_new(void);
void sim_banks_free(time_banks *banks);
time_conflict sim_banks_cycles(time_banks *banks, const time_pattern *pattern);

/* cost.c */
void sim_time_chip(time_chip *chip, const char *soc);
void sim_time_vector_cost(time_record *record, const sim_instr *instr, time_banks *banks,
                          const time_chip *chip);

/* cube.c: instructions within a cube core; its copies beside what all copies cost */
void sim_time_cube_cost(time_record *record, const sim_instr *instr, const time_chip *chip);
void sim_time_cube_copy(time_record *record, const sim_instr *instr, const time_chip *chip);

/* l2.c: least recently used lines */
typedef struct time_l2 time_l2;
time_l2 *sim_l2_new(int64_t lines, int line_bytes);
void sim_l2_free(time_l2 *l2);
void sim_l2_settle(time_l2 *l2); /* between launches: HBM takes what is dirty */
typedef enum time_touch {
    TIME_READS,
    TIME_WRITES,
    TIME_STREAMS
} time_touch; /* streams: reads that leave nothing behind */
void sim_l2_touch(time_l2 *l2, uint64_t address, int64_t bytes, time_touch how, time_use *use);

/* launch.c: what is kept of a device: the chip, what L2 holds, the records of the launch that runs.
 * Under the device's lock. */
typedef struct time_state time_state;
time_state *sim_time_state(ascsim *device); /* made if missing; NULL: no memory */
const time_program *sim_time_program(const time_state *state, uint64_t hash,
                                     const time_record *records, int64_t count);
int sim_time_keep(time_state *state, time_program *program); /* owns it afterwards */
enum { TIME_MOST_BYTES = 1 << 30 };                          /* that a launch keeps for its play */
int sim_time_block(time_state *state, int64_t unit, int64_t units, const time_block *block);
void sim_time_give_up(ascsim *device); /* takes the lock: this launch gets no times */

#endif
