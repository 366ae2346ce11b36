/* tigon/backend.h - the only header that a vendor includes.
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
 * With impls = NULL its public symbols <vendor>_<operator>, functions of the type tg_<operator>_fn,
 * are discovered instead. Load it with TIGON_BACKEND_PATH or tg_backend_load(). (In C++ before C++20 list
 * the fields up to impls in their order.)
 *
 * The arguments that an implementation sees have passed the operator's check, and their options are resolved: a
 * default is the number that ops.def states, and zero is zero. Only where ops.def says TG_FROM does zero
 * still stand for the default. Types and strides are those of the columns of ops.def: indices and masks
 * are i64, class weights f32, and so on, whatever the program gave. Tensors called FLOAT (of kl_div, tvd,
 * jsd) may have other types than T. Tensors called PLANES (of cross_entropy) have rows of one stride, or of two (tg_even_rows()
 * of rows.h tells) where an implementation says TG_TAKES_PLANES.
 * An implementation returns TG_EUNSUPPORTED, before it writes anything, to pass the call on.
 */
#ifndef TIGON_BACKEND_H
#define TIGON_BACKEND_H

#include <stdint.h>

#include "tigon/context.h"
#include "tigon/ops.h"
#include "tigon/rows.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_ABI 8u

/* TG_OP_<operator>: ids */
typedef enum tg_op_id {
#define TG_OP(op, fields) TG_OP_##op,
#include "tigon/ops.def"
#undef TG_OP
    TG_OP_COUNT
} tg_op_id;

/* One typed pointer an operator, so that an implementation cannot hold the wrong function. */
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

/* What an implementation takes: the element types T of a problem, tensors called PLANES in rows of two strides, and tensors in any
 * device's memory: one that is made of calls of other operators runs wherever those do. */
enum {
    TG_TAKES_F32 = 1,
    TG_TAKES_BF16 = 2,
    TG_TAKES_F16 = 4,
    TG_TAKES_F64 = 8,
    TG_TAKES_FLOATS = TG_TAKES_F32 | TG_TAKES_BF16 | TG_TAKES_F16,
    TG_TAKES_PLANES = 16,
    TG_TAKES_ANY_DEVICE = 32
};

/* One way to run one operator. needs: CPU feature bits, 0 for none. takes: TG_TAKES_*. accepts: 1 for a problem of those types that
 * it takes; NULL takes all of them. */
typedef struct tg_impl {
    const char *op;
    const char *variant; /* the name's last part: "cpu/rms_norm_forward.v4"; "" for none */
    uint64_t needs;
    uint64_t takes;
    tg_accepts accepts;
    tg_run run;
} tg_impl;

#ifdef __cplusplus
/* Members of unions are named in initialisers since C++20 alone; a function for each operator does it before. */
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

/* CPU features for tg_impl.needs. */
enum { TG_CPU_V2 = 1, TG_CPU_V3 = 2, TG_CPU_V4 = 4, TG_CPU_BF16 = 8, TG_CPU_NEON = 16 };

/* Sets the thread's error message and returns the status: tg_host.fail, for those parts of a backend that
 * are linked with the library and are called without a host. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
TG_API tg_status
tg_fail(tg_status status, const char *format, ...);

typedef struct tg_backend tg_backend;

/* What the library offers to a backend; valid as long as the process. */
typedef struct tg_host {
    uint32_t abi, size;
    /* The default function of an operator on this machine (cast to tg_<operator>_fn), NULL if there
     * is none. It takes the arguments as an implementation sees them, checked and with options resolved, and runs the first of the
     * library's own implementations that accepts them. */
    void (*(*default_of)(tg_ctx *ctx, const char *op))(void);
    /* Any operator through dispatch; args is its argument struct, in which zero means the default as in
     * a program's calls: an implementation passes one of its own options on as TG_VALUE(). */
    tg_status (*call)(tg_ctx *ctx, const char *op, const void *args);
    /* Sets the thread's error message and returns the status. */
    tg_status (*fail)(tg_status status, const char *format, ...);
    void (*log)(tg_ctx *ctx, const char *format, ...);
    /* Host scratch memory until the implementation returns; NULL, with the error set, if there is none. */
    void *(*workspace)(tg_ctx *ctx, size_t bytes);
    void (*parallel_for)(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg);
    int (*threads)(const tg_ctx *ctx);
    void *(*stream)(const tg_ctx *ctx);
    int (*verbose)(const tg_ctx *ctx); /* the context logs a line a call */
    /* Scratch memory of the context's device, as workspace() gives the host's: kept by the context between calls, and given
     * to the next implementation when this one returns, though what this one launched may still run: use it on the context's stream
     * alone. NULL, with the error set, if there is none. */
    void *(*device_workspace)(tg_ctx *ctx, size_t bytes);
    /* The place that a backend, named by the table that it was registered with, has in a context: NULL at first, and then what the
     * backend puts there. No other backend sees it, and the table's leave() is given it back. The address is the same as long
     * as the context. Called by the thread that uses the context. NULL, with the error set, for a table that is not registered.
     * A host whose `size` ends before this field is of an older Tigon and has none. */
    void **(*slot)(tg_ctx *ctx, const tg_backend *backend);
} tg_host;

/* What tg_backend.side is told. */
typedef enum tg_side_step { TG_SIDE_BEGIN, TG_SIDE_END, TG_SIDE_JOIN, TG_SIDE_DROP } tg_side_step;

/* What tg_backend.event and tg_backend.graph are told. */
typedef enum tg_event_step { TG_EVENT_RECORD, TG_EVENT_WAIT, TG_EVENT_DESTROY } tg_event_step;
typedef enum tg_graph_step {
    TG_GRAPH_BEGIN,
    TG_GRAPH_END,
    TG_GRAPH_LAUNCH,
    TG_GRAPH_DESTROY
} tg_graph_step;

/* A backend's table. Later versions of Tigon append to it: one that is smaller than this library's, by `size`, was built
 * against an older version, and what it lacks counts as 0 or NULL.
 *
 * A device with memory of its own. Implementations get tensors whose data the host cannot read, and put their work on the context's
 * stream: they return before it has run, neither wait nor copy to the host, and take memory from device_workspace() alone.
 * What the operator's check cannot see, because it lies in device memory, the kernel has to: indices (targets, ids). It
 * reads nothing out of range, writes nothing to what belongs to such an index (its row of an output, its part of a sum),
 * and leaves an error that sync() then returns: TG_EINVAL, with operator, argument, position and value, such as
 * "cross_entropy_forward: target[3] is 99, out of bounds: expected in [0, 50)". The first one is kept until then; nothing
 * else of the context fails, and never the process. */

struct tg_backend {
    uint32_t abi, size;      /* TG_ABI, sizeof(tg_backend) */
    const char *vendor;      /* "acme": lower-case letters and digits */
    const char *device;      /* the device it serves: "cpu", "npu", ... */
    int32_t device_type;     /* type of the memory its implementations take, TG_DEVICE_* */
    const char *module_path; /* filled by the loader if NULL */
    tg_status (*open)(const tg_host *host); /* once, at load; NULL: nothing to do */
    void (*close)(void);                    /* at exit; NULL: nothing to do */
    /* A context chooses the device: the time to load its driver, and to refuse, with the error set, if
     * the device cannot be used. A context that was to infer its device takes the CPU then. NULL:
     * always ready. */
    tg_status (*select)(tg_ctx *ctx);
    /* Memory of the device, if it is not the host's: what tg_alloc(), tg_free(), tg_copy() and tg_sync() do there, as
     * context.h describes them. alloc: at least 1 byte, at a multiple of 64; NULL with the error set. free: once the work
     * before it on the context's stream has ended. copy: either side, or both, may be host memory; on the context's stream.
     * sync: NULL if nothing is asynchronous. */
    void *(*alloc)(tg_ctx *ctx, size_t bytes);
    void (*free)(tg_ctx *ctx, void *ptr);
    tg_status (*copy)(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                      int src_device_type, size_t bytes);
    tg_status (*sync)(tg_ctx *ctx);
    const tg_impl *impls; /* ends with TG_IMPLS_END; NULL: discover <vendor>_<operator> */
    /* Names of the environment's variables that it reads, if they begin with TIGON_; ends with NULL. Tigon warns of
     * TIGON_ variables that nobody reads. NULL: none. */
    const char *const *environment;
    /* Of NPUs: the kernels that declare what they keep in the Unified Buffer (npu.h), by number from 0 on; NULL behind the last.
     * `tigon ub-check` and `tigon report` know them then. NULL: none. */
    const struct tg_ub_kernel *(*ub_kernel)(int kernel);
    /* Work beside other work, for devices that can. Operators that are made of others, such as fused_linear_cross_entropy, have
     * calls that need nothing of each other: what is called between BEGIN and END, the side, and what is called between
     * END and JOIN. None of the one reads or writes what the other writes, so both may run at the same time, or in any order
     * against each other. Calls of the side keep their own order, and so do the others; all of them come behind what was called
     * before BEGIN, and JOIN puts both before what is called next. Memory of device_workspace() that is taken in the side stays
     * the side's until JOIN. A backend with streams may give the side one of its own and record events at BEGIN and JOIN;
     * one without may keep launches of the side until others come that they run well with, and make the rest at JOIN. Instead of JOIN
     * comes DROP where a call has failed: what has been put on the device still comes before what follows, and the
     * rest is forgotten. JOIN may also come before END; then no END follows. A context has one side at a time. DROP returns
     * TG_OK. NULL: everything runs in the order of the calls. */
    tg_status (*side)(tg_ctx *ctx, tg_side_step step);
    /* to = from, element by element: tensors of one shape in the device's memory, of any types that a program may give (f32, bf16,
     * f16, f64, i64, i32, u8, bool), at any strides; 0 repeats elements of from. mask: to becomes 1 where from is not 0. It is put on
     * the context's stream. So arguments of other types or strides than implementations take are converted where they lie. NULL:
     * they are refused there. */
    tg_status (*convert)(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask);
    /* tg_time_begin(), seconds NULL, and tg_time_end(): the device's own clock, at this place of the context's stream. The end waits for
     * the work. NULL: the host's clock, around sync. */
    tg_status (*time)(tg_ctx *ctx, double *seconds);
    /* tg_alloc_host() and tg_free_host(): memory of the host that the device copies from and to without the host's help. NULL, both: the C
     * library's. */
    void *(*alloc_host)(tg_ctx *ctx, size_t bytes);
    void (*free_host)(tg_ctx *ctx, void *ptr);
    /* An event, as context.h describes it. RECORD: *event is NULL the first time, and the backend's own then. WAIT also returns what
     * sync would. NULL: sync is called in place of WAIT. */
    tg_status (*event)(tg_ctx *ctx, tg_event_step step, void **event);
    /* Recorded calls, as context.h describes them. BEGIN is given the context's stream as *graph and leaves the one there that it records,
     * which stream() tells from then on. What implementations and copies of the context put on the device up to END is kept and does not
     * run. END gives it as *graph, or drops it if graph is NULL, and BEGIN may follow again after either.
     * LAUNCH puts all of it on the context's stream. NULL: the device records nothing. */
    tg_status (*graph)(tg_ctx *ctx, tg_graph_step step, void **graph);
    /* tg_move(): as fast as the device can; what it is given has been checked. NULL: TG_EUNSUPPORTED, and benchmarks take copy. */
    tg_status (*move)(tg_ctx *ctx, const void *const *from, int reads, void *const *to, int writes,
                      size_t bytes);
    /* 1: its implementations run where the backend or they are named (TIGON_IMPL, tg_ctx_set_impl(), tg_find()) and never by themselves;
     * nor does it serve its device. For what others are compared with. 0: they are tried as context.h describes. */
    int32_t only_named;
    /* A context ends, and what the backend put into its slot (tg_host.slot) is not NULL: the time to release it, `kept`. The context's
     * work has ended before, and its memory on the device has been given back. It sets no error. NULL: nothing to do. */
    void (*leave)(tg_ctx *ctx, void *kept);
};

/* Takes a backend that is part of the program: what tg_backend_load() does for a file. The table and all
 * that it names must outlive the process's use of Tigon. TG_EABI, TG_EINVAL as tg_backend_load();
 * TG_EINVAL also without impls, which are found by name in shared libraries alone. For good, and for
 * contexts that exist already as well. */
TG_API tg_status tg_backend_register(const tg_backend *backend);

/* The entry of a backend that is built into the library: CMake's tigon_backend() lists it by vendor. */
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
