/* logits.cuh - wide rows of logits, each with a target: how they lie, how they are walked, and what
 * their sums of exponentials say. */
#ifndef CUDA_LOGITS_CUH
#define CUDA_LOGITS_CUH

#include "rows/held.cuh"
#include "rows/indices.cuh"

/* Rows in groups: `inner` rows follow each other at `stride`, and groups of them at `outer`.
 * Strides in bytes. */
struct plane_span {
    char *data;
    int64_t rows, inner, stride, outer;
    __device__ __forceinline__ char *row(int64_t r) const
    {
        return inner == rows ? data + r * stride : data + r / inner * outer + r % inner * stride;
    }
};

enum { LOSS_AHEAD = 4 /* chunks that a thread loads before it computes */ };

/* A row in memory. */
template <class T> struct walked_row {
    const T *row;

    /* each(j, v): a chunk of the row; from the end if `back`. */
    template <class EACH>
    __device__ __forceinline__ void walk(const team &t, int n, bool back, const EACH &each) const
    {
        const int step = t.lanes * V<T>, batch = LOSS_AHEAD * step;
        const int batches = (n + batch - 1) / batch;
        for (int b = 0; b < batches; b++) {
            const int first = (back ? batches - 1 - b : b) * batch + t.lane * V<T>;
            uint4 raw[LOSS_AHEAD];
#pragma unroll
            for (int u = 0; u < LOSS_AHEAD; u++)
                if (first + u * step < n)
                    raw[u] = load(row + first + u * step, n - first - u * step, MINUS_INFINITY<T>);
#pragma unroll
            for (int u = 0; u < LOSS_AHEAD; u++) {
                const int j = first + u * step;
                if (j < n) {
                    float v[V<T>];
                    widen<T>(raw[u], v);
                    each(j, v);
                }
            }
        }
    }
};

enum { LOGITS_THREADS = 512 /* of a block that holds a row, or a part of one */ };

typedef cluster_team<LOGITS_THREADS> logits_team;

/* A row of whole chunks in shared memory, a part of it in each block of a cluster. A thread copies
 * its chunks there, and alone reads them. */
template <class T> struct held_logits {
    uint4 *memory;

    __device__ __forceinline__ void take(const logits_team &t, const T *row, int n) const
    {
        for (int j = t.lane * V<T>, k = threadIdx.x; j < n;
             j += t.lanes * V<T>, k += LOGITS_THREADS)
            copy_ahead(memory + k, row + j);
    }

    template <class EACH>
    __device__ __forceinline__ void walk(const logits_team &t, int n, bool, const EACH &each) const
    {
#pragma unroll 2
        for (int j = t.lane * V<T>, k = threadIdx.x; j < n;
             j += t.lanes * V<T>, k += LOGITS_THREADS) {
            float v[V<T>];
            widen<T>(memory[k], v);
            each(j, v);
        }
    }
};

/* Past the cache: the row's logits shall stay. */
template <class T> __device__ __forceinline__ static void store_past(T *to, int64_t left, uint4 raw)
{
    if (element<T>::WHOLE || (left >= V<T> && (uintptr_t)to % 16 == 0))
        __stcs((uint4 *)to, raw);
    else
        store(to, left, raw);
}

/* ---- from the sums to probabilities ---- */

/* The target stands apart. */
struct target_sums {
    float x_y;      /* the target's logit */
    float max, sum; /* of the others: the largest, or the lowest number there is; of exp(x - max) */
};

struct row_odds {
    float max, log_sum, lse; /* lse = max + log_sum */
    float scale;             /* p_i = exp(x_i - max) scale */
    float p, doubt;          /* of the target: p_y, 1 - p_y */
    float minus_log_p;
};

__device__ __forceinline__ static row_odds odds_of(const target_sums &s)
{
    row_odds o;
    const bool top = s.x_y >= s.max || s.sum == 0;
    o.max = top ? s.x_y : s.max;
    const float target = expf(s.x_y - o.max), others = s.sum == 0 ? 0
                                                       : top      ? s.sum * expf(s.max - o.max)
                                                                  : s.sum;
    const float sum = target + others;
    o.log_sum = top ? log1pf(others) + (target - 1) : logf(sum);
    o.lse = o.max == -CUDART_INF_F && s.sum == 0 ? o.max : o.max + o.log_sum;
    o.scale = 1 / sum;
    o.p = target / sum;
    o.doubt = others / sum;
    o.minus_log_p = o.doubt < 0.5f ? -log1pf(-o.doubt) : o.max - s.x_y + o.log_sum;
    return o;
}

/* 1 where a saved lse is exact enough for a target of probability p, doubt = 1 - p: where that is
 * off by no more than a sum of n terms may be, as src/rows/exponentials.h has it. */
__device__ __forceinline__ static int lse_tells(float lse, float p, float doubt, int n)
{
    const float roundings = fminf(8 + 0.75f * sqrtf((float)n), 512);
    return fabsf(lse) < 32 && fabsf(lse) * p < roundings * doubt;
}

/* From a saved lse of n classes, where its rounding does not tell; 0 where it does. */
__device__ __forceinline__ static int odds_from(float lse, float x_y, int n, row_odds *o)
{
    o->max = o->lse = lse;
    o->log_sum = 0;
    o->scale = 1;
    o->minus_log_p = lse - x_y;
    o->p = expf(x_y - lse);
    o->doubt = -expm1f(x_y - lse);
    return lse_tells(lse, o->p, o->doubt, n);
}

/* ---- the host's side ---- */

static inline plane_span plane_of(const tg_tensor *t)
{
    const tg_planes from = tg_planes_of(t);
    plane_span p = {};
    p.data = from.data;
    p.stride = from.stride;
    p.outer = from.outer;
    p.inner = from.inner;
    p.rows = from.rows;
    return p;
}

/* With fewer rows a multiprocessor a block each leaves too much of the card idle. */
enum { ROWS_OF_PROCESSOR = 4 };

static inline bool few_rows(const cuda_call &call, int64_t rows)
{
    return !call.alike && rows < (int64_t)ROWS_OF_PROCESSOR * call.processors;
}

enum { LOSS_LANES = 256, GRADIENT_LANES = 512, CHUNKS_OF_A_THREAD = 16 };

#endif
