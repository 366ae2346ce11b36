/* src/core/services.h - what core offers to operators: errors, argument checks, views, scratch,
 * tables of implementations. */
#ifndef TG_CORE_SERVICES_H
#define TG_CORE_SERVICES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "tigon/backend.h"
#include "tigon/context.h"
#include "tigon/ops.h"

/* ---- errors: tg_fail() is in tigon/backend.h ---- */

#define TG_TRY(call)                                   \
    do {                                               \
        const tg_status try_status_ = (call);          \
        if (__builtin_expect(try_status_ != TG_OK, 0)) \
            return try_status_;                        \
    } while (0)

#include "core/check.h"

/* "f32[7,4096]": for messages; writes at most size bytes and returns text. */
const char *tg_describe(const tg_tensor *t, char *text, size_t size);

/* A few words for a message: tg_type_words(type).text */
typedef struct tg_words {
    char text[56];
} tg_words;
/* "bf16"; of types that Tigon does not know, too: "complex64", "i8", "f32 in vectors of 4" */
tg_words tg_type_words(int type);

/* ---- elements; views and rows are tigon/rows.h ---- */

/* Index of a type in simd.h's order: f32 0, bf16 1, f16 2, f64 3. */
static inline int tg_el(int type)
{
    return type == TG_F32 ? 0 : type == TG_BF16 ? 1 : type == TG_F16 ? 2 : 3;
}

/* One element as double, for ref: any type of the contract, i64 included. */
double tg_get_narrow(const void *data, int type, int64_t i); /* of any other type than f32, f64 */
static inline double tg_get(const void *data, int type, int64_t i)
{
    return type == TG_F64   ? ((const double *)data)[i]
           : type == TG_F32 ? ((const float *)data)[i]
                            : tg_get_narrow(data, type, i);
}
/* Several, one after the other: in `memory`, or where they are if they are doubles. */
const double *tg_get_row(double *memory, const void *data, int type, int64_t first, int64_t count);
void tg_set(void *data, int type, int64_t i, double value);

/* Element j of row i. */
static inline double tg_row_get(const tg_rows *t, int64_t i, int64_t j)
{
    return tg_get(t->data, t->type, i * t->stride + j);
}

static inline void tg_row_set(const tg_rows *t, int64_t i, int64_t j, double value)
{
    tg_set(t->data, t->type, i * t->stride + j, value);
}

/* The value after rounding to a storage type. */
static inline double tg_rounded(int type, double value)
{
    double memory;
    tg_set(&memory, type, 0, value);
    return tg_get(&memory, type, 0);
}

/* scale times a factor in host memory, if there is one. */
static inline double tg_times_factor(double scale, const tg_tensor *factor)
{
    return factor ? scale * tg_get(tg_data(factor), tg_type_of(factor), 0) : scale;
}

/* ---- scratch and threads (tg_parallel_for and tg_ctx_threads are public, in context.h) ---- */

/* Processors of the machine, whatever of them a process or a context may use. */
int tg_processors(void);

/* 64-byte aligned scratch, given back by itself when the running implementation returns, or earlier
 * by tg_workspace_free. Called from the implementation's own thread only, never from inside
 * parallel_for. NULL with the error set if there is none. */
void *tg_workspace(tg_ctx *ctx, size_t bytes);
void tg_workspace_free(tg_ctx *ctx, void *ptr);
/* The same where a tensor lies: of the host, or of the context's device. */
void *tg_workspace_beside(tg_ctx *ctx, const tg_tensor *t, size_t bytes);

/* A lock that fork() waits for, so that it is free in the child. Once a lock, before
 * it is first taken. */
void tg_lock_across_fork(pthread_mutex_t *lock);

/* Beside the features of tigon/backend.h: products of bf16 in matrix units, on processors that have
 * TG_CPU_BF16 as well. No level has it, so that any ceiling leaves it out. */
#define TG_CPU_AMX ((uint64_t)1 << 5)

/* 1 if an output of so many bytes should be written with streaming stores: it will not be read from
 * cache. */
int tg_streams(int64_t bytes);

/* ---- implementations ----
 *
 * A file of the family defines one table of each kind that it has; CMake collects them:
 *   <family>_ref.c       TG_REF_IMPLS(family) = { TG_REF_IMPL(op, run), ..., TG_IMPLS_END };
 *   <family>_parts.c     TG_PARTS_IMPLS(family) = { TG_PARTS_IMPL(op, run), ... };
 *   <family>_cpu.c       TG_CPU_IMPLS(family) = { TG_CPU_IMPL(op, run), ... };
 * All of them promise that rows do not know their batch, in contexts that ask for it.
 * The parts are of the backend cpu; <family>_cpu.c is compiled once for each level TG_LEVEL.
 */
#define TG_PARTS_IMPLS(family) const tg_impl tg_impls_##family##_parts[]
#define TG_PARTS_IMPL(op, run) \
    TG_IMPL(op, "", 0, TG_TAKES_FLOATS | TG_TAKES_ANY_DEVICE | TG_BATCH_INVARIANT, NULL, run)
#define TG_REF_IMPLS(family) const tg_impl tg_impls_##family##_ref[]
#define TG_REF_IMPL(op, run) \
    TG_IMPL(op, "", 0, TG_TAKES_FLOATS | TG_TAKES_F64 | TG_BATCH_INVARIANT, NULL, run)

#ifdef TG_LEVEL
#define TG_PASTE4_(a, b, c, d) a##b##c##d
#define TG_PASTE4(a, b, c, d) TG_PASTE4_(a, b, c, d)
#define TG_STRING_(a) #a
#define TG_STRING(a) TG_STRING_(a)
#define TG_CPU_IMPLS(family) const tg_impl TG_PASTE4(tg_impls_, family, _cpu_, TG_LEVEL)[]
#define TG_CPU_IMPL(op, run) TG_CPU_IMPL_IF(op, TG_TAKES_FLOATS, NULL, run)
#define TG_CPU_IMPL_IF(op, takes, accepts, run) \
    TG_IMPL(op, TG_STRING(TG_LEVEL), TG_LEVEL_NEEDS, (takes) | TG_BATCH_INVARIANT, accepts, run)
#endif

#endif
