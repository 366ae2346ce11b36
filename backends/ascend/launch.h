/* launch.h - a kernel as its host has it, described by its list
 * (kernels/shared/asc_args.h), and its launch.
 *
 *   ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);          the kernel's name, and its list
 *   ASCEND_KERNELS(swiglu) = {                              what the planner is told
 *       {.name = "swiglu_forward.flat", ASCEND_BUFFERS(swiglu_forward), .flat = 1}, {0}};
 *
 *   ascend_plan plan;
 *   ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_swiglu[0], args->gate, 0));
 *   ASCEND_TRY(ascend_choose(&plan));
 *   return ASCEND_LAUNCH(ctx, &plan, swiglu_forward, .gate = args->gate, .up = args->up, ...);
 *
 * A launch gives every argument of the list by its name, but for the grid and the places of
 * buffers, which are the plan's. One that is missing, given twice, of another name or of another
 * kind does not compile.
 *
 * Kernels of which a launch takes one at run time are a family: all are given the same, a list of
 * its own that theirs begin with.
 *
 *   ASCEND_FAMILY(dyt_forward, DYT_FORWARD_GIVEN);
 *   ASCEND_KERNEL_OF(dyt_forward, dyt_forward_columns, DYT_FORWARD);
 *   ASCEND_KERNEL_OF(dyt_forward, dyt_forward_short, DYT_FORWARD_SHORT);
 *
 *   const dyt_forward_alike *kernel =
 *       is_short ? &dyt_forward_short_kernel : &dyt_forward_columns_kernel;
 *   return ASCEND_LAUNCH_CHOSEN(ctx, &plan, kernel, .x = args->x, ...);
 *
 * A kernel whose list asks for anything else does not compile, nor does a choice between
 * kernels of two families. */
#ifndef ASCEND_LAUNCH_H
#define ASCEND_LAUNCH_H

#include "kernels/shared/asc_args.h"
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
    const char *source; /* the file that describes it */
} ascend_kernel;

/* What a launch gives: a slot of 8 bytes for each entry that takes one, in their order. */
typedef union ascend_slot {
    const tg_tensor *tensor;
    const ascend_memory *memory;
    int64_t i64;
    double f32;
} ascend_slot;

#define ASCEND_COUNT(array) (int)(sizeof(array) / sizeof *(array))
/* Makes of a list: the struct of what a launch gives, <kernel>_given; the description,
 * <kernel>_kernel; the table of its buffers, <kernel>_buffers, and their numbers, ASCEND_NUMBER().
 * (A kernel that follows the plan of another has no use for the table.) */
#define ASCEND_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_VECTOR_CORES, kernel, LIST)
#define ASCEND_CUBE_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_CUBE_CORES, kernel, LIST)
#define ASCEND_MIX_KERNEL(kernel, LIST) ASCEND_KERNEL_ON(ASCEND_MIX_CORES, kernel, LIST)
#define ASCEND_KERNEL_ON(cores, kernel, LIST) \
    ASCEND_FAMILY(kernel, LIST);              \
    ASCEND_DESCRIBE(cores, kernel, kernel, LIST)

/* The same in two steps: what all kernels of a family are given, <family>_given, and the type of
 * their descriptions, <family>_alike; one of those kernels. */
#define ASCEND_FAMILY(family, GIVEN)                          \
    typedef struct family##_given {                           \
        GIVEN(ASCEND_FIELD)                                   \
    } family##_given;                                         \
    GIVEN(ASCEND_TAG)                                         \
    typedef void family##_takes(ASCEND_ASKS(GIVEN));          \
    typedef union family##_alike {                            \
        ascend_kernel any;                                    \
        const family##_given *given; /* for its type alone */ \
    } family##_alike
#define ASCEND_KERNEL_OF(family, kernel, LIST) \
    ASCEND_DESCRIBE(ASCEND_VECTOR_CORES, family, kernel, LIST)

#define ASCEND_DESCRIBE(cores, family, name, LIST)                                                 \
    typedef struct name##_places {                                                                 \
        LIST(ASCEND_PLACE_OF)                                                                      \
    } name##_places;                                                                               \
    LIST(ASCEND_TAG)                                                                               \
    _Static_assert(__builtin_types_compatible_p(family##_takes, void(ASCEND_ASKS(LIST))),          \
                   #name ": its list does not ask for what kernels of " #family " are given");     \
    static const ascend_entry name##_entries[] = {LIST(ASCEND_ENTRY_OF)};                          \
    __attribute__((unused)) static const tg_ub_buffer name##_buffers[] = {LIST(ASCEND_BUFFER_OF)}; \
    static const family##_alike name##_kernel = {                                                  \
        {#name, cores, ASCEND_COUNT(name##_entries), name##_entries, __FILE__}}

/* What a list asks for, as the parameters of a function: lists that ask for the same things by the
 * same names in the same order are compatible types. */
#define ASCEND_ASKS(LIST) LIST(ASCEND_ASKED) int
#define ASCEND_TAG(kind, name, ...) ASCEND_UNLESS_PLANNED_##kind(struct ascend_##kind##_##name;)
#define ASCEND_ASKED(kind, name, ...) \
    ASCEND_UNLESS_PLANNED_##kind(struct ascend_##kind##_##name *, )
#define ASCEND_UNLESS_PLANNED_TENSOR(...) __VA_ARGS__
#define ASCEND_UNLESS_PLANNED_VECTOR(...) __VA_ARGS__
#define ASCEND_UNLESS_PLANNED_MEMORY(...) __VA_ARGS__
#define ASCEND_UNLESS_PLANNED_GRID(...)
#define ASCEND_UNLESS_PLANNED_I64(...) __VA_ARGS__
#define ASCEND_UNLESS_PLANNED_F32(...) __VA_ARGS__
#define ASCEND_UNLESS_PLANNED_BUFFER(...)

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

/* What a launch follows: where it runs, what the planner was asked and what it answered. A plan
 * without blocks is one of nothing to do: its launch does nothing. */
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

/* What a launch gives, all of it, as slots: described is a pointer to the kernel's description. */
#define ASCEND_GIVEN(described, ...)                                                          \
    ((void)sizeof(struct {                                                                    \
         _Static_assert(sizeof *(described)->given ==                                         \
                            sizeof(ascend_slot) * ASCEND_HOW_MANY(__VA_ARGS__),               \
                        #described ": not as many arguments are given as its list asks for"); \
         int none;                                                                            \
     }),                                                                                      \
     (const ascend_slot *)&(const __typeof__(*(described)->given)){__VA_ARGS__})

#define ASCEND_LAUNCH(ctx, plan, kernel, ...) \
    ASCEND_LAUNCH_CHOSEN(ctx, plan, &kernel##_kernel, __VA_ARGS__)
#define ASCEND_LAUNCH_CHOSEN(ctx, plan, described, ...) \
    ascend_launch(ctx, plan, &(described)->any, ASCEND_GIVEN(described, __VA_ARGS__))

/* Launches the kernel of the plan's type; tells who watches, and logs the device's time if the
 * context is verbose. */
tg_status ascend_launch(tg_ctx *ctx, const ascend_plan *plan, const ascend_kernel *kernel,
                        const ascend_slot *given);

/* A kernel on independent elements: plans and launches it. All its tensors are of one shape;
 * compact ones are one long row. */
#define ASCEND_RUN_FLAT(ctx, ub, options, kernel, ...)      \
    ascend_run_flat(ctx, ub, options, &kernel##_kernel.any, \
                    ASCEND_GIVEN(&kernel##_kernel, __VA_ARGS__))
tg_status ascend_run_flat(tg_ctx *ctx, const tg_ub_kernel *ub, uint32_t options,
                          const ascend_kernel *kernel, const ascend_slot *given);

/* How many arguments: up to 52. */
#define ASCEND_HOW_MANY(...)                                                                     \
    ASCEND_53RD(__VA_ARGS__, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, \
                35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,  \
                15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ASCEND_53RD(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, \
                    a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32,  \
                    a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47,  \
                    a48, a49, a50, a51, a52, n, ...)                                            \
    n

#endif
