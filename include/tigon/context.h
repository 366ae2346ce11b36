/* tigon/context.h - tg_ctx: device, its memory, stream, choice of implementations, fallback, threads, workspace.
 *
 * A context is used by one thread at a time; any number of contexts may be used side by side. Every
 * setting can come from the environment, which tg_ctx_create() reads once:
 *
 *   TIGON_DEVICE           tg_ctx_set_device     cpu, cuda, npu, xpu, npu-model (never inferred), or any that a
 *                                                backend adds
 *   TIGON_IMPL             tg_ctx_set_impl       ordered list of backends, e.g. "acme,cpu"
 *   TIGON_IMPL_<OPERATOR>  tg_ctx_set_op_impl    the same for one operator; full names allowed
 *   TIGON_STRICT           tg_ctx_set_strict     1: a fallback is an error
 *   TIGON_VERBOSE          tg_ctx_set_verbose    1: one log line a call
 *   TIGON_CPU_MAX          tg_ctx_set_cpu_max    ceiling of the CPU levels: v2, v3, v4, v4bf16; neon
 *   TIGON_FALLBACK         tg_ctx_set_fallback   error (default) or host
 *   TIGON_BACKEND_PATH     tg_backend_load       plug-ins to load, separated by ':'
 *   TIGON_BLAS                                   a library for products in f32: a file, a name, or none; otherwise MKL where
 *                                                it is there, on Intel's processors. One for the process, which its first context or product decides
 *   TIGON_TUNE             tg_tune               how kernels use memory, as `tigon tune` prints it; for the whole process
 *   TIGON_LIGER                                  the Python package reads it (docs/liger.md)
 *   OMP_NUM_THREADS        tg_ctx_set_threads    threads of the default executor
 *
 * Other variables that begin with TIGON_ and that no backend reads are mistakes: the log names them, once.
 */
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
/* Whether a variable of the environment is a setting that somebody reads: of those above, or of a backend that is loaded or lies
 * beside libtigon.so. TIGON_IMPL_<OPERATOR> is one whatever the operator is; tg_ctx_create() says where there is none. */
TG_API int tg_is_setting(const char *name);
/* Waits for the work that the context put on its device's stream. */
TG_API void tg_ctx_destroy(tg_ctx *ctx);

/* The device whose backends come first. NULL or "": infer it (tg_infer_device). A device that no backend serves yet is looked for in
 * libtigon_<device>.so, beside libtigon.so; such a library that is there but cannot be loaded is an error. */
TG_API tg_status tg_ctx_set_device(tg_ctx *ctx, const char *device);
TG_API const char *tg_ctx_device(const tg_ctx *ctx);
/* The type of the memory that the device's implementations take, TG_DEVICE_*: what tensors in memory of tg_alloc() say in
 * device.device_type, with device_id 0. TG_DEVICE_CPU where that is host memory: on cpu and on npu-model. */
TG_API int tg_ctx_device_type(const tg_ctx *ctx);

/* The stream (cudaStream_t, aclrtStream...) that implementations of the device launch on; NULL is the default stream.
 * Work that was given to the old one is not waited for. Between tg_graph_begin() and tg_graph_end() tg_ctx_stream() is the one that is recorded:
 * what else a program puts on it, or makes wait for it and it wait for, becomes a part of the graph, if the device can record that. */
TG_API tg_status tg_ctx_set_stream(tg_ctx *ctx, void *stream);
TG_API void *tg_ctx_stream(const tg_ctx *ctx);

/* The backends that may run, in order. An explicit list is exhaustive: what it cannot run is an
 * error. NULL or "": automatic (the device's backends, last loaded first, then cpu, then ref). */
TG_API tg_status tg_ctx_set_impl(tg_ctx *ctx, const char *list);
TG_API tg_status tg_ctx_set_op_impl(tg_ctx *ctx, const char *op, const char *list);

/* What happens when tensors lie in device memory and no implementation of that device runs the problem. */
typedef enum tg_fallback {
    TG_FALLBACK_ERROR = 0, /* TG_EUNSUPPORTED, with a message that names this setting */
    TG_FALLBACK_HOST = 1   /* copy in, run on the host, copy out; one log line an operator */
} tg_fallback;
TG_API tg_status tg_ctx_set_fallback(tg_ctx *ctx, tg_fallback policy);

/* Strict: only implementations of the chosen device run; `ref` and, for another device than the CPU, the CPU's
 * are errors unless an explicit list names them. */
TG_API tg_status tg_ctx_set_strict(tg_ctx *ctx, int on);

/* One line a call: implementation, tensors, time. Lines go to `log`, to stderr without one. */
typedef void (*tg_log_fn)(void *user, const char *line);
TG_API tg_status tg_ctx_set_verbose(tg_ctx *ctx, int on);
TG_API tg_status tg_ctx_set_log(tg_ctx *ctx, tg_log_fn log, void *user);

/* Where log lines go that belong to no context, and those of contexts without a log; NULL: stderr.
 */
TG_API void tg_set_log(tg_log_fn log, void *user);

/* Ceiling of the CPU levels; NULL or "": what the machine has. oneDNN, which runs products, has one
 * limit for the whole process, TIGON_CPU_MAX as it was when the first context was made; a context with
 * a lower ceiling than that multiplies without it. No level has matrix units (AMX): any ceiling leaves
 * them out. */
TG_API tg_status tg_ctx_set_cpu_max(tg_ctx *ctx, const char *level);

/* Full name of the implementation that ran last in this context, such as "cpu/rms_norm_forward.v4"; "" before.
 * The outermost operator counts, not the parts that a composite calls. */
TG_API const char *tg_ctx_last_impl(const tg_ctx *ctx);

/* ---- threads ---- */

/* Number of workers; 0: the default (OMP_NUM_THREADS, else the processors). Results do not depend
 * on it: work is cut by the problem's size, partial sums are combined in index order.
 *
 * OpenMP's library makes a team of threads for each thread that calls operators, with its first large loop, and ends the process where it
 * finds no memory for it. So the default executor asks first whether there is address space for so many stacks, and where there is not the
 * calling thread does all of the work. What is left to that library are a few hundred bytes for each thread that calls: a program that must
 * survive a malloc() that fails even there makes a call before (gemm's README says what products need).
 *
 * After fork() the child may go on calling operators, with contexts of the parent (but for those that another thread was
 * using) or new ones. OpenMP's threads stay in the parent, and so the default executor runs all work on the thread that
 * called fork(), whatever is set here; on threads that the child starts itself it takes as many as are set. Devices other
 * than the CPU belong to the parent: their drivers do not survive fork(). */
TG_API tg_status tg_ctx_set_threads(tg_ctx *ctx, int threads);
TG_API int tg_ctx_threads(const tg_ctx *ctx);

/* An executor runs task(arg, i) once for each i in [0, tasks), in any order, on any threads, and
 * returns when all have returned. tasks is at most tg_ctx_threads(). NULL: the default (OpenMP). */
typedef void (*tg_executor)(void *user, int tasks, void (*task)(void *arg, int index), void *arg);
TG_API tg_status tg_ctx_set_executor(tg_ctx *ctx, tg_executor run, void *user);

/* Cuts [0, n) into chunks [k*grain, min(n, (k+1)*grain)) and calls fn once for each. `worker`, in
 * [0, tg_ctx_threads()), tells which scratch slot the call may use: no two calls at once share it.
 */
typedef void (*tg_range_fn)(void *arg, int64_t begin, int64_t end, int worker);
TG_API void tg_parallel_for(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg);

/* How kernels of the CPU use memory, of the whole process: a table by processors has what suits the machine, TIGON_TUNE, read
 * once, or this changes it, and `tigon tune` measures what would. settings: "stream=33554432,pass=4096", numbers of bytes, of
 *   stream   an output of more is written past the caches
 *   pass     how far ahead a walk along arrays asks for memory
 *   exps     the same where each element has an exponential
 *   rows     of rows that are asked for while others are computed, how much is on its way
 * Results do not depend on how far ahead, to the bit; past the caches or not, sums may be rounded otherwise. No call may run meanwhile.
 * Errors: TG_ENOTFOUND for another name, TG_EINVAL for what is no number of bytes; nothing is changed then. */
TG_API tg_status tg_tune(const char *settings);
/* What a setting is now, in bytes; -1 for a name that is none. Known once there has been a context. */
TG_API int64_t tg_tuned(const char *name);

/* ---- memory of the device ----
 *
 * What a program needs to run on any device: memory for tensors, and copies to and from it. Where the device's memory is
 * the host's (tg_ctx_device_type() is TG_DEVICE_CPU) these are the C library's, and nothing is asynchronous.
 *
 * On a device, copies and calls of operators are put on the context's stream and return at once: they run in the order in
 * which they were given, and host memory that a copy reads must stay as it is, and what it writes must not be looked at,
 * until tg_sync() has returned. A call that returned TG_OK may still fail there.
 */

/* Memory that implementations of the context's device take, at an address that is a multiple of 64. Of 0 bytes, memory that must not
 * be touched. It comes from the device's own allocator, which may be slow: take it once, not in every step. The host may
 * not follow the pointer, but may add to it. NULL, with the error set: TG_ENOMEM there is none; TG_EUNSUPPORTED the
 * backend offers none, or, of the host's memory, the process's aligned_alloc() does not align. */
TG_API void *tg_alloc(tg_ctx *ctx, size_t bytes);

/* Gives back memory of tg_alloc(), of this context and of the device that it had then, once the work that was put on the
 * stream before has ended; the call itself may wait for that. NULL: nothing. */
TG_API void tg_free(tg_ctx *ctx, void *ptr);

/* Memory of the host for copies: from and to other memory of the host tg_copy() may wait, or copy twice, on the way to some devices.
 * At a multiple of 64. It is given back by tg_free_host(), when no copy uses it any more; NULL: nothing. */
TG_API void *tg_alloc_host(tg_ctx *ctx, size_t bytes);
TG_API void tg_free_host(tg_ctx *ctx, void *ptr);

/* Copies bytes; either side is host memory (TG_DEVICE_CPU) or the device's (tg_ctx_device_type()), in any combination, and
 * the two do not overlap. TG_EINVAL for another type of memory, or NULL where there are bytes to copy. */
TG_API tg_status tg_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                         int src_device_type, size_t bytes);

/* Reads all of `from` and writes all of `to`, buffers of the device: a byte of each `to` becomes the exclusive-or of those that stand at
 * its place in `from`. An operator on as many tensors can be no faster than the device does this, and so benchmarks measure it beside
 * them. Addresses and `bytes` are multiples of 16; a buffer may be in both lists. At most TG_MOST_MOVED in a list.
 * TG_EUNSUPPORTED where the device's backend does not have it. */
enum { TG_MOST_MOVED = 12 };
TG_API tg_status tg_move(tg_ctx *ctx, const void *const *from, int reads, void *const *to,
                         int writes, size_t bytes);

/* Waits until all work that this context put on its stream has ended. Returns its first error since the last tg_sync():
 * TG_EDEVICE if the device failed, or TG_EINVAL for indices in device memory that are out of range ("cross_entropy_forward:
 * target[3] is 99, out of bounds: ..."), which only the kernel can see; what depends on them is not to be used, and all else
 * goes on. */
TG_API tg_status tg_sync(tg_ctx *ctx);

/* A moment of the context's work, to wait for that alone and not for what was put on the stream behind it. */
typedef struct tg_event tg_event;

/* The event is now: when all work has ended that this context has put on its stream so far. *event NULL: a new one, which
 * tg_event_destroy() gives back, before the context leaves its device. */
TG_API tg_status tg_event_record(tg_ctx *ctx, tg_event **event);
/* Waits until then, and returns what tg_sync() would. On a device whose backend tells no events it waits for all work. */
TG_API tg_status tg_event_wait(tg_ctx *ctx, tg_event *event);
TG_API void tg_event_destroy(tg_ctx *ctx, tg_event *event);

/* How long the device took, by its own clock: for the work that was put on the context's stream between the two calls, without the time
 * that the host took to put it there if that was shorter. tg_time_end() waits for the work. Where the device works in host memory, or
 * tells no time, it is the host's clock. One measurement at a time in a context; neither can be recorded. TG_EINVAL without a context or
 * without `seconds`, and from tg_time_end() without tg_time_begin(). */
TG_API tg_status tg_time_begin(tg_ctx *ctx);
TG_API tg_status tg_time_end(tg_ctx *ctx, double *seconds);

/* ---- calls that are recorded, and put on the device again as a whole ----
 *
 *   make the calls once;
 *   tg_graph_begin(ctx);  make them again;  tg_graph_end(ctx, &graph);
 *   tg_graph_launch(ctx, graph);  tg_graph_launch(ctx, graph);  ...
 *
 * From tg_graph_begin() to tg_graph_end() calls of operators, and copies, of this context are recorded and do not run. A launch runs all of
 * them, in their order, behind what is on the context's stream: for the host one call, however many they are. They have the arguments that
 * they were recorded with, options by value and tensors by address; what lies in the tensors may have changed.
 *
 * No memory can be taken meanwhile, and so the calls are made once before, which leaves what they need in the workspace. That stays there while
 * there is a graph: nothing is trimmed, and the context keeps its device and its stream. tg_alloc(), tg_sync(), events and times are errors
 * between begin and end, and tg_free() is not called there.
 *
 * TG_EUNSUPPORTED from tg_graph_begin(): the device records nothing (the CPU calls at once), or calls may fall back to the host, which
 * cannot be recorded. */
typedef struct tg_graph tg_graph;

TG_API tg_status tg_graph_begin(tg_ctx *ctx);
/* graph NULL: what was recorded is dropped, such as after a call that has failed. */
TG_API tg_status tg_graph_end(tg_ctx *ctx, tg_graph **graph);
TG_API tg_status tg_graph_launch(tg_ctx *ctx, tg_graph *graph);
/* Once its last launch has ended, which the call may wait for, and before the context leaves its device. NULL: nothing. */
TG_API void tg_graph_destroy(tg_ctx *ctx, tg_graph *graph);

/* ---- workspace: scratch memory that implementations take from the context, kept between calls ---- */

/* Where the workspace in host memory comes from; NULL functions: the C library. alloc: at any address, NULL if there is none.
 * Implementations get memory at a multiple of 64 in any case: of an allocator that aligns to less, 64 bytes more are taken for each
 * block, and results are the same. */
typedef void *(*tg_alloc_fn)(void *user, size_t bytes);
typedef void (*tg_free_fn)(void *user, void *ptr);
TG_API tg_status tg_ctx_set_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release,
                                      void *user);

/* Where the workspace in the memory of the context's device comes from, instead of its backend: a program's own caching allocator.
 * For as long as the context keeps its device; NULL functions: the backend again. alloc: at a multiple of 64, for use on the
 * context's stream; NULL if there is none. release: work that uses the memory may still be on the stream, and it must not be given
 * to anything that does not come behind that. TG_EUNSUPPORTED where the device works in host memory. */
TG_API tg_status tg_ctx_set_device_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release,
                                             void *user);

/* Largest number of bytes in use at once since the last reset, in host and in device memory. */
TG_API size_t tg_ctx_workspace_peak(const tg_ctx *ctx);
TG_API void tg_ctx_workspace_reset_peak(tg_ctx *ctx);

/* Gives back all workspace memory that is kept but not in use. */
TG_API void tg_ctx_workspace_trim(tg_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
