/* launch.h - a call of an operator on its way to the card: where it runs, and how errors come
 * back. For C and C++. */
#ifndef CUDA_LAUNCH_H
#define CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <tigon/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is kept for each card has room for so many; contexts take no other. */
enum { MOST_CARDS = 64 };

/* The library's services. */
extern const tg_host *cuda_host;

/* An index out of range that a kernel has found, kept for sync(): in memory that both sides see.
 * The first thread that sets `taken` writes the rest. op and argument are texts of the host. */
typedef struct cuda_fault {
    unsigned taken;
    const char *op, *argument;
    int64_t position, value, count;
} cuda_fault;

/* What a thread had before the backend: its card, and what it may do while a stream is recorded. */
typedef struct cuda_before {
    int card;
    enum cudaStreamCaptureMode mode;
} cuda_before;

typedef struct cuda_call {
    tg_ctx *ctx;
    const char *op;
    cudaStream_t stream;
    cuda_fault *fault;
    int processors, capability; /* of the card: multiprocessors, 90 for compute capability 9.0 */
    int card;
    int alike; /* rows do not know their batch: their number and their places decide nothing */
    cuda_before before;
} cuda_call;

/* Makes the card of `on` current. Every call that has begun ends. */
tg_status cuda_begin(cuda_call *call, tg_ctx *ctx, const char *op, const tg_tensor *on);
/* The given status, or where that is TG_OK that of what was launched since cuda_begin(). */
tg_status cuda_end(const cuda_call *call, tg_status status);

tg_status cuda_convert(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask);
/* tg_move() on the current card. */
void cuda_move(const void *const *from, int reads, void *const *to, int writes, size_t bytes,
               cudaStream_t stream);

#ifdef __cplusplus
}
/* An operator that a family's file runs, by a function cuda_<operator>(), of these element types.
 * CMake makes the table of backend.c from these lines. */
#define CUDA_OPERATOR(op, takes) \
    extern "C" tg_status cuda_##op(tg_ctx *ctx, const tg_##op##_args *args)
#endif

/* ---- tensors: tigon/rows.h ---- */

static inline char *data_of(const tg_tensor *t)
{
    return (char *)tg_data(t);
}

/* Elements of a row: of the last dimension. */
static inline int64_t width_of(const tg_tensor *t)
{
    return tg_rows_of(t).n;
}

static inline int64_t rows_of(const tg_tensor *t)
{
    return tg_rows_of(t).rows;
}

/* Distance of two rows, in elements. Of a single row what it would be among others, as far as
 * strides tell: the one of those that may be meant with the fewest powers of 2. So a row of padded
 * strides is not taken for one that lies better than its neighbours. */
static inline int64_t stride_of(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    int64_t stride = rows.stride;
    for (int i = t->strides && rows.rows == 1 ? t->ndim - 2 : -1; i >= 0; i--) {
        const int64_t other = t->strides[i], worse = other & -other;
        if (other >= rows.n && (stride == rows.n || worse < (stride & -stride)))
            stride = other;
    }
    return stride;
}

#endif
