/* tigon/context.h - tg_ctx, what a program chooses for its calls: device, stream, implementations,
 * fallback, threads, workspace; and the memory of the device.
 *
 * A context is used by one thread at a time; any number of contexts may be used side by side. Every
 * setting can come from the environment, which tg_ctx_create() reads once:
 *
 *   TIGON_DEVICE           tg_ctx_set_device     cpu, cuda, npu, xpu, npu-model (never inferred),
 *                                                or a device that a backend adds
 *   TIGON_IMPL             tg_ctx_set_impl       ordered list of backends, e.g. "acme,cpu"
 *   TIGON_IMPL_<OPERATOR>  tg_ctx_set_op_impl    the same for one operator; full names allowed
 *   TIGON_STRICT           tg_ctx_set_strict     1: a fallback is an error
 *   TIGON_VERBOSE          tg_ctx_set_verbose    1: one log line a call
 *   TIGON_CPU_MAX          tg_ctx_set_cpu_max    highest CPU level that may run: v2, v3, v4,
 *                                                v4bf16; neon
 *   TIGON_FALLBACK         tg_ctx_set_fallback   error (default) or host
 *   TIGON_BATCH_INVARIANT  tg_ctx_set_batch_invariant
 *                                                1: rows do not know their batch
 *   TIGON_BACKEND_PATH     tg_backend_load       plug-ins to load, separated by ':'
 *   TIGON_BLAS                                   a BLAS library for products in f32: a file, a
 *                                                name, or none. Without it, MKL where it is
 *                                                installed, on processors of Intel. The first
 *                                                context or product decides it for the process
 *   TIGON_TUNE             tg_tune               how kernels use memory, as `tigon tune` prints it;
 *                                                for the whole process
 *   TIGON_LIGER                                  read by the Python package (docs/liger.md)
 *   TIGON_TRANSFORMERS                           the same (docs/transformers.md)
 *   OMP_NUM_THREADS        tg_ctx_set_threads    threads of the default executor
 *
 * Another variable that begins with TIGON_ and that no backend reads is a mistake: the log names it
 * once. */
#ifndef TIGON_CONTEXT_H
#define TIGON_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_ctx tg_ctx;

/* A new context with the settings of the environment. A wrong value there is TG_EINVAL or
 * TG_ENOTFOUND, with a message that names the variable; nothing is created then and *ctx is NULL.
 */
TG_API tg_status tg_ctx_create(tg_ctx **ctx);
/* 1 if an environment variable is a setting: one of those above, or one that a backend reads which
 * is loaded or lies beside libtigon.so. TIGON_IMPL_<OPERATOR> is a setting for any name of an
 * operator; tg_ctx_create() refuses a name that no operator has. */
TG_API int tg_is_setting(const char *name);
/* Waits for the work that the context put on its device's stream. */
TG_API void tg_ctx_destroy(tg_ctx *ctx);

/* The device whose backends are tried first. NULL or "": infer it (tg_infer_device). If no backend
 * that is loaded serves the device, libtigon_<device>.so is looked for beside libtigon.so; it is an
 * error if that library exists but cannot be loaded. */
TG_API tg_status tg_ctx_set_device(tg_ctx *ctx, const char *device);
TG_API const char *tg_ctx_device(const tg_ctx *ctx);
/* The type of the memory in which the device's implementations expect their tensors, TG_DEVICE_*.
 * Tensors in memory of tg_alloc() have it as their device.device_type, and 0 as device_id. It is
 * TG_DEVICE_CPU where the device works in host memory: on cpu and on npu-model. */
TG_API int tg_ctx_device_type(const tg_ctx *ctx);

/* The stream (cudaStream_t, aclrtStream...) on which implementations of the device launch their
 * work; NULL is the default stream. Setting a stream does not wait for the work on the previous
 * stream. Between tg_graph_begin() and tg_graph_end(), tg_ctx_stream() returns the stream that is
 * recorded: whatever else a program puts on it, and work of other streams that waits for it and
 * that it waits for, becomes a part of the graph, if the device can record it. */
TG_API tg_status tg_ctx_set_stream(tg_ctx *ctx, void *stream);
TG_API void *tg_ctx_stream(const tg_ctx *ctx);

/* The backends that may run, in order. An explicit list is exhaustive: it is an error if nothing on
 * the list can run a call. NULL or "": automatic (the device's backends, last loaded first, then
 * cpu, then ref). */
TG_API tg_status tg_ctx_set_impl(tg_ctx *ctx, const char *list);
TG_API tg_status tg_ctx_set_op_impl(tg_ctx *ctx, const char *op, const char *list);

/* What happens if tensors lie in device memory and no implementation of that device can run the
 * call. */
typedef enum tg_fallback {
    TG_FALLBACK_ERROR = 0, /* TG_EUNSUPPORTED, with a message that names this setting */
    TG_FALLBACK_HOST = 1 /* copy in, run on the host, copy out; the log names each operator once */
} tg_fallback;
TG_API tg_status tg_ctx_set_fallback(tg_ctx *ctx, tg_fallback policy);

/* Strict: only implementations of the chosen device run. It is an error if a call would need `ref`
 * or, on another device than the CPU, an implementation of the CPU, unless an explicit list names
 * it. */
TG_API tg_status tg_ctx_set_strict(tg_ctx *ctx, int on);

/* Batch-invariant: what a call computes for a row has the same bits whatever other rows are in the
 * call, how many they are, and where the row stands among them. Rows are what a batch is made of:
 * tokens, and sequences where an operator needs them whole (attention, convolutions). It holds for
 * outputs and gradients of a row, as long as device, CPU level and types stay the same, and on a
 * card whether rows begin at multiples of 16 bytes. Gradients of parameters and reduced losses,
 * which are sums over the batch, are left out, and so are gradients that a mean divides by the
 * batch's size. Only implementations that promise it run then (TG_BATCH_INVARIANT of backend.h);
 * products on the CPU and on cards are those of Tigon's own kernels.
 * `tigon check --batch-invariant` proves it. */
TG_API tg_status tg_ctx_set_batch_invariant(tg_ctx *ctx, int on);
TG_API int tg_ctx_batch_invariant(const tg_ctx *ctx);

/* Verbose: each call writes a line with its implementation, tensors and time, to the function `log`
 * of the context, or to stderr if it has none. */
typedef void (*tg_log_fn)(void *user, const char *line);
TG_API tg_status tg_ctx_set_verbose(tg_ctx *ctx, int on);
TG_API tg_status tg_ctx_set_log(tg_ctx *ctx, tg_log_fn log, void *user);

/* The function that gets log lines which belong to no context or to a context without a log of its
 * own; NULL: they go to stderr. */
TG_API void tg_set_log(tg_log_fn log, void *user);

/* The highest CPU level whose kernels may run; NULL or "": the machine's own. oneDNN, which
 * computes matrix products, has one limit for the whole process: TIGON_CPU_MAX as it was when the
 * first context was created. A context with a lower limit computes its products without oneDNN. No
 * level includes matrix units (AMX), so that any limit excludes them. */
TG_API tg_status tg_ctx_set_cpu_max(tg_ctx *ctx, const char *level);

/* Full name of the implementation that ran last in this context, such as "cpu/rms_norm_forward.v4";
 * "" before the first call. For a composite operator it is the composite, not the parts that it
 * calls. */
TG_API const char *tg_ctx_last_impl(const tg_ctx *ctx);

/* ---- threads ---- */

/* Number of workers; 0: the default (OMP_NUM_THREADS, else the processors). Results do not depend
 * on it: work is cut by the problem's size, partial sums are combined in index order.
 *
 * OpenMP's library creates a team of threads for each thread that calls operators, at its first
 * large loop, and ends the process if it finds no memory for the team. The default executor
 * therefore asks first whether there is address space for the stacks of these threads; if there is
 * not, the calling thread does all of the work. Beyond that, OpenMP's library allocates a few
 * hundred bytes for each calling thread. A program that must survive even a failure of that
 * malloc() makes a call in advance (gemm's README says what products need).
 *
 * After fork() the child may go on calling operators, with new contexts or with contexts of the
 * parent that no other thread was using. OpenMP's threads stay in the parent, and so the default
 * executor runs all work of the thread that called fork() on that thread alone, whatever is set
 * here; threads that the child starts itself have as many workers as are set. Devices other than
 * the CPU belong to the parent: their drivers do not survive fork(). */
TG_API tg_status tg_ctx_set_threads(tg_ctx *ctx, int threads);
TG_API int tg_ctx_threads(const tg_ctx *ctx);

/* An executor runs task(arg, i) once for each i in [0, tasks), in any order, on any threads, and
 * returns when all have returned. tasks is at most tg_ctx_threads(). NULL: the default (OpenMP). */
typedef void (*tg_executor)(void *user, int tasks, void (*task)(void *arg, int index), void *arg);
TG_API tg_status tg_ctx_set_executor(tg_ctx *ctx, tg_executor run, void *user);

/* Cuts [0, n) into chunks [k*grain, min(n, (k+1)*grain)) and calls fn once for each. `worker`, in
 * [0, tg_ctx_threads()), is the number of a scratch slot that the call may use: calls that run at
 * the same time have different numbers. */
typedef void (*tg_range_fn)(void *arg, int64_t begin, int64_t end, int worker);
TG_API void tg_parallel_for(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg);

/* Changes how kernels of the CPU use memory, for the whole process. By default a table of
 * processors in the library decides, or TIGON_TUNE, which is read once; `tigon tune` measures what
 * suits a machine. settings: "stream=33554432,pass=4096", numbers of bytes, of
 *   stream   an output larger than this is written past the caches
 *   pass     how far ahead a walk along arrays asks for memory
 *   exps     the same where each element needs an exponential
 *   rows     how many bytes of the next rows are requested while a row is computed
 * How far ahead memory is requested does not change a bit of the results; whether outputs are
 * written past the caches may change how sums are rounded. No call may run meanwhile. Errors:
 * TG_ENOTFOUND for another name, TG_EINVAL for a value that is no number of bytes; nothing is
 * changed then. */
TG_API tg_status tg_tune(const char *settings);
/* The present value of a setting, in bytes; -1 for an unknown name. Known once a context has been
 * created. */
TG_API int64_t tg_tuned(const char *name);

/* ---- memory of the device ----
 *
 * These functions are all that a program needs to run on any device: memory for tensors, and copies
 * to and from it. Where the device works in host memory (tg_ctx_device_type() is TG_DEVICE_CPU)
 * they are those of the C library, and nothing is asynchronous.
 *
 * On a device, copies and calls of operators are put on the context's stream and return at once.
 * They run in the order in which they were called. Until tg_sync() has returned, host memory that a
 * copy reads must not be changed, and host memory that a copy writes must not be read. Work whose
 * call returned TG_OK may still fail; tg_sync() then returns the error. */

/* Memory of the context's device, at an address that is a multiple of 64. For 0 bytes, a pointer
 * that must not be dereferenced. The memory comes from the device's own allocator, which may be
 * slow: allocate once, not in every step. The host must not dereference a pointer to device memory,
 * but may add to it. NULL, with the error set: TG_ENOMEM if there is no memory; TG_EUNSUPPORTED if
 * the backend offers none or, of host memory, if aligned_alloc() of the process does not align. */
TG_API void *tg_alloc(tg_ctx *ctx, size_t bytes);

/* Frees memory of tg_alloc(), of this context and of the device that it had then, once the work
 * that was put on the stream before has ended; the call itself may wait for that. NULL is
 * allowed. */
TG_API void tg_free(tg_ctx *ctx, void *ptr);

/* Host memory for copies, at a multiple of 64: with other host memory, tg_copy() to or from certain
 * devices waits or copies twice. tg_free_host() frees it; no copy may use it any more. NULL is
 * allowed. */
TG_API void *tg_alloc_host(tg_ctx *ctx, size_t bytes);
TG_API void tg_free_host(tg_ctx *ctx, void *ptr);

/* Copies bytes. Source and destination are host memory (TG_DEVICE_CPU) or device memory
 * (tg_ctx_device_type()), in any combination, and do not overlap. TG_EINVAL for another type of
 * memory, or for NULL if there are bytes to copy. */
TG_API tg_status tg_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                         int src_device_type, size_t bytes);

/* Reads all buffers of `from` and writes all buffers of `to`, in the device's memory: each byte of
 * each output is the exclusive-or of the bytes at its place in `from`. No operator on as many
 * tensors can be faster than this, which is why benchmarks measure it. Addresses and `bytes` are
 * multiples of 16; a buffer may be in both lists. A list has at most TG_MOST_MOVED buffers.
 * TG_EUNSUPPORTED if the device's backend does not have it. */
enum { TG_MOST_MOVED = 12 };
TG_API tg_status tg_move(tg_ctx *ctx, const void *const *from, int reads, void *const *to,
                         int writes, size_t bytes);

/* Waits until all work that this context put on its stream has ended. Returns the first error of
 * that work since the last tg_sync(): TG_EDEVICE if the device failed, or TG_EINVAL for indices in
 * device memory that are out of range, which only the kernel can see ("cross_entropy_forward:
 * target[3] is 99, out of bounds: ..."). After such an error, results that depend on these indices
 * are undefined; all others are right. */
TG_API tg_status tg_sync(tg_ctx *ctx);

/* An event marks a moment of the context's work, so that a program can wait for the work before it
 * and not for the work behind it. */
typedef struct tg_event tg_event;

/* Records an event behind all work that this context has put on its stream so far. If *event is
 * NULL, a new event is created. tg_event_destroy() frees it, before the context leaves its
 * device. */
TG_API tg_status tg_event_record(tg_ctx *ctx, tg_event **event);
/* Waits for the work before the event, and returns what tg_sync() would. On a device whose backend
 * has no events it waits for all work. */
TG_API tg_status tg_event_wait(tg_ctx *ctx, tg_event *event);
TG_API void tg_event_destroy(tg_ctx *ctx, tg_event *event);

/* Measures how long the device took, by its own clock, for the work that was put on the context's
 * stream between the two calls. The time that the host took to put it there is not included, if it
 * was shorter. tg_time_end() waits for the work. If the device works in host memory, or has no
 * clock, the host's clock is used. A context measures one span at a time; neither call can be
 * recorded in a graph. TG_EINVAL without a context or without `seconds`, and from tg_time_end()
 * without tg_time_begin(). */
TG_API tg_status tg_time_begin(tg_ctx *ctx);
TG_API tg_status tg_time_end(tg_ctx *ctx, double *seconds);

/* ---- calls that are recorded, and put on the device again as a whole ----
 *
 *   make the calls once;
 *   tg_graph_begin(ctx);  make them again;  tg_graph_end(ctx, &graph);
 *   tg_graph_launch(ctx, graph);  tg_graph_launch(ctx, graph);  ...
 *
 * From tg_graph_begin() to tg_graph_end(), calls of operators and copies of this context are
 * recorded and do not run. A launch runs all of them in their order, behind the work on the
 * context's stream. For the host it is one call, however many calls were recorded. They run with
 * the arguments with which they were recorded, options by value and tensors by address; the
 * contents of the tensors may have changed since.
 *
 * No memory can be allocated while calls are recorded. That is why the calls are made once before,
 * which leaves the memory that they need in the workspace. It stays there as long as a graph
 * exists: nothing is trimmed, and the context keeps its device and its stream. Between begin and
 * end, tg_alloc(), tg_sync(), events and times are errors, and tg_free() must not be called.
 *
 * tg_graph_begin() returns TG_EUNSUPPORTED if the device cannot record (on the CPU calls run at
 * once), or if calls may fall back to the host, which cannot be recorded. */
typedef struct tg_graph tg_graph;

TG_API tg_status tg_graph_begin(tg_ctx *ctx);
/* graph NULL: the recorded calls are dropped, as after a call that has failed. */
TG_API tg_status tg_graph_end(tg_ctx *ctx, tg_graph **graph);
TG_API tg_status tg_graph_launch(tg_ctx *ctx, tg_graph *graph);
/* Frees a graph, before the context leaves its device; the call may wait for the last launch to
 * end. NULL is allowed. */
TG_API void tg_graph_destroy(tg_ctx *ctx, tg_graph *graph);

/* ---- workspace: scratch memory that implementations take from the context, kept between calls
 * ---- */

/* The functions that allocate and free the workspace in host memory; NULL: those of the C library.
 * alloc may return memory at any address, or NULL if there is none. Implementations always get
 * memory at a multiple of 64: if an allocator aligns to less, each block is allocated 64 bytes
 * larger. Results are the same. */
typedef void *(*tg_alloc_fn)(void *user, size_t bytes);
typedef void (*tg_free_fn)(void *user, void *ptr);
TG_API tg_status tg_ctx_set_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release,
                                      void *user);

/* The functions that allocate and free the workspace in the device's memory, instead of its
 * backend, for instance a program's own caching allocator. They hold for as long as the context
 * keeps its device; NULL: the backend again. alloc returns memory at a multiple of 64, for use on
 * the context's stream, or NULL if there is none. When release is called, work on the stream may
 * still use the memory: it must not be reused for anything that does not run behind that work.
 * TG_EUNSUPPORTED if the device works in host memory. */
TG_API tg_status tg_ctx_set_device_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release,
                                             void *user);

/* The largest number of workspace bytes in use at once since the last reset, in host and in device
 * memory. */
TG_API size_t tg_ctx_workspace_peak(const tg_ctx *ctx);
TG_API void tg_ctx_workspace_reset_peak(tg_ctx *ctx);

/* Frees all workspace memory that is kept but not in use. */
TG_API void tg_ctx_workspace_trim(tg_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
