/* launch.h - a kernel as its host has it, described by its list (kernels/asc_args.h), and its launch.
 *
 *   ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);          the kernel's name, and its list
 *   const tg_ub_kernel ascend_ub_swiglu[] = {               what the planner is told
 *       {.name = "swiglu_forward.flat", ASCEND_BUFFERS(swiglu_forward), .flat = 1}, {0}};
 *
 *   ascend_plan plan;
 *   ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_swiglu[0], args->gate, 0));
 *   ASCEND_TRY(ascend_choose(&plan));
 *   return ASCEND_LAUNCH(ctx, &plan, swiglu_forward, .gate = args->gate, .up = args->up, ...);
 *
 * A launch gives every argument of the list by its name, but for the grid and the places of buffers, which are the plan's. One that is
 * missing, given twice, of another name or of another kind does not compile. Where one of several kernels is chosen at run time
 * (ascend_launch() with ASCEND_GIVEN), the compiler sees the list that is named there: the lists of all of them must be alike. */
#ifndef ASCEND_LAUNCH_H
#define ASCEND_LAUNCH_H

#include "kernels/asc_args.h"
#include "runtime.h"

/* ---- descriptions ---- */

/* Memory of the device that is no tensor. */
typedef struct ascend_memory {
    const void *at;
    size_t bytes;
} ascend_memory;

typedef enum ascend_kind {
    ASCEND_TENSOR,
    ASCEND_VECTOR,
    ASCEND_MEMORY,
    ASCEND_GRID,
    ASCEND_I64,
    ASCEND_F32,
    ASCEND_BUFFER
} ascend_kind;

/* An entry of a list. */
typedef struct ascend_entry {
    ascend_kind kind;
    const char *name;
} ascend_entry;

typedef struct ascend_kernel {
    const char *name; /* with the suffix of a type it is the symbol: "swiglu_forward" + "_bf16" */
    ascend_cores cores;
    int nentries;
    const ascend_entry *entries;
} ascend_kernel;

/* What a launch gives: a slot of 8 bytes for each entry that takes one, in their order. */
typedef union ascend_slot {
    const tg_tensor *tensor;
    const ascend_memory *memory;
    int64_t i64;
    double f32;
} ascend_slot;

#define ASCEND_COUNT(array) (int)(sizeof(array) / sizeof *(array))
/* Makes of a list: the struct of what a launch gives, <kernel>_given; the description, <kernel>_kernel; the table of its buffers,
 * <kernel>_buffers, and their numbers, ASCEND_NUMBER(). (A kernel that follows the plan of another has no use for the table.) */
#define ASCEND_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_VECTOR_CORES, kernel, LIST)
#define ASCEND_CUBE_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_CUBE_CORES, kernel, LIST)
#define ASCEND_MIX_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_MIX_CORES, kernel, LIST)
#define ASCEND_KERNEL_ON(cores, kernel, LIST)                                                     \
    typedef struct kernel##_given {                                                               \
        LIST(ASCEND_FIELD)                                                                        \
    } kernel##_given;                                                                             \
    typedef struct kernel##_places {                                                              \
        LIST(ASCEND_PLACE_OF)                                                                     \
    } kernel##_places;                                                                            \
    static const ascend_entry kernel##_entries[] = {LIST(ASCEND_ENTRY_OF)};                       \
    __attribute__((unused)) static const tg_ub_buffer kernel##_buffers[] = {                      \
        LIST(ASCEND_BUFFER_OF)};                                                                  \
    static const ascend_kernel kernel##_kernel = {#kernel, cores, ASCEND_COUNT(kernel##_entries), \
                                                  kernel##_entries}

/* The buffers of a tg_ub_kernel: all of them, or all but the last few. */
#define ASCEND_BUFFERS(kernel) ASCEND_BUFFERS_BUT(kernel, 0)
#define ASCEND_BUFFERS_BUT(kernel, last) \
    .nbuffers = ASCEND_COUNT(kernel##_buffers) - (last), .buffers = kernel##_buffers
#define ASCEND_NUMBER(kernel, buffer) \
    (offsetof(kernel##_places, buffer) / sizeof(tg_ub_place)) /* in a layout's places */

#define ASCEND_FIELD(kind, name, ...) ASCEND_FIELD_##kind(name)
#define ASCEND_FIELD_TENSOR(name) const tg_tensor *name;
#define ASCEND_FIELD_VECTOR(name) const tg_tensor *name;
#define ASCEND_FIELD_MEMORY(name) const ascend_memory *name;
#define ASCEND_FIELD_GRID(name)
#define ASCEND_FIELD_I64(name) int64_t name;
#define ASCEND_FIELD_F32(name) double name;
#define ASCEND_FIELD_BUFFER(name)

#define ASCEND_ENTRY_OF(kind, name, ...) {ASCEND_##kind, #name},
#define ASCEND_BUFFER_OF(kind, entry, ...) ASCEND_IF_##kind({.name = #entry, __VA_ARGS__}, )
#define ASCEND_PLACE_OF(kind, entry, ...) ASCEND_IF_##kind(tg_ub_place entry;)
#define ASCEND_IF_TENSOR(...)
#define ASCEND_IF_VECTOR(...)
#define ASCEND_IF_MEMORY(...)
#define ASCEND_IF_GRID(...)
#define ASCEND_IF_I64(...)
#define ASCEND_IF_F32(...)
#define ASCEND_IF_BUFFER(...) __VA_ARGS__

/* ---- plans ---- */

/* What a launch follows: where it runs, what the planner was asked and what it answered. A plan without blocks is one of nothing
 * to do: its launch does nothing. */
typedef struct ascend_plan {
    const ascend_runtime *runtime;
    const tg_ub_kernel *ub;
    int type;      /* of the data, tg_type: the kernel's suffix */
    double cycles; /* what the launch takes, about; 0: nobody has estimated it */
    int one_line;  /* tensors are compact, and taken as one row that is as long as all of theirs */
    tg_ub_problem problem;
    tg_ub_layout layout;
} ascend_plan;

/* ---- launches ---- */

/* What a launch gives, all of it, as a pointer to <kernel>_given. */
#define ASCEND_GIVEN(kernel, ...)                                                          \
    ((void)sizeof(struct {                                                                 \
         _Static_assert(sizeof(kernel##_given) ==                                          \
                            sizeof(ascend_slot) * ASCEND_HOW_MANY(__VA_ARGS__),            \
                        #kernel ": not as many arguments are given as its list asks for"); \
         int none;                                                                         \
     }),                                                                                   \
     (const ascend_slot *)&(const kernel##_given){__VA_ARGS__})

#define ASCEND_LAUNCH(ctx, plan, kernel, ...) \
    ascend_launch(ctx, plan, &kernel##_kernel, ASCEND_GIVEN(kernel, __VA_ARGS__))

/* Launches the kernel of the plan's type; tells who watches, and logs the device's time if the context is verbose. */
tg_status ascend_launch(tg_ctx *ctx, const ascend_plan *plan, const ascend_kernel *kernel,
                        const ascend_slot *given);

/* A kernel on independent elements: plans and launches it. All its tensors are of one shape; compact ones are one long row. */
#define ASCEND_RUN_FLAT(ctx, ub, options, kernel, ...) \
    ascend_run_flat(ctx, ub, options, &kernel##_kernel, ASCEND_GIVEN(kernel, __VA_ARGS__))
tg_status ascend_run_flat(tg_ctx *ctx, const tg_ub_kernel *ub, uint32_t options,
                          const ascend_kernel *kernel, const ascend_slot *given);

/* How many arguments: up to 48. */
#define ASCEND_HOW_MANY(...)                                                                     \
    ASCEND_49TH(__VA_ARGS__, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, \
                31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12,  \
                11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ASCEND_49TH(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, \
                    a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32,  \
                    a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47,  \
                    a48, n, ...)                                                                \
    n

#endif
