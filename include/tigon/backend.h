/* tigon/backend.h - what a backend is, for vendors, who include no other header.
 *
 * A backend is a shared library that exports tg_backend_entry():
 *
 *   static tg_status my_rms_norm(tg_ctx *ctx, const tg_rms_norm_forward_args *args) { ... }
 *   static const tg_impl impls[] = {
 *       TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_F32, NULL, my_rms_norm),
 *       TG_IMPLS_END,
 *   };
 *   static const tg_backend acme = {
 *       TG_ABI, sizeof(tg_backend), "acme", "cpu", TG_DEVICE_CPU, .impls = impls,
 *   };
 *   TG_BACKEND_ENTRY { return &acme; }
 *
 * If impls is NULL, the library looks for public symbols <vendor>_<operator> in the file: functions
 * of the type tg_<operator>_fn. TIGON_BACKEND_PATH or tg_backend_load() loads the backend. (In C++
 * before C++20, list the fields up to impls in their order.)
 *
 * The arguments that an implementation sees have passed the operator's check, and their options are
 * resolved: a default is the number that ops.def states, and zero means zero. Only where ops.def
 * says TG_FROM does zero still stand for the default. Types and strides are those of the columns of
 * ops.def, whatever the program gave: indices and masks are i64, class weights are f32, and so on.
 * Two columns leave a choice. Tensors of the type FLOAT (in kl_div, tvd and jsd) may have another
 * type than T. Tensors of the layout PLANES (in cross_entropy) have rows of one stride, and also
 * rows of two strides if the implementation says TG_TAKES_PLANES; tg_even_rows() of rows.h tells
 * which.
 *
 * An implementation that cannot run a problem returns TG_EUNSUPPORTED before it writes anything;
 * the call then goes to the next implementation.
 */
#ifndef TIGON_BACKEND_H
#define TIGON_BACKEND_H

#include <stdint.h>

#include "tigon/context.h"
#include "tigon/ops.h"
#include "tigon/random.h"
#include "tigon/rows.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_ABI 8u

/* The ids of the operators, TG_OP_<operator>. */
typedef enum tg_op_id {
#define TG_OP(op, fields) TG_OP_##op,
#include "tigon/ops.def"
#undef TG_OP
    TG_OP_COUNT
} tg_op_id;

/* Each operator has a function type of its own, so that a table with the wrong function does not
 * compile. */
#define TG_OP(op, fields)                                                        \
    typedef tg_status (*tg_##op##_fn)(tg_ctx * ctx, const tg_##op##_args *args); \
    typedef int (*tg_##op##_accepts_fn)(const tg_##op##_args *args);
#include "tigon/ops.def"
#undef TG_OP

typedef union tg_run {
    void (*any)(void);
#define TG_OP(op, fields) tg_##op##_fn op;
#include "tigon/ops.def"
#undef TG_OP
} tg_run;

typedef union tg_accepts {
    void (*any)(void);
#define TG_OP(op, fields) tg_##op##_accepts_fn op;
#include "tigon/ops.def"
#undef TG_OP
} tg_accepts;

/* Which problems an implementation can run. */
enum {
    TG_TAKES_F32 = 1, /* T may be f32 */
    TG_TAKES_BF16 = 2,
    TG_TAKES_F16 = 4,
    TG_TAKES_F64 = 8,
    TG_TAKES_FLOATS = TG_TAKES_F32 | TG_TAKES_BF16 | TG_TAKES_F16,
    TG_TAKES_PLANES = 16, /* tensors of the layout PLANES may have rows of two strides */
    /* Tensors may lie in the memory of any device. This is for an implementation that consists of
     * calls of other operators and so runs wherever those run. */
    TG_TAKES_ANY_DEVICE = 32,
    /* In a context that tg_ctx_set_batch_invariant() was called for, the bits of a row depend on no
     * other row. Implementations without this flag do not run there. One that chooses its way by
     * the number of rows asks tg_ctx_batch_invariant() first. */
    TG_BATCH_INVARIANT = 64,
    /* The same, and it runs in such contexts alone. */
    TG_ONLY_BATCH_INVARIANT = 128 | TG_BATCH_INVARIANT
};

/* An implementation: one way to run one operator. */
typedef struct tg_impl {
    const char *op;
    const char *variant; /* last part of the name, "v4" of "cpu/rms_norm_forward.v4"; may be "" */
    uint64_t needs;      /* TG_CPU_*: CPU features without which it cannot run */
    uint64_t takes;      /* TG_TAKES_* */
    tg_accepts accepts;  /* 1 if it can run a problem that `takes` allows; NULL: it can run all */
    tg_run run;
} tg_impl;

#ifdef __cplusplus
/* Before C++20 an initialiser cannot name the member of a union. A function for
 * each operator does. */
#define TG_OP(op_name, fields)                                                                  \
    static inline tg_impl tg_make_impl_##op_name(                                               \
        const char *variant, uint64_t needs, uint64_t takes, tg_##op_name##_accepts_fn accepts, \
        tg_##op_name##_fn run)                                                                  \
    {                                                                                           \
        tg_impl impl = tg_impl();                                                               \
        impl.op = #op_name;                                                                     \
        impl.variant = variant;                                                                 \
        impl.needs = needs;                                                                     \
        impl.takes = takes;                                                                     \
        impl.accepts.op_name = accepts;                                                         \
        impl.run.op_name = run;                                                                 \
        return impl;                                                                            \
    }
#include "tigon/ops.def"
#undef TG_OP
#define TG_IMPL(op, variant, needs, takes, accepts, run) \
    tg_make_impl_##op(variant, needs, takes, accepts, run)
#define TG_IMPLS_END tg_impl()
#else
#define TG_IMPL(op, variant, needs, takes, accepts, run) \
    {                                                    \
#op, variant, needs, takes, {.op = accepts },    \
        {                                                \
            .op = run                                    \
        }                                                \
    }
#define TG_IMPLS_END     \
    {                    \
        0, 0, 0, 0, {0}, \
        {                \
            0            \
        }                \
    }
#endif

/* Values of tg_impl.needs. */
enum { TG_CPU_V2 = 1, TG_CPU_V3 = 2, TG_CPU_V4 = 4, TG_CPU_BF16 = 8, TG_CPU_NEON = 16 };

/* Sets the thread's error message and returns the status, as tg_host.fail does. It is for parts of
 * a backend that are linked with the library and have no tg_host at hand. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
TG_API tg_status
tg_fail(tg_status status, const char *format, ...);

typedef struct tg_backend tg_backend;

/* What the library offers to a backend. It is valid until the process ends. */
typedef struct tg_host {
    uint32_t abi, size;
    /* The library's own function for an operator on this machine, to be cast to tg_<operator>_fn;
     * NULL if there is none. Its arguments are those that an implementation sees: checked, with
     * options resolved. It runs the first of the library's own implementations
     * that accepts them. */
    void (*(*default_of)(tg_ctx *ctx, const char *op))(void);
    /* Calls any operator as a program would. args is its argument struct, in which zero means the
     * default; an implementation that passes on an option of its own writes TG_VALUE(option). */
    tg_status (*call)(tg_ctx *ctx, const char *op, const void *args);
    /* Sets the thread's error message and returns the status. */
    tg_status (*fail)(tg_status status, const char *format, ...);
    void (*log)(tg_ctx *ctx, const char *format, ...);
    /* Scratch memory on the host, which is given back by itself when the implementation returns.
     * NULL, with the error set, if there is not enough memory. */
    void *(*workspace)(tg_ctx *ctx, size_t bytes);
    void (*parallel_for)(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg);
    int (*threads)(const tg_ctx *ctx);
    void *(*stream)(const tg_ctx *ctx);
    int (*verbose)(const tg_ctx *ctx); /* 1: the context logs a line for each call */
    /* Scratch memory on the context's device. The context keeps it between calls, and gives it to
     * the next implementation as soon as this one returns, when work that was launched may still
     * run. Therefore use it only on the context's stream. NULL, with the error set, if there is not
     * enough memory. */
    void *(*device_workspace)(tg_ctx *ctx, size_t bytes);
    /* A pointer that belongs to one backend in one context. `backend` is the table that was
     * registered. The pointer is NULL at first, and the backend may store in it what it likes; no
     * other backend sees it, and leave() of the table gets its value when the context ends. The
     * address stays the same during the life of the context. Only the thread that uses the context
     * may call this. NULL, with the error set, if the table is not registered. An older Tigon,
     * whose `size` ends before this field, does not have it. */
    void **(*slot)(tg_ctx *ctx, const tg_backend *backend);
    /* 1: the context is batch-invariant, as context.h says. An older Tigon does not have it. */
    int (*batch_invariant)(const tg_ctx *ctx);
} tg_host;

/* The steps of tg_backend.side. */
typedef enum tg_side_step { TG_SIDE_BEGIN, TG_SIDE_END, TG_SIDE_JOIN, TG_SIDE_DROP } tg_side_step;

/* The steps of tg_backend.event and of tg_backend.graph. */
typedef enum tg_event_step { TG_EVENT_RECORD, TG_EVENT_WAIT, TG_EVENT_DESTROY } tg_event_step;
typedef enum tg_graph_step {
    TG_GRAPH_BEGIN,
    TG_GRAPH_END,
    TG_GRAPH_LAUNCH,
    TG_GRAPH_DESTROY
} tg_graph_step;

/* The table of a backend. Later versions of Tigon append fields. A table whose `size` is
 * smaller than the library's was built against an older version; the fields that it
 * lacks count as 0 or NULL.
 *
 * A device with memory of its own: the host cannot read the data of the tensors that an
 * implementation gets. The implementation puts its work on the context's stream and returns before
 * that has run; it neither waits nor copies to the host, and it gets memory only from
 * device_workspace(). The operator's check cannot see indices (targets, ids) in device memory, so
 * the kernel checks them. It reads nothing out of range. For an index out of range it writes
 * nothing (no row of an output, no part of a sum) and leaves an error, which sync() then returns:
 * TG_EINVAL with operator, argument, position and value, such as "cross_entropy_forward: target[3]
 * is 99, out of bounds: expected in [0, 50)". Until sync() the first of several errors is kept. No
 * other call of the context fails because of it, and neither does the process. */

struct tg_backend {
    uint32_t abi, size;      /* TG_ABI, sizeof(tg_backend) */
    const char *vendor;      /* such as "acme": lower-case letters and digits */
    const char *device;      /* the device that it serves: "cpu", "npu", ... */
    int32_t device_type;     /* TG_DEVICE_* of the memory that its implementations work in */
    const char *module_path; /* the loader fills it in if it is NULL */
    /* Called once, when the backend is loaded; NULL: there is nothing to do. */
    tg_status (*open)(const tg_host *host);
    /* Called when the process ends; NULL: there is nothing to do. */
    void (*close)(void);
    /* Called when a context chooses the device: loads the driver, and fails, with the error set, if
     * the device cannot be used. A context that infers its device uses the CPU then. NULL: the
     * device is always ready. */
    tg_status (*select)(tg_ctx *ctx);
    /* The memory of the device, if it is not the host's. The functions do what context.h says of
     * tg_alloc(), tg_free(), tg_copy() and tg_sync().
     *   alloc   at least 1 byte, at an address that is a multiple of 64; NULL, with the error set
     *   free    after the work that was put on the context's stream before it
     *   copy    on the context's stream; either side, or both, may be host memory
     *   sync    NULL if nothing is asynchronous */
    void *(*alloc)(tg_ctx *ctx, size_t bytes);
    void (*free)(tg_ctx *ctx, void *ptr);
    tg_status (*copy)(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                      int src_device_type, size_t bytes);
    tg_status (*sync)(tg_ctx *ctx);
    const tg_impl *impls; /* ends with TG_IMPLS_END; NULL: symbols <vendor>_<operator> are used */
    /* The environment variables that begin with TIGON_ and that the backend reads; NULL ends the
     * list. Tigon warns of TIGON_ variables that nothing reads. NULL: it reads none. */
    const char *const *environment;
    /* For NPUs: the kernel of this number, with its declaration of what it keeps in the Unified
     * Buffer (npu.h). Numbers begin with 0; the answer NULL ends the list. `tigon ub-check` and
     * `tigon report` use it. NULL: the backend declares no kernels. */
    const struct tg_ub_kernel *(*ub_kernel)(int kernel);
    /* Two sequences of work that may run at the same time, for devices that can do that. Operators
     * that consist of other operators, such as fused_linear_cross_entropy, have calls that are
     * independent of each other: the calls between BEGIN and END, the side, and the calls between
     * END and JOIN. Neither sequence reads or writes what the other writes, so the device may run
     * them together or in any order against each other. Within each sequence the order of the calls
     * holds. Both come after everything that was called before BEGIN, and before everything that is
     * called after JOIN. Memory of device_workspace() that was given to the side stays with it
     * until JOIN. A context has one side at a time.
     *
     * A backend with streams may give the side a stream of its own and record events at BEGIN and
     * at JOIN. A backend without streams may hold back launches of the side until there is other
     * work beside which they run well, and make the rest at JOIN.
     *
     * If a call has failed, DROP comes instead of JOIN: work that has already been put on
     * the device still comes before what follows, and the rest is forgotten. DROP returns
     * TG_OK. JOIN may also come before END; no END follows then. NULL: everything runs in
     * the order of the calls. */
    tg_status (*side)(tg_ctx *ctx, tg_side_step step);
    /* Copies `from` to `to`, element by element, and converts their types. Both have the same shape
     * and lie in the device's memory. They have any of the types f32, bf16, f16, f64, i64, i32, u8
     * and bool, and any strides; a stride of 0 repeats elements of `from`. If mask is 1, an element
     * of `to` becomes 1 where `from` is not 0, else 0. The work is put on the context's stream.
     * With this function the library converts arguments whose types or strides implementations do
     * not take. NULL: such arguments are refused on this device. */
    tg_status (*convert)(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask);
    /* Reads the device's own clock at this place of the context's stream, for tg_time_begin(),
     * where `seconds` is NULL, and for tg_time_end(), which waits for the work. NULL: the host's
     * clock is read, with a sync before it. */
    tg_status (*time)(tg_ctx *ctx, double *seconds);
    /* For tg_alloc_host() and tg_free_host(): host memory from and to which the device copies
     * without help of the host. NULL, both: memory of the C library is used. */
    void *(*alloc_host)(tg_ctx *ctx, size_t bytes);
    void (*free_host)(tg_ctx *ctx, void *ptr);
    /* An event, as context.h describes it. At the first RECORD *event is NULL, and the backend
     * stores a pointer of its own there. WAIT also returns the error that sync would return. NULL:
     * sync is called in place of WAIT. */
    tg_status (*event)(tg_ctx *ctx, tg_event_step step, void **event);
    /* Recorded calls, as context.h describes them. At BEGIN *graph is the context's stream; the
     * backend replaces it by the stream that it records, which stream() returns from then on. Work
     * that the context puts on the device until END, by implementations and by copies, is recorded
     * and does not run. END stores the recording in *graph, or drops it if graph is NULL; after
     * either a new BEGIN may follow. LAUNCH puts all recorded work on the context's stream. NULL:
     * the device cannot record. */
    tg_status (*graph)(tg_ctx *ctx, tg_graph_step step, void **graph);
    /* For tg_move(): as fast as the device can. The arguments have been checked. NULL: tg_move()
     * returns TG_EUNSUPPORTED, and benchmarks use copy instead. */
    tg_status (*move)(tg_ctx *ctx, const void *const *from, int reads, void *const *to, int writes,
                      size_t bytes);
    /* 1: the implementations run only where they or the backend are named (TIGON_IMPL,
     * tg_ctx_set_impl(), tg_find()), and the backend does not serve its device. This is for
     * implementations that exist to be compared with. 0: calls try them as context.h describes. */
    int32_t only_named;
    /* Called when a context ends whose slot (tg_host.slot) is not NULL, to release its value,
     * `kept`. The context's work has ended by then, and its memory on the device has been given
     * back. The function sets no error. NULL: there is nothing to release. */
    void (*leave)(tg_ctx *ctx, void *kept);
};

/* Registers a backend that is a part of the program, as tg_backend_load() registers one from a
 * file. It stays registered, and contexts that exist already see it too. The table, and all that it
 * points to, must exist as long as the process uses Tigon.
 * Errors: TG_EABI and TG_EINVAL as in tg_backend_load(). TG_EINVAL also if impls is NULL: only in a
 * shared library can implementations be found by their names. */
TG_API tg_status tg_backend_register(const tg_backend *backend);

/* The entry of a backend that is built into the library. tigon_backend() of CMake lists it by its
 * vendor. */
#define TG_BUILT_IN_ENTRY(vendor)                \
    const tg_backend *tg_backend_##vendor(void); \
    const tg_backend *tg_backend_##vendor(void)

#ifdef __cplusplus
#define TG_BACKEND_ENTRY                                        \
    extern "C" TG_API const tg_backend *tg_backend_entry(void); \
    extern "C" const tg_backend *tg_backend_entry(void)
#else
#define TG_BACKEND_ENTRY                             \
    TG_API const tg_backend *tg_backend_entry(void); \
    const tg_backend *tg_backend_entry(void)
#endif

#ifdef __cplusplus
}
#endif
#endif
