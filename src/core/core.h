/* src/core/core.h - what the files of core share and nobody else sees. */
#ifndef TG_CORE_CORE_H
#define TG_CORE_CORE_H

#include <stdarg.h>
#include <stdatomic.h>

#include "core/schema.h"
#include "core/services.h"
#include "tigon/registry.h"

enum { MAX_IMPLS = 4096, MAX_BACKENDS = 64, MAX_ROUTE = 32, NAME_SIZE = 32 };

/* ---- calls.c: typed calls behind untyped pointers, expanded from ops.def ---- */

typedef struct op_calls {
    tg_status (*run)(const tg_impl *impl, tg_ctx *ctx, const void *args);
    int (*accepts)(const tg_impl *impl, const void *args);
} op_calls;
extern const op_calls tg_op_calls[TG_OP_COUNT];
/* What no schema says; NULL: nothing. */
extern tg_status (*const tg_family_checks[TG_OP_COUNT])(const void *args);
/* Functions of the type tg_<op>_fn: the default, whatever backends are overlaid. */
extern void (*const tg_default_calls[TG_OP_COUNT])(void);

/* ---- dispatch.c ---- */

/* As the caller gave them. */
tg_status tg_call_of(tg_ctx *ctx, int op, const void *args);
/* args are resolved. */
tg_status tg_dispatch(tg_ctx *ctx, int op, const void *args);
/* By the CPU's implementations, for one that passes on what it does not take. */
tg_status tg_run_default(tg_ctx *ctx, int op, const void *args);

/* ---- unsupported.c ---- */

/* 1 if core, or the device's backend, can convert these tensors. */
int tg_can_convert(const tg_ctx *ctx, int op, const void *args);
/* Of tensors in device memory: TG_OK, or what would have to be converted and cannot. */
tg_status tg_check_on_device(const tg_ctx *ctx, int op, const void *args, int device_type);
/* No implementation ran: on the host, if that is asked for, or an error. */
tg_status tg_no_impl(tg_ctx *ctx, int op, const void *args, int device_type);

/* ---- registry.c, registry_find.c ---- */

typedef struct reg_impl {
    tg_impl impl;
    tg_impl_info info;
    int index;   /* its number */
    int backend; /* its backend's number */
    int op;
    const char *const *calls; /* operators that it is made of, see parts.h; NULL: of none */
} reg_impl;

typedef struct reg_backend {
    tg_backend table;
    const tg_backend *given; /* what table is a copy of; NULL: core's own */
    tg_backend_info info;
    void *handle; /* of dlopen; NULL: built in */
} reg_backend;

/* Registers what is built in and loads TIGON_BACKEND_PATH, once; returns the outcome of that. */
tg_status tg_registry_open(void);
extern atomic_int tg_registry_generation; /* changes when implementations were added */
const reg_impl *tg_registry_impl(int impl);
const reg_backend *tg_registry_backend(int backend);
int tg_registry_backend_by_vendor(const char *vendor);
const reg_backend *tg_registry_backend_given(const tg_backend *given);
int tg_backend_serves(int backend, const char *device); /* without being named */
/* Takes a checked table, a copy of `given`; impls may differ from table->impls. Callers
 * hold the load lock. */
tg_status tg_registry_add(const tg_backend *table, const tg_backend *given, const tg_impl *impls,
                          void *handle, const char *path);
/* A device without a backend gets the one that lies beside this library, if any. */
tg_status tg_registry_bring(const char *device);
/* The same for a vendor, or for the vendor in an implementation's full name. */
tg_status tg_registry_bring_vendor(const char *name);
int tg_registry_has_handle(void *handle);
/* "cpu, ref" */
void tg_registry_vendors(char *text, size_t size);

/* ---- plugin.c ---- */

/* Callers hold the load lock. */
tg_status tg_plugin_load(const char *path);
/* libtigon_<name>.so in the folder of this library, if it is there. name: a device, or a vendor. */
tg_status tg_plugin_load_beside(const char *name);
/* Its path, "" where there can be none; whether it is there. */
int tg_plugin_path_beside(const char *name, char *path, size_t size);
/* where: what messages and queries call the place that it comes from. */
tg_status tg_plugin_register(const char *where, const tg_backend *table);
extern const tg_host tg_host_services;

/* ---- cpu.c ---- */

uint64_t tg_cpu_features(void);
/* Reads the ceiling of the process, see ceiling.h; once, from the registry. */
void tg_cpu_open(void);
/* 1 if the operating system lets this process use matrix units (TG_CPU_AMX), for which
 * it has to be asked. */
int tg_cpu_permit_tiles(void);
/* Those that the machine has but that do not pay: built-in implementations that need them
 * come after others. */
uint64_t tg_cpu_slow_features(void);
/* The names of this architecture's levels, for messages. */
const char *tg_cpu_levels(void);
/* Feature set of a level's name; -1 for an unknown name. */
int64_t tg_cpu_level_features(const char *level);

/* ---- tuning.c: how kernels use memory, of the whole process ---- */

/* What suits this machine, and what TIGON_TUNE says; once, from the registry. */
tg_status tg_tuning_open(void);

/* ---- workspace.c ---- */

typedef struct block {
    void *ptr, *given; /* at a multiple of 64; what the allocator gave */
    size_t bytes;
    uint64_t serial; /* 0: free */
} block;

typedef struct workspace {
    block *blocks;
    int count, capacity;
    size_t used, peak;
    int kept; /* graphs that use its blocks: none goes back */
    /* bytes that a block is longer than asked for, where the allocator aligns to less than 64 */
    size_t more;
    tg_alloc_fn alloc;
    tg_free_fn release;
    void *user;
} workspace;

/* Gives back what was allocated, on the host and on the device, since ctx->taken was `mark`; in a
 * side nothing, as its join does. */
void tg_workspace_release(tg_ctx *ctx, uint64_t mark);
/* And until it was `last`. */
void tg_workspace_release_until(tg_ctx *ctx, uint64_t mark, uint64_t last);
void *tg_device_workspace(tg_ctx *ctx, size_t bytes);
/* Gives blocks back to where they came from: those that are not in use; all. */
void tg_workspace_trim(workspace *w);
void tg_workspace_close(workspace *w);

/* ---- side.c: see parts.h ---- */

typedef struct side {
    int depth;            /* of the implementation that began it; 0: there is none */
    int open;             /* it has not ended */
    int told;             /* the backend knows of it, and calls may not be on the device yet */
    uint64_t first, last; /* ctx->taken when it began and when it ended */
} side;

/* An implementation has returned: if it has not joined its side, that is dropped. */
void tg_side_left(tg_ctx *ctx);
/* What the side has so far, and all that it will have, runs in the order of the calls: other than
 * the device's own work follows. */
tg_status tg_side_in_order(tg_ctx *ctx);

/* ---- memory.c ---- */

tg_status tg_no_context(const char *function); /* TG_EINVAL: ctx is NULL */
double tg_host_seconds(void);                  /* since some moment */
/* The backend whose functions reach the device's memory; NULL: it is the host's,
 * or nobody has them. */
const tg_backend *tg_ctx_memory(const tg_ctx *ctx);
/* The device's workspace comes from that backend. */
void tg_ctx_use_own_memory(tg_ctx *ctx);
void tg_ctx_open_memory(tg_ctx *ctx);
/* The context leaves the device: work has ended, its errors are dropped, scratch
 * memory is given back. */
void tg_ctx_close_memory(tg_ctx *ctx);

/* ---- slot.c: what backends keep for a context ---- */

typedef struct ctx_slot {
    const reg_backend *backend;
    void *kept;
} ctx_slot;

void **tg_ctx_slot(tg_ctx *ctx, const tg_backend *backend);
/* The context ends: backends that keep something for it are told. */
void tg_ctx_leave(tg_ctx *ctx);

/* ---- graph.c ---- */

/* TG_EINVAL while the context's calls are recorded: for what cannot be. */
tg_status tg_expect_not_recording(const tg_ctx *ctx, const char *function);
/* TG_EINVAL while there are graphs: for what would take away what they use. */
tg_status tg_expect_no_graph(const tg_ctx *ctx, const char *function);

/* ---- route.c, context.c ---- */

/* The implementations that a call tries, for tensors in host memory or on the context's device. */
typedef struct route {
    int generation; /* of registry and settings; stale: resolve again */
    int count;
    const reg_impl *impls[MAX_ROUTE];
} route;

/* A list of implementations. */
typedef struct impl_list {
    char *words;  /* NULL: none */
    char who[96]; /* set it: a variable of the environment, or a function */
} impl_list;

struct tg_ctx {
    char device[NAME_SIZE];
    int device_type;
    int backend; /* that serves the device */
    int memory;  /* the backend whose functions reach its memory; -1: none */
    void *stream;
    impl_list impl;                 /* none: automatic */
    impl_list op_impl[TG_OP_COUNT]; /* none: as impl */
    tg_fallback fallback;
    int strict, verbose, batch_invariant;
    tg_log_fn log;
    void *log_user;
    uint64_t cpu_features; /* of the machine, below the ceiling */
    int threads;
    tg_executor executor;
    void *executor_user;
    workspace work, device_work;
    uint64_t taken;    /* serial of the newest block in use, of both */
    int settings;      /* changes when a setting changes */
    int depth;         /* of running implementations */
    int reserving;     /* calls take memory and write nothing, see parts.h */
    int recording;     /* calls go to a graph, see graph.c */
    void *recorded;    /* the stream then */
    double timed_from; /* the host's seconds at tg_time_begin(); 0: none was called */
    side side;
    const reg_impl *last_impl;
    uint8_t warned[TG_OP_COUNT]; /* host fallback said so */
    int slots;
    ctx_slot slot[MAX_BACKENDS]; /* in the order in which they were asked for */
    route routes[TG_OP_COUNT][2];
};

const route *tg_ctx_resolve(tg_ctx *ctx, int op, int on_device, int generation);
static inline const route *tg_ctx_route(tg_ctx *ctx, int op, int on_device)
{
    const int generation =
        atomic_load_explicit(&tg_registry_generation, memory_order_acquire) + ctx->settings;
    const route *r = &ctx->routes[op][on_device];
    return TG_LIKELY(r->generation == generation) ? r
                                                  : tg_ctx_resolve(ctx, op, on_device, generation);
}
/* 1 if calls of what an implementation is made of find one for tensors in the host's memory, or in
 * the device's. */
int tg_ctx_has_parts(const tg_ctx *ctx, const reg_impl *impl, int on_device);
/* 1 if a batch-invariant context, or one that is none, may run it. */
int tg_fits_batch(const tg_ctx *ctx, const reg_impl *impl);
/* The list that governs an operator; NULL: automatic. */
const impl_list *tg_ctx_list(const tg_ctx *ctx, int op);
/* Settings, for messages that name who asks for them: a function, or a variable of the
 * environment. op: -1 for all. */
tg_status tg_ctx_use_list(tg_ctx *ctx, int op, const char *list, const char *who);
tg_status tg_ctx_use_device(tg_ctx *ctx, const char *device, const char *who);
tg_status tg_ctx_use_cpu_max(tg_ctx *ctx, const char *level, const char *who);
int tg_device_type_is_known(int device_type);
tg_words tg_device_words(int device_type); /* "npu"; of unknown ones "device type 7" */
/* What brings a backend of Tigon's own that a build may have left out; NULL for other devices. */
const char *tg_device_remedy(const char *device);

/* ---- log.c, host.c ---- */

/* vsnprintf() with a decimal point, whatever the program's locale. */
void tg_format(char *text, size_t size, const char *format, va_list values)
    __attribute__((format(printf, 3, 0)));

void tg_log_line(const tg_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tg_log_call(tg_ctx *ctx, const reg_impl *impl, const void *args, double seconds,
                 tg_status status);
tg_status tg_run_on_host(tg_ctx *ctx, int op, const void *args);

/* ---- thread.c ---- */

int tg_default_threads(void);
/* In a child of fork(): OpenMP's threads are not here. */
void tg_threads_after_fork(void);

/* ---- fork.c ---- */

void tg_fork_open(void); /* once, from the registry */

/* ---- environment.c ---- */

tg_status tg_ctx_read_environment(tg_ctx *ctx);
/* One line of log for each TIGON_ variable that nobody reads. */
void tg_environment_warn(void);

#endif
