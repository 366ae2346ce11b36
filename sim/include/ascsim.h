/* ascsim.h - a model of the cores of an Ascend 910B: what a host program calls.
 *
 * A kernel is an ordinary C function compiled against this model's c_api/asc_simd.h (the same
 * source compiles with CANN). A device runs it on blocks, one block at a time on each modelled
 * core, on threads of the host: it computes what the hardware would, checks every access and every
 * synchronisation, and estimates the time.
 *
 *   ascsim *dev = ascsim_open(&(ascsim_options){.soc = "910B4"});
 *   float *x = ascsim_alloc(dev, bytes, "x");
 *   ascsim_arg args[] = {ASCSIM_POINTER(x), ASCSIM_U32(n)};
 *   ascsim_launch(dev, "scale", (ascsim_kernel)scale, 40, args, 2);
 *   ascsim_report_faults(dev, stderr);
 *   ascsim_close(dev); */
#ifndef ASCSIM_H
#define ASCSIM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASCSIM_API __attribute__((visibility("default")))

/* ---- chips: a table of data, each number with its source and how sure it is ---- */

/* One number of a chip. confidence: 'H' official document or measurement, 'M' measured by others or
 * two hints agree, 'L' a single hint, or derived. */
typedef struct ascsim_fact {
    const char *name, *unit;
    double value;
    const char *source;
    char confidence;
} ascsim_fact;

/* The first name in `names` that the model knows, by index; NULL past the end. */
ASCSIM_API const char *ascsim_chip_name(int index);
/* The facts of one chip, ending with a name of NULL; NULL if there is no such chip. "Ascend910B4"
 * means 910B4, "Ascend910_9391" a 910C. */
ASCSIM_API const ascsim_fact *ascsim_chip_facts(const char *soc);
/* Why a chip of this name is none of the model's, of those that are known to be none: "is of
 * architecture 3510, ..." of Ascend950PR; NULL of other names. */
ASCSIM_API const char *ascsim_chip_refused(const char *soc);
/* One fact by its name, such as "vector_cores", "ub_usable_bytes", "clock_mhz", "l2_bytes",
 * "hbm_bytes_per_second". -1 if chip or fact is unknown. */
ASCSIM_API double ascsim_chip_fact(const char *soc, const char *name);
/* Other figures than the table's for this process, of any chip: "launch_us=3,copy_interval=24".
 * Before ascsim_open(); NULL or "" takes them back. 0, or -1 with ascsim_error(). */
ASCSIM_API int ascsim_set_facts(const char *list);

/* ---- a device ---- */

typedef struct ascsim ascsim;

typedef enum ascsim_timing {
    ASCSIM_TIME_NONE = 1, /* no cost model: faster */
    ASCSIM_TIME_ON = 0
} ascsim_timing;

typedef struct ascsim_options {
    const char *soc; /* NULL: 910B4 */
    int threads;     /* of the host; 0: the processors */
    uint64_t seed;   /* 0: instructions run as soon as they may; else a permuted legal schedule */
    ascsim_timing timing;
    int trace; /* keep every instruction of all launches: for ascsim_write_profile() and _trace() */
    /* for large launches whose times alone are asked for: nothing is copied, computed or checked,
     * so that what a kernel does may depend only on what its plain loads read from memory that
     * the host has filled */
    int times_only;
    int64_t ub_bytes; /* usable bytes of UB; 0: the chip's */
    /* asc_fma, asc_mul_add and asc_axpy round the product before the sum: which of both a chip does
     * is not documented, and a kernel should be right with either */
    int unfused;
} ascsim_options;

/* NULL with the reason in ascsim_error() if there is no such chip or no memory. */
ASCSIM_API ascsim *ascsim_open(const ascsim_options *options);
ASCSIM_API void ascsim_close(ascsim *device);
ASCSIM_API const char *ascsim_error(void); /* of this thread's last failed call */

/* Global memory. alloc: 512 B-aligned, its bytes count as never written, with guard bytes behind
 * it. map: memory of the host that the caller owns becomes global memory, its bytes count as
 * written; ranges may be mapped twice. `name` is what reports call it (copied). */
ASCSIM_API void *ascsim_alloc(ascsim *device, size_t bytes, const char *name);
ASCSIM_API int ascsim_map(ascsim *device, void *memory, size_t bytes, const char *name);
ASCSIM_API void ascsim_free(ascsim *device, void *memory); /* ends either */
ASCSIM_API void ascsim_written(ascsim *device, void *memory,
                               size_t bytes); /* the host has filled it */

/* Copies in from this memory leave nothing in the modelled L2: what CANN's C++ API calls the cache
 * hint "disable". The C API has no argument for it on these chips. 0; or -1: not this device's
 * memory. */
ASCSIM_API int ascsim_stream(ascsim *device, const void *memory);

/* ---- launch ---- */

typedef enum ascsim_arg_kind {
    ASCSIM_ARG_POINTER,
    ASCSIM_ARG_I32,
    ASCSIM_ARG_U32,
    ASCSIM_ARG_I64,
    ASCSIM_ARG_U64,
    ASCSIM_ARG_F32
} ascsim_arg_kind;
typedef struct ascsim_arg {
    ascsim_arg_kind kind;
    union {
        void *p;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
    } v;
} ascsim_arg;
#define ASCSIM_POINTER(x) ((ascsim_arg){ASCSIM_ARG_POINTER, {.p = (void *)(x)}})
#define ASCSIM_I32(x) ((ascsim_arg){ASCSIM_ARG_I32, {.i32 = (x)}})
#define ASCSIM_U32(x) ((ascsim_arg){ASCSIM_ARG_U32, {.u32 = (x)}})
#define ASCSIM_I64(x) ((ascsim_arg){ASCSIM_ARG_I64, {.i64 = (x)}})
#define ASCSIM_U64(x) ((ascsim_arg){ASCSIM_ARG_U64, {.u64 = (x)}})
#define ASCSIM_F32(x) ((ascsim_arg){ASCSIM_ARG_F32, {.f32 = (x)}})

typedef void (*ascsim_kernel)(void);

/* Runs `kernel` on `blocks` blocks and returns when all have ended. 0; or -1 with ascsim_error(): a
 * bad request, or a block that had to be stopped (deadlock, access outside all memory). Faults do
 * not make it fail: ask ascsim_faults(). */
ASCSIM_API int ascsim_launch(ascsim *device, const char *name, ascsim_kernel kernel, int64_t blocks,
                             const ascsim_arg *args, int count);

/* How many cube cores and vector cores a block of the kernel is: 0 and 1 for __vector__, 1 and 0
 * for __cube__, 1 and 2 for __mix__(1, 2), ... */
ASCSIM_API void ascsim_kernel_cores(ascsim_kernel kernel, int *cubes, int *vectors);

/* ---- faults ---- */

typedef struct ascsim_fault {
    const char *kind; /* "ub-overflow", "missing-flag-raw", ...: docs/npu-model.md lists them */
    const char *text; /* one sentence: what, found, expected */
    const char *file,
        *other_file; /* the access, and the earlier one that it clashes with (NULL: none) */
    int line, other_line;
    int block;     /* first block that showed it */
    int64_t count; /* times it was seen, over all blocks */
} ascsim_fault;

/* Faults since ascsim_open() or ascsim_clear_faults(), ordered by block and program order, one
 * entry a kind and pair of lines. */
ASCSIM_API int ascsim_faults(ascsim *device, const ascsim_fault **faults);
ASCSIM_API void ascsim_clear_faults(ascsim *device);
ASCSIM_API void ascsim_report_faults(ascsim *device, FILE *out);

/* ---- time of the last launch ---- */

/* V and MTE3 are a vector core's, MTE1, M and FIX a cube core's. */
typedef enum ascsim_pipe {
    ASCSIM_S,
    ASCSIM_V,
    ASCSIM_MTE2,
    ASCSIM_MTE3,
    ASCSIM_MTE1,
    ASCSIM_M,
    ASCSIM_FIX,
    ASCSIM_PIPES
} ascsim_pipe;

/* Microseconds, modelled. Where a fact is unsettled `low` and `high` are the task time under either
 * reading. */
typedef struct ascsim_time {
    double task_us, low_us, high_us; /* device time of the launch, its start included */
    double start_us;                 /* of which: starting the blocks */
    double host_launch_us; /* what a host adds for launch and synchronisation; in no other figure */
    /* Mean over the blocks' vector cores; of a launch without any, over its cube cores. */
    double busy_us[ASCSIM_PIPES], wait_us[ASCSIM_PIPES];
    double cube_busy_us[ASCSIM_PIPES], cube_wait_us[ASCSIM_PIPES]; /* mean over the cube cores */
    double bank_conflict_us;
    int64_t gm_read_bytes, gm_write_bytes; /* moved between GM and cores, all blocks */
    int64_t vector_instructions, cube_instructions, copies_in, copies_out;
    double cube_operations;     /* multiplications and additions, of true sizes */
    double gm_bytes_per_second; /* (read + write) / (task - start) */
    double hbm_fraction;        /* of the modelled memory bandwidth */
    const char *bound;          /* "memory", "vector", "cube", "scalar", "latency" */
} ascsim_time;
ASCSIM_API int ascsim_last_time(ascsim *device, ascsim_time *time);

/* ---- the record of the last launch ---- */

/* A call of the API in a kernel's source. The strings live as long as the kernel's library. */
typedef struct ascsim_line {
    const char *file;
    int line;
    const char *call;        /* "asc_exp" */
    const char *pipe;        /* whose instruction it is: "vector", as in lines.csv */
    int64_t times;           /* it was issued, by all blocks */
    double busy_us, wait_us; /* that the pipe worked on it, waited at it: mean of the blocks */
} ascsim_line;

/* The calls of the last launch that became instructions, ordered by file, line and call: asc_exp(),
 * asc_sync_wait(), asc_init(), but not asc_get_block_idx(), which S does without one. Valid until
 * the next launch. Returns how many there are; -1 as ascsim_last_time(). */
ASCSIM_API int ascsim_last_lines(ascsim *device, const ascsim_line **lines);

/* How many of the `bytes` of UB behind `offset` any block of the last launch has read or written,
 * in whole blocks of 32 B. Not with times_only, which looks at no access: 0. */
ASCSIM_API int64_t ascsim_last_ub(const ascsim *device, int64_t offset, int64_t bytes);

/* Of the launches since ascsim_open(): msprof's tables as CSV files in `folder` (made if missing),
 * `lines.csv` (cycles a source line) and last, if options.trace was set, `pipeline.svg`. 0, or -1
 * with ascsim_error(). */
ASCSIM_API int ascsim_write_profile(ascsim *device, const char *folder);
/* `trace.json` for Chrome and Perfetto, in a folder that is there: some 200 bytes an instruction,
 * of the first 2^18. Returns how many instructions are left out, or -1 with ascsim_error(). */
ASCSIM_API int64_t ascsim_write_trace(ascsim *device, const char *folder);
ASCSIM_API void ascsim_print_profile(ascsim *device, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
