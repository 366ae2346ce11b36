/* fused_ce_tvd_kept.cuh - pairs of wide rows whose exponentials stay in registers from the pass
 * that adds them up to the one that compares them: two for each pair of logits
 * (fused_ce_tvd_apart.cuh has four). They count from the largest logit of their thread.
 *
 * What the second pass finds of a pair goes to the other threads with what the first one finds of
 * the next pair. Pairs that are not plainly apart are left to a kernel behind this one. */
#ifndef CUDA_FUSED_CE_TVD_KEPT_CUH
#define CUDA_FUSED_CE_TVD_KEPT_CUH

#include "fused_ce_tvd.cuh"
#include "rows/kept.cuh"

/* Of both rows of a pair the exponentials' base and their sum from there; of the pair before the
 * sums of |p - q| and of p sign(p - q). */
struct kept_pair_sums {
    float base[2], sum[2], before[2];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            base[m] = -CUDART_MAX_NORMAL_F;
            sum[m] = before[m] = 0;
        }
    }
    __device__ __forceinline__ void add(const kept_pair_sums &o)
    {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            const float top = fmaxf(base[m], o.base[m]);
            sum[m] = sum[m] * exp2_term(base[m] - top) + o.sum[m] * exp2_term(o.base[m] - top);
            base[m] = top;
            before[m] += o.before[m];
        }
    }
    __device__ __forceinline__ void over_warp()
    {
        float all[4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            const float top = largest_of_warp(base[m]);
            all[m] = sum[m] * exp2_term(base[m] - top);
            all[2 + m] = before[m];
            base[m] = top;
        }
        sums_of_warp(all);
#pragma unroll
        for (int m = 0; m < 2; m++) {
            sum[m] = all[m];
            before[m] = all[2 + m];
        }
    }
};

/* The larger elements of two chunks' words; NaN is not. */
template <class T> __device__ __forceinline__ uint32_t larger_of_words(uint32_t a, uint32_t b)
{
    typedef typename element<T>::type type;
    if constexpr (sizeof(type) == 4) {
        return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
    } else if constexpr (std::is_same<type, bf16>::value) {
        const __nv_bfloat162 c = __hmax2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
        return *(const uint32_t *)&c;
    } else {
        const __half2 c = __hmax2(*(const __half2 *)&a, *(const __half2 *)&b);
        return *(const uint32_t *)&c;
    }
}

#ifndef CE_POLY
#define CE_POLY 0
#endif

/* 2^x of x <= 0, by additions and multiplications alone; what lies below 2^-126 is about that. */
__device__ __forceinline__ float exp2_by_series(float x)
{
    x = no_less(x, -126);
    const float shifted = x + 12582912.f, f = x - (shifted - 12582912.f);
    float p = fmaf(1.5353362e-4f, f, 1.3398874e-3f);
    p = fmaf(p, f, 9.6184373e-3f);
    p = fmaf(p, f, 5.5503324e-2f);
    p = fmaf(p, f, 2.4022648e-1f);
    p = fmaf(p, f, 6.931472e-1f);
    p = fmaf(p, f, 1);
    return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}

template <class T> struct kept_pair {
    static constexpr int CHUNKS = KEPT_EACH / V<T>, STAGES = sizeof(T) == 4 ? 1 : 3;
    static constexpr size_t BYTES = (size_t)STAGES * 2 * CHUNKS * KEPT_THREADS * sizeof(uint4);
    float power[2][KEPT_EACH], base[2];

    static __device__ __forceinline__ uint4 *place(uint4 *memory, int stage, int m, int k)
    {
        return memory + ((stage * 2 + m) * CHUNKS + k) * KEPT_THREADS + threadIdx.x;
    }
    static __device__ __forceinline__ void ask(uint4 *memory, int stage, int lane, int lanes, int n,
                                               const T *student, const T *teacher)
    {
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            const int j = (k * lanes + lane) * V<T>;
            if (j < n) {
                copy_ahead(place(memory, stage, 0, k), student + j);
                copy_ahead(place(memory, stage, 1, k), teacher + j);
            }
        }
    }
    /* Chunks that are not there. */
    static __device__ __forceinline__ void fill(uint4 *memory, int lane, int lanes, int n)
    {
        constexpr uint32_t word =
            MINUS_INFINITY<T> | (sizeof(T) == 4 ? 0 : MINUS_INFINITY<T> << 16);
        for (int k = 0; k < CHUNKS; k++)
            for (int s = 0; s < 2 * STAGES && (k * lanes + lane) * V<T> >= n; s++)
                *place(memory, s / 2, s % 2, k) = make_uint4(word, word, word, word);
    }
    /* Row m of the stage; returns the sum of its exponentials from the base. */
    __device__ __forceinline__ float take(uint4 *memory, int stage, int m)
    {
        uint4 raw[CHUNKS];
        uint32_t top[4];
        float highest[W<T>], sum[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            raw[k] = *place(memory, stage, m, k);
#pragma unroll
        for (int w = 0; w < 4; w++)
            top[w] = word_at(raw[0], w);
#pragma unroll
        for (int k = 1; k < CHUNKS; k++)
#pragma unroll
            for (int w = 0; w < 4; w++)
                top[w] = larger_of_words<T>(top[w], word_at(raw[k], w));
        top[0] = larger_of_words<T>(larger_of_words<T>(top[0], top[1]),
                                    larger_of_words<T>(top[2], top[3]));
        widen_word<T>(top[0], highest);
        base[m] = __fmul_rn(fmaxf(highest[0], highest[W<T> - 1]), LOG2_E);
        base[m] = fmaxf(base[m], -CUDART_MAX_NORMAL_F);
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            float x[V<T>];
            widen<T>(raw[k], x);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                const float to = fmaf(x[i], LOG2_E, -base[m]);
                power[m][k * V<T> + i] =
                    CE_POLY && i % (CE_POLY + !CE_POLY) == 0 ? exp2_by_series(to) : exp2_term(to);
                sum[i % 2] += power[m][k * V<T> + i];
            }
        }
        return sum[0] + sum[1];
    }

  private:
    static __device__ __forceinline__ uint32_t word_at(const uint4 &raw, int w)
    {
        return w == 0 ? raw.x : w == 1 ? raw.y : w == 2 ? raw.z : raw.w;
    }
};

struct kept_cetvd_args {
    cetvd_args of;
    int *again; /* of each row: 1 if its distributions are not plainly apart */
};

/* A pair whose distance is not known yet. */
struct waiting_pair {
    int64_t r; /* -1: none */
    float x_y, base[2], sum[2];
};

/* All but the distance, from the sums of the whole row. */
__device__ __forceinline__ static rows_apart apart_of(const waiting_pair &s)
{
    rows_apart r;
    float log_sum[2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        log_sum[m] = log2f(s.sum[m]);
        r.lse[m] = (float)LN_2 * (s.base[m] + log_sum[m]);
    }
    const float offset = s.base[0] - s.base[1] + log_sum[0] - log_sum[1];
    r.log_p = fmaf(s.x_y, LOG2_E, -s.base[0]) - log_sum[0];
    r.are = fabsf(s.base[0]) <= HIGHEST_BASE && fabsf(s.base[1]) <= HIGHEST_BASE && s.sum[0] > 0 &&
            s.sum[1] > 0 && fabsf(offset) >= LEAST_OF_OFFSETS && r.log_p <= -1;
    r.distance = r.sigma = 0;
    return r;
}

/* This thread's part of |p - q| and of p sign(p - q). */
template <class T>
__device__ __forceinline__ static void compare_kept(const kept_pair<T> &pair,
                                                    const kept_pair_sums &s, float (&sums)[2])
{
    const float by = exp2_term(pair.base[0] - s.base[0]) * reciprocal(s.sum[0]),
                less = -exp2_term(pair.base[1] - s.base[1]) * reciprocal(s.sum[1]);
    float distance[2] = {0, 0}, sigma[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < KEPT_EACH; i++) {
        const float p = by * pair.power[0][i], d = fmaf(less, pair.power[1][i], p);
        distance[i % 2] += fabsf(d);
        sigma[i % 2] += __int_as_float(__float_as_int(p) ^ (__float_as_int(d) & INT32_MIN));
    }
    sums[0] = distance[0] + distance[1];
    sums[1] = sigma[0] + sigma[1];
}

/* Ends the pair that waits, of which these sums tell. */
__device__ __forceinline__ static void end_pair(const kept_cetvd_args &a, bool tell,
                                                const kept_pair_sums &sums, const waiting_pair &w)
{
    if (w.r < 0 || !tell)
        return;
    const rows_apart s = apart_of(w);
    const float distance = sums.before[0] / 2;
    a.again[w.r] = !s.are || !(distance >= LEAST_DISTANCE);
    write_results(a.of, w.r, -(float)LN_2 * s.log_p, distance, sums.before[1], s.lse[0], s.lse[1]);
}

template <class T>
__global__ void __launch_bounds__(KEPT_THREADS, 1)
    kept_fused_ce_tvd_kernel(const __grid_constant__ kept_cetvd_args given)
{
    const cetvd_args &a = given.of;
    typedef kept_pair<T> held;
    constexpr int STAGES = held::STAGES;
    extern __shared__ uint4 memory[];
    __shared__ kept_memory<kept_pair_sums> found;
    kept_team<kept_pair_sums> t(&found);
    held::fill(memory, t.lane, t.lanes, a.n);
    int64_t target[STAGES], coming; /* loaded long before it is looked at, as is a target's logit */
    word<T> x_y[STAGES];
    const auto target_of = [&](int64_t r) { return r < a.rows ? a.target[r] : a.ignore_index; };
    const auto ask = [&](int64_t r, int64_t y, int stage, word<T> &logit) {
        if (y != a.ignore_index && (uint64_t)y < (uint64_t)a.n) {
            if (t.lane == 0)
                logit = *(const word<T> *)(a.student.row<T>(r) + y);
            held::ask(memory, stage, t.lane, t.lanes, a.n, a.student.row<T>(r),
                      a.teacher.row<T>(r));
        }
        end_batch();
    };
#pragma unroll
    for (int s = 0; s < STAGES; s++) {
        target[s] = target_of(t.row + s * t.step);
        ask(t.row + s * t.step, target[s], s, x_y[s]);
    }
    coming = target_of(t.row + STAGES * t.step);
    waiting_pair waiting = {-1, 0, {}, {}};
    float before[2] = {0, 0};
    int stage = 0;
    for (int64_t r = t.row; r < a.rows; r += t.step) {
        const int64_t y = target[0];
        const word<T> logit = x_y[0];
        const bool counts = y != a.ignore_index && a.range.holds(r, y, t.lane == 0);
        held pair;
        kept_pair_sums own = {};
        wait_for_batches<STAGES - 1>();
        if (counts) {
#pragma unroll
            for (int m = 0; m < 2; m++)
                own.sum[m] = pair.take(memory, stage, m);
        }
#pragma unroll
        for (int s = 0; s + 1 < STAGES; s++) {
            target[s] = target[s + 1];
            x_y[s] = x_y[s + 1];
        }
        target[STAGES - 1] = coming;
        ask(r + STAGES * t.step, coming, stage, x_y[STAGES - 1]);
        coming = target_of(r + (STAGES + 1) * t.step);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        if (!counts) {
            if (t.lane == 0)
                given.again[r] = 0;
            if (y == a.ignore_index && t.lane == 0)
                write_results(a, r, 0, 0, 0, 0, 0);
            continue;
        }
#pragma unroll
        for (int m = 0; m < 2; m++) {
            own.base[m] = pair.base[m];
            own.before[m] = before[m];
        }
        const kept_pair_sums sums = t.all(own);
        end_pair(given, t.lane == 0, sums, waiting);
        waiting = {
            r, get((const T *)&logit), {sums.base[0], sums.base[1]}, {sums.sum[0], sums.sum[1]}};
        compare_kept(pair, sums, before);
    }
    if (waiting.r < 0)
        return;
    kept_pair_sums last;
    last.clear();
    last.before[0] = before[0];
    last.before[1] = before[1];
    end_pair(given, t.lane == 0, t.all(last), waiting);
}

#endif
