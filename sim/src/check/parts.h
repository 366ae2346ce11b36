/* check/parts.h - what the files of this folder share: the state of one block, and how an operand
 * becomes ranges of bytes.
 *
 * A tick is program order in a block: an instruction has 2 * index, S's own loads and stores
 * after it 2 * index + 1. clock[P][Q] is the last tick of pipe Q that pipe P knows to have
 * ended; an access of P is ordered after one of Q if its tick is no larger than that. */
#ifndef SIM_CHECK_PARTS_H
#define SIM_CHECK_PARTS_H

#include "check.h"
#include "report/report.h"

enum { CHECK_REGISTERS = 5, CHECK_BLOCK = 32, CHECK_PAGE = 4096, CHECK_LINE = 64 };

/* One access of a pipe: who did it, when, and what its pipe knew. */
typedef struct check_access {
    sim_core *core;
    const uint32_t *known; /* clock of its pipe */
    const char *operand;   /* "dst", "src0"; NULL: a load or store of S */
    uint32_t tick, who;
    uint8_t pipe, access; /* sim_access bits */
    uint8_t atomic;       /* which atomic store: as in sim_instr */
    uint8_t passing;      /* looks, but leaves no mark */
    uint8_t space;        /* sim_space */
    uint8_t lenient;      /* reads what may be unwritten */
} check_access;

/* An access as it is remembered. */
typedef struct check_mark {
    uint32_t tick, who;
    uint8_t pipe, access, atomic;
} check_mark;

static inline check_mark check_mark_of(const check_access *access)
{
    return (check_mark){access->tick, access->who, access->pipe, access->access, access->atomic};
}

/* Two atomic stores of one kind and type may meet in any order. */
static inline int check_commute(uint8_t access, uint8_t atomic, uint8_t other, uint8_t other_atomic)
{
    return (access & other & SIM_ATOMIC) && atomic == other_atomic;
}

/* The pairs that the access looked at now races with: a missing barrier is said once, not once
 * as RAW and again as WAW. */
typedef struct check_races {
    uint32_t tick, count;
    const asc_site *other[8];
    const char *kind[8];
} check_races;

typedef struct check_order check_order;       /* order.c */
typedef struct check_local check_local;       /* local.c */
typedef struct check_global check_global;     /* global.c */
typedef struct check_sites check_sites;       /* who.c */
typedef struct check_fractals check_fractals; /* fractal.c */

struct sim_shadow {
    uint32_t epoch;    /* of the block; what carries another one counts as empty */
    uint32_t now;      /* tick of what is looked at: dates a fault */
    uint32_t at_fault; /* tick of the last one */
    check_races races;
    const asc_site *atomic_site, *mode_site;
    const asc_site *compared; /* the comparison that the compare mask is of; NULL: of none */
    check_mark
        registers[CHECK_REGISTERS]; /* the instruction of V that wrote last; tick 0: none did */
    check_order *order;
    check_local *local[SIM_SPACES]; /* the cube core's: NULL until a block runs on one */
    check_fractals *fractals;       /* of a cube core */
    check_global *global;
    check_sites *sites;
    sim_faults *faults;
};

static inline uint32_t check_tick(const sim_instr *instr)
{
    return (uint32_t)(2 * instr->index);
}

/* ---- who.c ---- */

check_sites *check_sites_new(void);
void check_sites_free(check_sites *sites);
/* A number for who does an access: the site of a call, or the place of a load or store (write)
 * of S. */
uint32_t check_who(sim_shadow *shadow, const asc_site *site);
uint32_t check_who_scalar(sim_shadow *shadow, const void *pc, int write);
const asc_site *check_site(const sim_shadow *shadow, uint32_t who);

/* ---- block.c ---- */

/* kind: a name of report/faults.inc. other: NULL for none. */
void sim_fault(sim_core *core, const char *kind, const asc_site *site, const asc_site *other,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- order.c, flags.c ---- */

check_order *check_order_new(void);
void check_order_free(check_order *order);
void check_order_begin(sim_core *core);
void check_order_issue(sim_core *core, const sim_instr *instr);
void check_order_gather(sim_core *core, const sim_instr *instr); /* its offsets are known now */
void check_order_scalar(sim_core *core, check_access *access);   /* fills in tick and clock */
void check_order_end(sim_core *core);
extern const char *const check_pipe_names[ASCSIM_PIPES];

/* ---- access.c ---- */

/* Whether `mark` and `access` clash without an order between them; if so reports it. */
int check_race(const check_access *access, const check_mark *mark, const void *address);
/* All that an instruction reads, then all that it writes. */
void check_operands(sim_core *core, const sim_instr *instr, const uint32_t *known);

/* ---- registers.c ---- */

/* What an instruction writes and reads of V's registers. */
void check_registers(check_access *access, const sim_instr *instr);
/* S reads back a register of V; known: the last tick of V that S knows to have ended. */
void check_register(sim_core *core, const sim_instr *instr, uint32_t known);

/* ---- issue.c, ranges.c, overlap.c, pieces.c ---- */

/* An operand lies within one memory, and aligned. */
void check_place(sim_core *core, const sim_instr *instr, const sim_operand *operand);
void check_overlap(sim_core *core, const sim_instr *instr);
/* Offsets of a gather lead into UB (0: not all) and keep its elements whole. */
int check_offsets(sim_core *core, const sim_instr *instr, const sim_operand *operand);
/* Whether what the operand touches exists, so that the instruction may run. */
int check_reachable(sim_core *core, const sim_instr *instr, const sim_operand *operand);
/* Where the bytes that an operand may touch begin and end, the mask aside. */
void check_hull(const sim_operand *operand, uintptr_t *low, uintptr_t *high);

/* ---- local.c ---- */

check_local *check_local_new(uint32_t bytes);
void check_local_free(check_local *local);
/* In the memory access->space. */
void check_local_touch(const check_access *access, const unsigned char *base, uint64_t bytes);
void check_local_pad(const check_access *access, const unsigned char *base, uint64_t bytes);
/* Who wrote the byte of UB last; NULL: nobody in this block. */
const asc_site *check_ub_writer(const sim_core *core, const unsigned char *address);

/* Adds the blocks of 32 B that this block of the kernel has touched, a bit each. */
void check_local_used(const check_local *local, uint32_t epoch, uint64_t *used);

/* Whether all of a block of 32 B, which begins at `address`, is written; from now on bytes of whole
 * blocks are not. */
int check_local_written(sim_core *core, int space, const unsigned char *address);
void check_local_forget(sim_core *core, int space, const unsigned char *address, uint64_t bytes);

/* ---- cube.c, fractal.c ---- */

/* What a call of the cube core alone tells. */
void check_cube(sim_core *core, const sim_instr *instr);
check_fractals *check_fractals_new(void);
void check_fractals_begin(check_fractals *fractals);
/* What an instruction's fractals hold, and whether that belongs together. */
void check_fractals_of(sim_core *core, const sim_instr *instr);

/* ---- global.c, pages.c, cache.c ---- */

check_global *check_global_new(void);
void check_global_free(check_global *global);
void check_global_begin(sim_core *core);
void check_global_touch(const check_access *access, const unsigned char *base, uint64_t bytes);
void check_global_flush(sim_core *core, const void *line); /* dcci; NULL: the whole cache */
void check_global_end(sim_core *core); /* hands the block's accesses to the device */
const sim_region *check_region(const ascsim *device, const void *base,
                               uint64_t bytes); /* that holds all of it */
/* "x (4096 bytes)", the region that `address` lies in or behind; `text` is 128 bytes. */
const char *check_describe(const ascsim *device, const void *address, char *text);

/* ---- launch.c ---- */

typedef struct check_interval {
    uintptr_t low, high;
    const asc_site *site;
    int32_t block;
    uint32_t tick;
    int64_t unit;
    uint8_t pipe, access, atomic;
} check_interval;
void check_launch_add(ascsim *device, const check_interval *intervals, size_t count);
void check_launch_doubt(ascsim *device, const check_interval *read);
/* ---- left.c: a launch has ended, with these accesses ---- */
void check_left_end(ascsim *device, const check_interval *items, size_t count);
void check_left_free(ascsim *device);
const unsigned char *check_unwritten(const sim_region *region, const unsigned char *base,
                                     uint64_t bytes); /* NULL: none */

/* ---- the bytes of an operand ---- */

/* Bytes [from, to) of a step, counted through its pieces, that the mask selects. */
typedef struct check_run {
    uint32_t from, to;
} check_run;

enum { CHECK_RUNS = 65 };

/* The runs of one step; 0 ends a counted operand. */
int check_runs(const sim_instr *instr, const sim_operand *operand, uint32_t step,
               check_run runs[CHECK_RUNS]);

typedef void check_visit(void *to, unsigned char *base, uint64_t bytes);

/* Calls `visit` for the bytes of `operand` that the mask selects, neighbours joined. */
void check_pieces(const sim_instr *instr, const sim_operand *operand, check_visit *visit, void *to);

#endif
