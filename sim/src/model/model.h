/* model/model.h - what all folders of the model know: an instruction, a core, the device.
 *
 *   issue/    a call of the API becomes a sim_instr (geometry, pipe, site; mode registers as they
 *             are now)
 *   execute/  launches; a queue for each pipe decides when an instruction runs: sim_check_instr(),
 *             then its `run`, the arithmetic or the copy, in that order
 *   check/    ranges, alignment, races (happens-before), initialisation, flags
 *   time/     sim_time_issue() keeps a record of each instruction in program order; after the
 *             launch the records of all cores are played against the chip's shared resources
 *   report/   what was found and measured: lists of faults, tables, CSV, traces
 *
 * Everything of a core belongs to one host thread at a time; what cores share is in `ascsim` and is
 * touched under its lock or after the launch. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>

#include "ascsim.h"
#include "c_api/asc_calls.h"

typedef enum sim_op {
#define SIM_OP(name, ...) SIM_OP_##name,
#include "c_api/asc_ops.inc"
#undef SIM_OP
    SIM_OPS
} sim_op;

typedef enum sim_kind {
    SIM_COMPUTE, /* inside a core: V, M, MTE1, copies from L0C to L1 */
    SIM_COPY,    /* to or from global memory: MTE2, MTE3, FIX; asc_copy_ub2ub is SIM_COMPUTE */
    /* in the queue of `pipe`: signals (pipe, target, event) when all before it in the pipe has
     * ended */
    SIM_SET,
    /* in the queue of `target`: goes on when (pipe, target, event) is signalled, and takes the
     * signal */
    SIM_WAIT,
    /* in the queue of `pipe`: signals other cores, by mode `target`, id `event`, when all before it
     * has ended */
    SIM_ARRIVE,
    SIM_AWAIT, /* S waits for other cores' signal `event` */
    /* in the queue of `pipe`: all before it in the pipe has ended; ASCSIM_PIPES: of all pipes */
    SIM_BARRIER,
    /* an API call that the scalar unit does by itself: mask, mode, readback of a register */
    SIM_SCALAR
} sim_kind;

typedef enum sim_access { SIM_READ = 1, SIM_WRITE = 2, SIM_ATOMIC = 4 } sim_access;

/* The memories of a core. */
typedef enum sim_space {
#define SIM_SPACE(name, ...) SIM_##name,
#include "spaces.inc"
#undef SIM_SPACE
    SIM_SPACES
} sim_space;

typedef struct sim_space_facts {
    const char *name;       /* "L0A" */
    uint32_t bytes, usable; /* usable: of UB, what options.ub_bytes says */
    const char *prefix;     /* of its faults' kinds */
} sim_space_facts;
extern const sim_space_facts sim_spaces[SIM_SPACES];

/* What the cores of a launch are: a block of it is `cubes` cube cores and `vectors` vector cores,
 * its units, which are numbered through: a block's cube core first. Pure launches have one unit a
 * block. */
typedef struct sim_grid {
    int cubes, vectors;
    int scheduler; /* a mix kernel: its cores may signal each other */
} sim_grid;

static inline int sim_grid_units(sim_grid grid)
{
    return grid.cubes + grid.vectors;
}
static inline int sim_is_cube(sim_grid grid, int64_t unit)
{
    return unit % sim_grid_units(grid) < grid.cubes;
}
static inline int sim_is_mixed(sim_grid grid)
{
    return grid.cubes && grid.vectors;
}

/* The chip's cores as reports number them: vector cores from 0 on, cube cores from SIM_CUBE_CORE
 * on. */
enum { SIM_CUBE_CORE = 64, SIM_CORES = 128 };

/* Whether a core of the chip has the pipe. */
int sim_core_has(int core, int pipe);

/* What one operand of an instruction touches: for h < planes, i < outer, j < inner the `bytes`
 * bytes at base + h*plane_stride + i*outer_stride + j*inner_stride (strides in bytes). With lanes
 * != 0 the operand obeys the mask: element k of step i, counted through its inner pieces, is
 * touched only if bit k of the mask is set, and in counter mode only if i*lanes + k < count.
 * offsets != NULL (gather): piece n lies at base + offsets[n], read when the instruction runs. */
typedef struct sim_operand {
    unsigned char *base;
    uint8_t access;  /* sim_access bits */
    uint8_t element; /* bytes of one element */
    uint16_t align;  /* alignment asked of base, bytes */
    uint16_t lanes;
    uint32_t outer, inner, bytes;
    int64_t outer_stride, inner_stride;
    uint32_t planes;
    int64_t plane_stride;
    const uint32_t *offsets;
    uint8_t
        /* a copy in: bytes behind each piece that the copy fills up to 32 B with something
         * unspecified */
        padding;
    uint8_t global;   /* lies in global memory; else in `space` */
    uint8_t space;    /* sim_space */
    const char *name; /* "dst", "src0": for messages */
} sim_operand;

enum { SIM_OPERANDS = 7, SIM_EVENTS = 8 };

/* How results are rounded: of CTRL, and of the device. */
typedef enum sim_mode {
    SIM_MODE_HALF_INF = 1,      /* CTRL[48]: half does not saturate */
    SIM_MODE_INTEGER_LIMIT = 2, /* CTRL[53]: integers do */
    SIM_MODE_CAST_CUTS = 4,     /* CTRL[59] and [60]: a cast keeps the low bits */
    SIM_MODE_UNFUSED = 8        /* a product is rounded before it is added */
} sim_mode;

typedef struct sim_instr sim_instr;
typedef struct sim_core sim_core;

struct sim_instr {
    const asc_site *site;
    uint64_t index; /* program order in its block, from 1 */
    sim_kind kind;
    sim_op op;
    ascsim_pipe pipe, target; /* target: of a flag */
    uint8_t event;
    uint8_t form;         /* sim_form */
    uint8_t counter_mode; /* mask[0] is a count of elements */
    uint8_t dirty_mask;   /* the mask was left by a count form, not set by the kernel */
    uint8_t type, from;   /* sim_type of dst and of src */
    uint8_t atomic;       /* copies out: 0 none, else asc_atomic << 4 | sim_type */
    uint8_t mode;         /* sim_mode bits at issue */
    uint64_t mask[2];     /* low, high */
    uint32_t repeat, count;
    uint32_t scalar_bytes[2]; /* value operand, bit pattern, or small immediate arguments */
    uint32_t
        extra[6]; /* what an instruction needs beside that: its run function and its issuer agree */
    /* The first argument that does not fit its field of the instruction (NULL: all do): its name,
     * value, and the largest that fits. The geometry below is what the hardware would see: the low
     * bits. */
    const char *misfit;
    int64_t misfit_value, misfit_limit;
    uint8_t unit_flag; /* mmad, copies out of L0C: 0, 2 or 3 */
    uint64_t wide
        [2]; /* registers of the cube core as they were at issue: its run function knows which */
    uint8_t
        ordered; /* writes registers that S reads back: instructions of this kind stay in order */
    void (*run)(sim_core *core, const sim_instr *instr);
    void (*lanes)(const sim_instr *instr, void *dst, const void *src0, const void *src1,
                  int count); /* vector.h */
    int operands;
    sim_operand operand[SIM_OPERANDS]; /* dst first */
};

typedef enum sim_form { SIM_FORM_COUNT, SIM_FORM_REPEAT, SIM_FORM_SCALAR } sim_form;
typedef enum sim_type {
    SIM_HALF,
    SIM_FLOAT,
    SIM_BF16,
    SIM_I8,
    SIM_U8,
    SIM_I16,
    SIM_U16,
    SIM_I32,
    SIM_U32,
    SIM_I64,
    SIM_TYPES
} sim_type;

/* How instructions take UB: blocks of 32 B, repeats of eight. */
enum { SIM_BLOCK = 32, SIM_REPEAT = 256, SIM_REPEAT_BLOCKS = 8 };

extern const uint8_t sim_type_bytes[SIM_TYPES];

/* ---- one block on one core ---- */

enum {
    SIM_UB_BYTES = 196608,
    SIM_UB_ARENA = 262144, /* aligned to its size: address bits are UB offsets */
    SIM_WINDOW = 524288    /* offsets that a kernel may name */
};

typedef struct sim_schedule sim_schedule;       /* execute/schedule.c */
typedef struct sim_region sim_region;           /* execute/device.c */
typedef struct sim_shadow sim_shadow;           /* check/ */
typedef struct sim_record_list sim_record_list; /* time/ */

struct sim_core {
    ascsim *device;
    int64_t block, blocks;
    int64_t unit; /* of the launch: this core's place among all of its blocks' cores */
    sim_grid grid;
    int cube, sub_block; /* a cube core; which of the block's vector cores */
    unsigned char *ub;   /* of the window of addresses that a kernel sees, and of UB */
    unsigned char *memory[SIM_SPACES]; /* memory[SIM_UB] is ub */
    int64_t ub_usable;
    void *arena; /* what holds all memories */
    size_t arena_bytes;
    uint64_t issued; /* instructions so far: the last index */
    const asc_site *last_site;
    /* mode registers, written by S at issue */
    uint64_t mask[2];
    uint64_t ctrl;         /* bits of the register CTRL; 56 is counter_mode */
    uint64_t product_ctrl; /* CTRL at the last product */
    uint8_t counter_mode, dirty_mask, atomic;
    uint8_t mode; /* sim_mode bits */
    uint8_t pad_set;
    const asc_site *mask_site; /* who set the mask, or left it dirty */
    uint64_t pad_value;
    uint64_t cmp_mask[2];                      /* written by V */
    uint32_t reduce_value[2], reduce_index[2]; /* of the last max/min with index */
    int64_t accumulated;                       /* bits of the last sum over repeats */
    uint64_t reserved_count;
    uint16_t merged[4];
    uint64_t cube_register[ASC_CUBE_REGISTERS];    /* by asc_cube_register */
    const asc_site *cube_site[ASC_CUBE_REGISTERS]; /* who set it; NULL: nobody in this block */
    int ffts;                                      /* asc_set_ffts_base_addr() has been called */
    sim_schedule *schedule;
    sim_shadow *shadow;
    sim_record_list *records;
    struct sim_cross *cross; /* check/: flags between the cores of the launch; NULL: it has none */
    struct sim_fiber *fiber; /* execute/group.c: what this core runs on in a mix launch */
    struct sim_stores *stores; /* execute/atomic.c: this block's atomic stores */
    uint64_t random;
    uintptr_t stack_low, stack_high; /* that the kernel runs on, high 0: the thread's own */
    int stopped;
    jmp_buf escape; /* where sim_stop() goes */
};

extern _Thread_local sim_core
    *sim_self; /* the core that this host thread runs now; NULL outside a launch */

/* Bytes of a space that a kernel may use. */
static inline int64_t sim_usable(const sim_core *core, int space)
{
    return space == SIM_UB ? core->ub_usable : sim_spaces[space].usable;
}
/* The space that holds the address, SIM_SPACES: none. */
int sim_space_of(const sim_core *core, const void *address);

/* Ends this block at once (longjmp to the launch): memory would be harmed, or nothing can go on. */
_Noreturn void sim_stop(sim_core *core);

/* ---- the device ---- */

struct sim_region {
    unsigned char *base;
    size_t bytes;
    char name[32];
    uint8_t streams; /* time/: copies in leave nothing in L2 */
    int owned;       /* allocated by the model: to be freed, and begins unwritten */
    void *written;   /* check/: which bytes have been written, NULL: all */
};

struct ascsim {
    ascsim_options options;
    const char *soc;
    int cores;
    sim_region *regions; /* sorted by base */
    int region_count;
    pthread_mutex_t lock;
    const char *kernel_name;
    int64_t launches;
    int64_t load3d_channels;        /* at most, of an image that is loaded to L0A */
    struct sim_faults *faults;      /* report/ */
    struct sim_profile *profile;    /* report/: launches that are over */
    struct check_intervals *global; /* check/: GM accesses of all blocks of this launch */
    struct check_left *left;        /* check/: lines that earlier launches left to S's cache */
    struct time_state *times;       /* time/: L2, and the records of the launch that runs */
    /* check/: a bit for each 32 B of UB that a block of the last launch has touched */
    uint64_t ub_used[SIM_UB_ARENA / SIM_BLOCK / 64];
    sim_core **workers; /* execute/cores.c: one a host thread, kept between launches */
    int worker_count;
};

const sim_region *sim_region_of(const ascsim *device,
                                const void *address); /* NULL: no global memory */
int sim_error(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* sets ascsim_error(); -1 */

/* ---- places in a kernel's code: site.c ---- */

/* Its line is unknown until sim_sites_resolve(). */
const asc_site *sim_site_later(const void *pc, const char *name);
void sim_sites_resolve(void);

#endif
