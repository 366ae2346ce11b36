/* tigon/npu.h - plans for an NPU's Unified Buffer: how large it is, and where each buffer of a
 * kernel lies in it; and how long launches of kernels took.
 *
 * A vector core of an Ascend NPU computes in its Unified Buffer (UB), some 192 KiB that a kernel
 * divides itself. Here a kernel declares its buffers as data, and tg_ub_plan() answers with a tile
 * that fits, the place of every buffer, and the launch:
 *
 *   static const tg_ub_buffer buffers[] = {
 *       {.name = "x", .bytes = TG_UB_DTYPE, .from = 0, .to = 2, .copies = 2},
 *       {.name = "x32", .bytes = 4, .from = 1, .to = 2, .when = TG_UB_16BIT},
 *       {.name = "sums", .per = TG_UB_ROW, .bytes = 4, .from = 2, .to = 3},
 *       {.name = "weight", .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST},
 *       {.name = "y", .bytes = TG_UB_DTYPE, .from = 2, .to = 3, .copies = 2},
 *   };
 *   static const tg_ub_kernel kernel = {.name = "rms_norm_forward.rows", .nbuffers = 5,
 *                                       .buffers = buffers};
 *   tg_ub_problem problem = {.rows = 2048, .columns = 4096, .dtype_bytes = 2, .cores = 40,
 *                            .ub_bytes = tg_ub_usable_bytes(capacity_bits)};
 *   tg_ub_layout layout;
 *   tg_status status = tg_ub_plan(&kernel, &problem, &layout);
 *
 * Nothing here needs a card, a backend or a context. Sizes are in bytes unless a name says
 * otherwise; capacities are bits, as in ASCEND_UB_CAPACITY_BITS and in the compilers' messages. */
#ifndef TIGON_NPU_H
#define TIGON_NPU_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- chips ---- */

typedef struct tg_npu_chip {
    const char *name; /* "910B4" */
    int vector_cores;
    int clock_mhz;
    int64_t ub_bytes; /* the whole UB of a vector core */
    int64_t l2_bytes;
} tg_npu_chip;

/* Bytes at the end of the UB that CANN reserves: for its run time always, and for Ascend C's
 * library in kernels that were compiled without --cce-disable-asc-reserved-ubuf. Tigon's kernels do
 * not use that library, and Tigon's build passes the option. */
enum { TG_UB_RESERVED = 256, TG_UB_RESERVED_BY_ASC = 8 * 1024 };

/* The chips of the table, in order of their names. */
TG_API int tg_npu_chip_count(void);
TG_API const tg_npu_chip *tg_npu_chip_at(int chip);
/* By name: "910B4", "Ascend910B4" and "Ascend910B4-1" are one chip, and "Ascend910_9391" is a
 * "910C", one of the two dies of an A3. NULL if the table lacks it. */
TG_API const tg_npu_chip *tg_npu_chip_find(const char *name);
/* Why the table lacks a chip of this name for which Tigon has no kernels: "is of architecture 3510,
 * ..." of "Ascend950PR". NULL of other names, whether the table has them or not. */
TG_API const char *tg_npu_chip_refused(const char *name);

/* Capacity of the UB in bits. The first source that answers counts:
 *   1. explicit_bits, if it is not 0;
 *   2. ASCEND_UB_CAPACITY_BITS, if it is an integer above 0 (anything else is ignored);
 *   3. CANN (libascendcl.so), if there is a card: what it says of device 0, else the table's entry
 *      for the card's name;
 *   4. the table's entry for `soc`; NULL: that of TIGON_SOC, else 910B4.
 * source: where the answer comes from, in words that live as long as the process; may be NULL.
 * Errors: TG_EINVAL explicit_bits below 0; TG_ENOTFOUND a chip that the table lacks, with the names
 * that it has. */
TG_API tg_status tg_ub_capacity_bits(int64_t explicit_bits, const char *soc, int64_t *bits,
                                     const char **source);

/* How many bytes of the UB a kernel compiled with CANN may use: capacity_bits / 8 - TG_UB_RESERVED,
 * at least 0. It is TG_UB_RESERVED_BY_ASC less if the kernels for a card were compiled without the
 * option above: if TIGON_ASCEND_RESERVED_UBUF is 1, or if it is neither 0 nor 1 and this library
 * was configured with -DTIGON_ASCEND_RESERVED_UBUF=ON. */
TG_API int64_t tg_ub_usable_bytes(int64_t capacity_bits);

/* ---- what a kernel declares ---- */

enum {
    TG_UB_BUFFERS = 32, /* buffers of a kernel at most */
    TG_UB_STEPS = 32,   /* steps of a kernel's body at most: 0 ... 31 */
    TG_UB_LAST = 31,    /* .to of a buffer that stays: .from = 0, .to = TG_UB_LAST lives always */
    TG_UB_DTYPE = 0     /* .bytes: the size of the problem's data type */
};

/* What the size of a buffer is proportional to. */
typedef enum tg_ub_per {
    TG_UB_ELEMENT = 0, /* rows x columns of the tile; every row begins aligned */
    TG_UB_ROW = 1,     /* rows of the tile, one beside the other */
    TG_UB_COLUMN = 2,  /* columns of the tile */
    TG_UB_FIXED = 3    /* a constant size */
} tg_ub_per;

/* Banks: two sources of one vector instruction are read without conflict if they lie 256 bytes
 * apart modulo 512: declare LOW for the first and HIGH for the second. */
typedef enum tg_ub_bank {
    TG_UB_BANK_ANY = 0,
    TG_UB_BANK_LOW = 1, /* offset = 0 modulo 512 */
    TG_UB_BANK_HIGH = 2 /* offset = 256 modulo 512 */
} tg_ub_bank;

/* Bits of .when. The lower two are set by the planner from the problem's dtype_bytes; from
 * TG_UB_OPTION(0) on they are the kernel's own (is there a weight, is dx wanted...). */
enum { TG_UB_16BIT = 1, TG_UB_32BIT = 2 };
#define TG_UB_OPTION(i) (1u << (8 + (i)))

/* A buffer of a kernel. Zero is the usual value of each field; .from = .to = 0 means that the
 * buffer is alive at step 0 alone. */
typedef struct tg_ub_buffer {
    const char *name;
    tg_ub_per per;
    int bytes; /* for each element, row, column; or altogether. TG_UB_DTYPE: the data type's size */
    int every; /* `bytes` for each `every` columns: 8 for a mask of bits, 64 for one partial sum a
                  repeat of f32; 0: 1. Of TG_UB_ELEMENT and TG_UB_COLUMN alone */
    int from, to; /* first and last step of the body at which it holds something. Buffers that are
                     never alive at one step may lie in the same memory; it is the kernel that waits
                     for the old one's last use, that of the tile before at step 0 */
    int copies;   /* 2: double buffering. 0: 1. With several copies it lives at every step, since
                     the next tile's copy is filled while this one's is used */
    int align;    /* of every copy, and of every row of TG_UB_ELEMENT; a power of two; 0: 32 */
    tg_ub_bank bank;
    uint32_t when; /* it is there only if the problem has all these bits; 0: always */
} tg_ub_buffer;

typedef struct tg_ub_kernel {
    const char *name; /* operator and variant: "rms_norm_forward.rows" */
    int nbuffers;
    const tg_ub_buffer *buffers;
    int whole_rows;            /* 1: it cannot cut a row; columns that do not fit are an error */
    int flat;                  /* 1: elements are independent: pieces of one row may go to several
                                  blocks. 0: a row belongs to one block, which walks its pieces */
    int column_multiple;       /* pitch, and pieces of a row, are multiples of it (64: whole repeats
                                  of f32); 0: as the buffers' alignment needs */
    int64_t max_rows;          /* of a tile (255: one repeat a row); 0: any */
    int64_t max_columns;       /* of a tile; 0: any */
    int blocks_per_core;       /* k: cores x k blocks are launched; 0: 1 */
    const char *const *steps;  /* what the steps are, for reports: ended by NULL; or NULL */
    const char *const *option; /* names of TG_UB_OPTION(0), ...: ended by NULL; or NULL */
} tg_ub_kernel;

/* ---- what is asked of the planner ---- */

typedef struct tg_ub_problem {
    int64_t rows, columns;
    int dtype_bytes;  /* of the data: 2 or 4 */
    int cores;        /* vector cores, of which each runs a block at a time */
    int64_t ub_bytes; /* what the kernel may use: tg_ub_usable_bytes() */
    int power_of_two; /* 1: tile_rows and the allocated columns are powers of two */
    uint32_t options; /* TG_UB_OPTION bits */
} tg_ub_problem;

/* ---- what the planner answers ---- */

/* Why the plan is as it is, in the order of the decisions; tg_ub_reason() has the words. */
typedef enum tg_ub_why {
    TG_UB_WHOLE_ROWS,    /* a row fits with all buffers */
    TG_UB_CUT_ROWS,      /* a row does not: one at a time, in pieces of columns */
    TG_UB_CUT_FOR_CORES, /* there are fewer rows than cores: pieces of a row go to several blocks */
    TG_UB_ONE_TILE,      /* all of them: there are no more rows, or columns */
    TG_UB_BY_ROOM,       /* as many rows or columns as the UB holds */
    TG_UB_BY_LIMIT,      /* as many as the kernel takes */
    TG_UB_BY_SHARE,      /* fewer: tiles of one size, in equal numbers for all blocks */
    TG_UB_BY_COPIES,     /* fewer: each block has as many tiles as buffers have copies */
    TG_UB_POWER_OF_TWO,  /* rounded down, as asked */
    TG_UB_SHARED,        /* buffers lie in memory of others that are not alive then */
    TG_UB_BLOCKS_ALL,    /* cores x k blocks */
    TG_UB_BLOCKS_TASKS,  /* fewer: there is no more work */
    TG_UB_WHYS
} tg_ub_why;

typedef struct tg_ub_place {
    int64_t offset;      /* in the UB, of the first copy */
    int64_t bytes;       /* of one copy, padding included */
    int64_t copy_stride; /* from one copy to the next; = bytes, or more for alignment or bank */
    int64_t row_bytes;   /* TG_UB_ELEMENT: from one row to the next; else 0 */
    int used;            /* 0: it is not there in this problem (.when), and the rest is 0 */
} tg_ub_place;

/* A plan. It may be copied, and owns no memory. */
typedef struct tg_ub_layout {
    int64_t tile_rows;    /* rows of a tile; the last one of all may have fewer */
    int64_t tile_columns; /* columns of a tile: the problem's, or fewer when rows are cut */
    int64_t pitch;        /* columns allocated for a row: tile_columns and padding */
    int64_t row_tiles;    /* tiles over the rows */
    int64_t column_tiles; /* over the columns; 1: whole rows */
    int64_t tasks;        /* what blocks share: row_tiles, times column_tiles for a flat kernel */
    int64_t blocks;       /* to launch: 0 if the problem is empty; task t is block t % blocks's: it
                             takes block, block + blocks, ... (grid stride) */
    int64_t ub_bytes;     /* what the buffers take: end of the last one */
    tg_ub_place place[TG_UB_BUFFERS]; /* of kernel->buffers[i] */
    int nsteps;
    int64_t live[TG_UB_STEPS]; /* the ledger: bytes alive at each step */
    int peak_step;             /* the first step at which most is alive */
    int limiting;              /* the largest buffer there, all its copies counted */
    int64_t available;         /* problem->ub_bytes */
    int nwhys;
    uint8_t why[TG_UB_WHYS]; /* tg_ub_why */
} tg_ub_layout;

/* Chooses the tile, places the buffers and divides the work. It allocates nothing and is fast
 * enough to be called for every launch. A tile has whole rows if a row fits with all buffers,
 * several if rows are small; otherwise it has a piece of one row. Less room never gives a larger
 * tile. Errors, with a message that begins with the kernel's name: TG_EINVAL for a wrong
 * declaration or problem; TG_ENOMEM if even the smallest tile does not fit: "wants ... bits, ...
 * available". After TG_ENOMEM layout->ub_bytes is what the smallest tile wants, and place, live,
 * peak_step and limiting are its layout; blocks is 0. */
TG_API tg_status tg_ub_plan(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                            tg_ub_layout *layout);

/* The layout of a given tile, whether it fits or not: it does if layout->ub_bytes is at most
 * layout->available. Reasons, tiles and blocks are those of that tile. TG_EINVAL as above. */
TG_API tg_status tg_ub_plan_tile(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                                 int64_t tile_rows, int64_t tile_columns, tg_ub_layout *layout);

/* Reason i (below layout->nwhys) as a sentence; returns its length as snprintf does. */
TG_API int tg_ub_reason(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                        const tg_ub_layout *layout, int i, char *text, size_t size);

/* ---- kernels that declare their buffers ---- */

/* The kernels of all backends that are loaded, as tg_backend.ub_kernel() lists them. */
TG_API int tg_ub_kernel_count(void);
TG_API const tg_ub_kernel *tg_ub_kernel_at(int kernel);
/* By full name; or by the operator's name, which gives the first of its variants; NULL if there is
 * none. */
TG_API const tg_ub_kernel *tg_ub_kernel_find(const char *name);

/* ---- how long launches took, and the plans that they followed ---- */

typedef struct tg_npu_launch {
    const char *kernel; /* its symbol: "swiglu_forward_bf16" */
    const char *clock;  /* "device": measured on a card; "model": estimated by the model of one */
    const char *soc;    /* "910B4" */
    int64_t blocks;
    double us; /* the device's time */
    double low_us,
        high_us; /* it, under either reading of facts that are unsettled; else both = us */
    /* Of the model alone, 0 and "" otherwise. */
    int64_t read_bytes, write_bytes;     /* moved between global memory and UB, by all blocks */
    double vector_us, read_us, write_us; /* that V, MTE2 and MTE3 are busy, mean of the blocks */
    double start_us;                     /* of us: until the blocks run */
    double hbm_bytes_per_second;         /* what the chip's memory can do */
    const char *bound;                   /* "memory", "vector", "scalar", "latency" */
    /* The plan that the launch follows; NULL if it has none. */
    const tg_ub_kernel *plan;
    const tg_ub_problem *problem;
    const tg_ub_layout *layout;
} tg_npu_launch;

/* Calls `watch` at the end of every launch from now on, in any context and of any backend that
 * reports its launches; NULL ends that. Watched launches are timed and waited for, which slows a
 * card down. The pointers in `launch` are valid until `watch` returns. */
typedef void (*tg_npu_watch_fn)(void *user, const tg_npu_launch *launch);
TG_API void tg_npu_watch(tg_npu_watch_fn watch, void *user);

/* ---- what launches did ---- */

/* A call of the vector core's API in a kernel's source. Its strings, those of an argument and
 * `source` live as long as the process. */
typedef struct tg_npu_call {
    const char *file;
    int line;
    const char *name; /* "asc_exp" */
    const char *pipe; /* that runs it: "scalar", "vector", "mte2" (copies in), "mte3" (out) */
    int64_t times;    /* it was issued, by all blocks */
    double busy_us, wait_us; /* that the pipe worked on it, waited at it: mean of the blocks */
} tg_npu_call;

/* What a kernel was given. */
typedef struct tg_npu_argument {
    const char *name; /* as the kernel's list has it */
    const char *kind; /* "tensor", "vector", "memory", "integer", "real" */
    int64_t bytes;    /* of the first three: of memory; 0: it is absent */
    double value;     /* of the last two */
} tg_npu_argument;

/* A launch, and what is known of it beside its time. */
typedef struct tg_npu_record {
    const tg_npu_launch *launch;
    const char *source; /* the host's file that describes the kernel */
    int narguments, ncalls;
    const tg_npu_argument *arguments; /* in the order of the kernel's list */
    /* Of the model alone: calls that became instructions, ordered by file, line and name; and bytes
     * of each of the plan's buffers, all copies, that a block has read or written. */
    const tg_npu_call *calls;
    int64_t used[TG_UB_BUFFERS];
} tg_npu_record;

/* The same as tg_npu_watch() with the record of every launch, which takes longer. Both may be in
 * use; other pointers are valid until `watch` returns. */
typedef void (*tg_npu_record_fn)(void *user, const tg_npu_record *record);
TG_API void tg_npu_watch_records(tg_npu_record_fn watch, void *user);

/* For backends: tg_npu_is_watched() is 1 if launches are to be timed, and tg_npu_launched() reports
 * a launch that has ended. */
TG_API int tg_npu_is_watched(void);
TG_API void tg_npu_launched(const tg_npu_launch *launch);
/* The same of records: a backend that has them tells the launch as well, before or after. */
TG_API int tg_npu_is_recorded(void);
TG_API void tg_npu_recorded(const tg_npu_record *record);

/* ---- Liger's tiling, for kernels that are ported from Liger ---- */

/* A list of sizes, or of numbers of dimensions. */
typedef struct tg_ub_list {
    int count;
    const int64_t *at;
} tg_ub_list;

typedef struct tg_ub_tiling {
    int64_t capacity_bits;    /* 0: tg_ub_capacity_bits(0, NULL) */
    double safety_margin;     /* 0: 0.80 */
    int64_t dtype_size;       /* bytes; 0 or less: 4 */
    double memory_multiplier; /* tiles alive at once; 0 or less: 10 */
    int nshapes;
    const tg_ub_list *shapes;
    int ntiling_dims; /* as many as shapes, else the answer is none */
    const tg_ub_list *tiling_dims;
    int uncapped; /* 1: without the cap of 3/4, as Liger had it up to its release 0.8.3 */
} tg_ub_tiling;

/* Block sizes as compute_default_tiling_strategy of Liger 0.8.5 gives them, digit for digit.
 * Of each shape the dimensions in its tiling_dims get the largest power of two, at most the padded
 * size, of which safety_margin x capacity holds memory_multiplier tiles, and of which the whole
 * capacity holds 4/3 of them: what the compiler's multi-buffering takes besides. So a margin above
 * 3/4 changes nothing. The other dimensions are padded to a power of two. Its properties are kept:
 * shapes do not share the room, several tiled dimensions of one shape each get all of it, fixed
 * ones are charged without their padding, and what does not fit is 1 and no error. tg_ub_plan() has
 * none of them.
 * blocks[i] takes shapes[i].count sizes. nblocks: the shapes answered, all of them, or 0 where
 * Liger's function returns None: no shapes, no tiling_dims, or not as many of one as of the other.
 * Errors: TG_EINVAL where it raises ValueError: an empty list of dimensions, one outside the shape
 * (negative ones too); a size or number that is not representable. Those of tg_ub_capacity_bits()
 * come first, even for no shapes. */
TG_API tg_status tg_ub_default_tiling(const tg_ub_tiling *tiling, int64_t *const *blocks,
                                      int *nblocks);

#ifdef __cplusplus
}
#endif
#endif
