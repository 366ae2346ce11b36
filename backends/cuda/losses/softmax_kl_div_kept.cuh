/* softmax_kl_div_kept.cuh - wide rows of softmax_kl_div that are read once: a thread has its logits
 * and targets in registers from the pass for the sums to that for loss and gradient, while those of
 * the next rows come. */
#ifndef CUDA_SOFTMAX_KL_DIV_KEPT_CUH
#define CUDA_SOFTMAX_KL_DIV_KEPT_CUH

#include "rows/kept.cuh"
#include "softmax_kl_div_rows.cuh"

/* What has been found of a row. The largest logit and the first class that has it stand apart from
 * the sums: of exponentials from there and of targets; of_best: that class' target. `loss` is of
 * the row before. */
struct kept_skl_sums {
    float max;
    int at;
    float others, rest, of_best, loss;

    __device__ __forceinline__ void clear()
    {
        max = -CUDART_INF_F;
        at = INT32_MAX;
        others = rest = of_best = loss = 0;
    }
    /* From another largest, which is no less, and its class. */
    __device__ __forceinline__ void move(float top, int place, float by)
    {
        const bool best = at == place;
        others = (others + (best || at == INT32_MAX ? 0 : 1)) *
                 (max == top ? 1 : exp2_term((max - top) * by));
        rest += best ? 0 : of_best;
        of_best = best ? of_best : 0;
        max = top;
        at = place;
    }
    __device__ __forceinline__ void add(kept_skl_sums o, float by)
    {
        const bool theirs = o.max > max || (o.max == max && o.at < at);
        const float top = theirs ? o.max : max;
        const int place = theirs ? o.at : at;
        move(top, place, by);
        o.move(top, place, by);
        others += o.others;
        rest += o.rest;
        of_best += o.of_best;
        loss += o.loss;
    }
    __device__ __forceinline__ void over_warp(float by)
    {
        const float top = largest_of_warp(max);
        const int place = smallest_of_warp(max == top ? at : INT32_MAX);
        move(top, place, by);
        float sums[4] = {others, rest, of_best, loss};
        sums_of_warp(sums);
        others = sums[0];
        rest = sums[1];
        of_best = sums[2];
        loss = sums[3];
    }
};

/* The part of a row that a thread has; Y: the type of targets. */
template <class T, class Y> struct kept_logits {
    typedef group_of<Y, V<T>> group; /* of the targets beside a chunk of logits */
    static constexpr int CHUNKS = KEPT_EACH / V<T>, OF_CHUNK = V<T> * sizeof(Y) / sizeof(group);
    static constexpr size_t LOGITS = (size_t)CHUNKS * KEPT_THREADS * sizeof(uint4),
                            TARGETS = (size_t)KEPT_EACH * KEPT_THREADS * sizeof(Y);
    static constexpr int STAGES =
        KEPT_ROOM / (LOGITS + TARGETS) < 3 ? KEPT_ROOM / (LOGITS + TARGETS) : 3;
    static constexpr size_t BYTES = STAGES * (LOGITS + TARGETS);
    float x[KEPT_EACH];
    group q[CHUNKS * OF_CHUNK];

    static __device__ __forceinline__ uint4 *logits_at(char *memory, int stage, int k)
    {
        return (uint4 *)(memory + stage * (LOGITS + TARGETS)) + k * KEPT_THREADS + threadIdx.x;
    }
    static __device__ __forceinline__ group *targets_at(char *memory, int stage, int k)
    {
        return (group *)(memory + stage * (LOGITS + TARGETS) + LOGITS) + k * KEPT_THREADS +
               threadIdx.x;
    }
    static __device__ __forceinline__ void ask(char *memory, int stage, int lane, int lanes, int n,
                                               const T *logits, const Y *target)
    {
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            const int j = (k * lanes + lane) * V<T>;
            if (j >= n)
                continue;
            copy_ahead(logits_at(memory, stage, k), logits + j);
#pragma unroll
            for (int u = 0; u < OF_CHUNK; u++)
                copy_group_ahead(targets_at(memory, stage, k * OF_CHUNK + u),
                                 target + j + u * (int)(sizeof(group) / sizeof(Y)));
        }
    }
    static __device__ __forceinline__ void copy_group_ahead(group *to, const void *from)
    {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)),
                     "l"(from), "n"((int)sizeof(group))
                     : "memory");
    }
    __device__ __forceinline__ void take(char *memory, int stage, int lane, int lanes, int n)
    {
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            const bool there = (k * lanes + lane) * V<T> < n;
            float chunk[V<T>];
            widen<T>(*logits_at(memory, stage, k), chunk);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[k * V<T> + i] = there ? chunk[i] : -CUDART_INF_F;
#pragma unroll
            for (int u = 0; u < OF_CHUNK; u++)
                q[k * OF_CHUNK + u] =
                    there ? *targets_at(memory, stage, k * OF_CHUNK + u) : group();
        }
    }
    __device__ __forceinline__ void targets(int k, float (&to)[V<T>]) const
    {
#pragma unroll
        for (int u = 0; u < OF_CHUNK; u++)
            widen_group<Y, V<T>>(q[k * OF_CHUNK + u], u * (int)(sizeof(group) / sizeof(Y)), to);
    }
    /* What this thread's classes add up to, from its own largest. */
    __device__ __forceinline__ kept_skl_sums sums(int lane, int lanes, float by) const
    {
        kept_skl_sums s;
        float others[2] = {0, 0};
        int best = -1;
        s.clear();
        s.max = x[0];
#pragma unroll
        for (int i = 1; i < KEPT_EACH; i++)
            s.max = fmaxf(s.max, x[i]);
#pragma unroll
        for (int i = KEPT_EACH - 1; i >= 0; i--)
            best = x[i] == s.max ? i : best;
        s.max = best < 0 || s.max == -CUDART_INF_F ? -CUDART_INF_F : s.max;
        best = s.max == -CUDART_INF_F ? -1 : best;
        const float from = best < 0 ? 0 : s.max;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            float q[V<T>];
            targets(k, q);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                const bool is = k * V<T> + i == best;
                others[i % 2] += is ? 0 : exp2_term((x[k * V<T> + i] - from) * by);
                s.rest += is ? 0 : q[i];
                s.of_best += is ? q[i] : 0;
            }
        }
        if (best >= 0)
            s.at = (best / V<T> * lanes + lane) * V<T> + best % V<T>;
        s.others = others[0] + others[1];
        return s;
    }
};

/* Loss of this thread's classes of a row, and their gradient, from the sums of the row. */
template <class T, class Y>
__device__ __forceinline__ static float finish_kept(const skl_args &a, const kept_logits<T, Y> &row,
                                                    const kept_skl_sums &s, int lane, int lanes,
                                                    int64_t r, float factor)
{
    const skl_finish f(a, s.others, s.rest, s.of_best, s.max, factor);
    float loss = 0;
#pragma unroll
    for (int k = 0; k < kept_logits<T, Y>::CHUNKS; k++) {
        const int j = (k * lanes + lane) * V<T>;
        float q[V<T>], x[V<T>], g[V<T>];
        if (j >= a.n)
            continue;
        row.targets(k, q);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] = row.x[k * V<T> + i];
        if (a.partial)
            loss += loss_of_chunk<T>(a, x, q, f.max, f.log_sum);
        if (!a.dlogits.data)
            continue;
        f.gradient(x, q, (unsigned)(s.at - j) < (unsigned)V<T> ? s.at - j : -1, g);
        store_dlogits<T>(a, r, j, g);
    }
    return loss;
}

template <class T, class Y>
__global__ void __launch_bounds__(KEPT_THREADS, 1)
    kept_softmax_kl_div_kernel(const __grid_constant__ skl_args a)
{
    typedef kept_logits<T, Y> kept;
    extern __shared__ uint4 held[];
    __shared__ kept_memory<kept_skl_sums> found;
    char *const memory = (char *)held;
    kept_team<kept_skl_sums> t(&found);
    const float by = scale_of(a), factor = batch_factor(a);
    const int64_t any = a.ignore_index == 0; /* another label */
    int64_t label[kept::STAGES], coming;     /* loaded long before it is looked at */
    const auto label_of = [&](int64_t r) {
        return r >= a.rows ? a.ignore_index : a.labels ? a.labels[r] : any;
    };
    const auto ask = [&](int64_t r, int64_t of_row, int stage) {
        if (of_row != a.ignore_index)
            kept::ask(memory, stage, t.lane, t.lanes, a.n, a.logits.row<T>(r), a.target.row<Y>(r));
        end_batch();
    };
#pragma unroll
    for (int s = 0; s < kept::STAGES; s++) {
        label[s] = label_of(t.row + s * t.step);
        ask(t.row + s * t.step, label[s], s);
    }
    coming = label_of(t.row + kept::STAGES * t.step);
    int64_t before = -1;
    float loss = 0;
    int stage = 0;
    for (int64_t r = t.row; r < a.rows; r += t.step) {
        const bool counts = label[0] != a.ignore_index;
        kept row;
        wait_for_batches<kept::STAGES - 1>();
        if (counts)
            row.take(memory, stage, t.lane, t.lanes, a.n);
#pragma unroll
        for (int s = 0; s + 1 < kept::STAGES; s++)
            label[s] = label[s + 1];
        label[kept::STAGES - 1] = coming;
        ask(r + kept::STAGES * t.step, coming, stage);
        coming = label_of(r + (kept::STAGES + 1) * t.step);
        stage = stage + 1 == kept::STAGES ? 0 : stage + 1;
        if (!counts) {
            write_zeros<T>(a, t, r);
            if (a.partial && t.lane == 0)
                a.partial[r] = 0;
            continue;
        }
        kept_skl_sums own = row.sums(t.lane, t.lanes, by);
        own.loss = loss;
        kept_skl_sums s = t.all(own, by);
        if (a.partial && before >= 0 && t.lane == 0)
            a.partial[before] = s.loss;
        s.others += s.max - s.max; /* NaN without a finite largest */
        loss = finish_kept<T, Y>(a, row, s, t.lane, t.lanes, r, factor);
        before = r;
    }
    if (!a.partial || before < 0)
        return;
    kept_skl_sums last;
    last.clear();
    last.loss = loss;
    last = t.all(last, by);
    if (t.lane == 0)
        a.partial[before] = last.loss;
}

#endif
