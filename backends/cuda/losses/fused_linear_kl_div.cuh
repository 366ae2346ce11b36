/* fused_linear_kl_div.cuh - what the product of logits leaves for the divergence from given
 * probabilities, and what becomes of a row: kernels of bf16.
 *
 * Logits are never written. Their product leaves E = exp(z - offset) in bf16, and of each row and
 * tile the largest logit, the sum of E before it is rounded, the sum of the targets, and that of
 * their products with the logits. Targets come to registers while the product runs. The gradient of
 * the logits, (sum of targets) E / (sum of E) - target, is then written over E. Offsets are as in
 * fused_linear_cross_entropy.cuh. Logits are to base 2, over the temperature. */
#ifndef CUDA_FUSED_LINEAR_KL_DIV_CUH
#define CUDA_FUSED_LINEAR_KL_DIV_CUH

#include "batch_rows.cuh"
#include "last_layer.cuh"
#include "rows/logarithms.cuh"

enum {
    KL_THREADS = 256, /* that make the gradient of a row, KL_AHEAD chunks at a time */
    KL_AHEAD = 2,
    KL_SETTLERS = 128,
    KL_LOWEST = -28, /* of a row's largest logit, if its offset is 0 */
    KL_HIGHEST = 86
};

/* What a tile's columns say of a row; weighted: targets times logits less the offset. */
struct kl_part {
    float max, sum, targets, weighted;
};

/* A row on its way through the kernels. */
struct kl_row {
    double loss;    /* but for what depends on targets alone */
    float offset;   /* infinite where the row does not count */
    float share;    /* sum of targets over sum of E */
    float sum, top; /* of E; the largest of E before it is rounded */
    float limit;    /* one E alone is larger; infinite where none need be told apart */
};

/* ---- the result of the product of logits ---- */

struct kl_exponentials {
    typedef bf16 type;
    static constexpr bool ADDED = false, FETCHES = true;
    const kl_row *state; /* [rows] */
    kl_part *parts;      /* [rows, tiles] */
    const uint16_t *target;
    int64_t target_stride;
    float scale;
    int rows, classes, tiles, stored;

    __device__ __forceinline__ float2 begin(int row) const
    {
        return make_float2(row < rows ? state[row].offset : 0,
                           row + 8 < rows ? state[row + 8].offset : 0);
    }

    /* The targets of the thread's elements. */
    __device__ __forceinline__ void fetch(int row, int tile, uint32_t (&pairs)[64]) const
    {
        const int own = tile * TILE_N + 2 * (int)(threadIdx.x % 4), left = classes - own;
        const uint16_t *const from = target + row * target_stride + own;
        if (tile * TILE_N + TILE_N <= classes) {
#pragma unroll
            for (int i = 0; i < 64; i++)
                pairs[i] = row + i % 2 * 8 < rows
                               ? load_word(from + i % 2 * 8 * target_stride + i / 2 * 8)
                               : 0;
            return;
        }
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const uint16_t *const at = from + i % 2 * 8 * target_stride + i / 2 * 8;
            const int there = row + i % 2 * 8 < rows ? left - i / 2 * 8 : 0;
            pairs[i] = (there > 0 ? at[0] : 0) | (uint32_t)(there > 1 ? at[1] : 0) << 16;
        }
    }

    /* Now, while products run, not where it is used. */
    static __device__ __forceinline__ uint32_t load_word(const uint16_t *p)
    {
        uint32_t word;
        asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(word) : "l"(p));
        return word;
    }

    __device__ __forceinline__ void add(float target, float power, kl_part *s) const
    {
        s->targets += target;
        if (target != 0) /* also beside a logit of -inf */
            s->weighted = fmaf(target, power, s->weighted);
    }

    __device__ __forceinline__ bool finish(float (&d)[128], float2 offset, int row, int tile,
                                           uint32_t (&pairs)[64]) const
    {
        kl_part s[2] = {{-CUDART_INF_F, 0, 0, 0}, {-CUDART_INF_F, 0, 0, 0}};
        const int left = classes - tile * TILE_N - 2 * (int)(threadIdx.x % 4);
        if (tile * TILE_N + TILE_N > classes)
#pragma unroll
            for (int i = 0; i < 128; i++)
                if (i / 4 * 8 + i % 2 >= left)
                    d[i] = -CUDART_INF_F;
#pragma unroll
        for (int i = 0; i < 64; i++) {
            kl_part &of = s[i % 2];
            const float from = i % 2 ? offset.y : offset.x;
            const float a = fmaf(d[2 * i], scale, -from), b = fmaf(d[2 * i + 1], scale, -from);
            const float2 target = widen_pair<bf16>(pairs[i]);
            const float e = exp2_term(a), f = exp2_term(b);
            of.max = fmaxf(of.max, fmaxf(a, b));
            of.sum += e;
            of.sum += f;
            add(target.x, a, &of);
            add(target.y, b, &of);
            pairs[i] = narrow_pair<bf16>(e, f);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            kl_part &of = s[h];
#pragma unroll
            for (int o = 1; o < 4; o *= 2) {
                of.max = fmaxf(of.max, __shfl_xor_sync(0xffffffffu, of.max, o));
                of.sum += __shfl_xor_sync(0xffffffffu, of.sum, o);
                of.targets += __shfl_xor_sync(0xffffffffu, of.targets, o);
                of.weighted += __shfl_xor_sync(0xffffffffu, of.weighted, o);
            }
            if (threadIdx.x % 4 == 0 && row + 8 * h < rows)
                *(float4 *)(parts + (int64_t)(row + 8 * h) * tiles + tile) =
                    make_float4(of.max, of.sum, of.targets, of.weighted);
        }
        return stored;
    }
};

/* ---- the rows of a chunk ---- */

struct kl_rows : batch_args { /* of the whole batch; rows, labels, partial: of the chunk */
    kl_row *state;
    const kl_part *parts;
    int *again; /* [pairs of tiles]: those whose tiles are made again */
    bf16 *e;    /* NULL: no gradients */
    row_span target;
    int64_t pitch;
    float eps;
    int tiles;
};

/* A thread a row. */
__global__ void __launch_bounds__(KL_SETTLERS) kl_begin_kernel(const kl_rows a)
{
    const int r = (int)(blockIdx.x * KL_SETTLERS + threadIdx.x);
    if (r >= a.rows)
        return;
    a.state[r].offset = batch_counts(a, r) ? 0 : CUDART_INF_F;
    if (r % PAIR == 0)
        a.again[r / PAIR] = 0;
}

/* A block a row. again: only rows whose tiles have been made again; else those that need it ask for
 * that. */
__global__ void __launch_bounds__(KL_SETTLERS) kl_settle_kernel(const kl_rows a, int again)
{
    __shared__ team_memory memory;
    const int r = (int)blockIdx.x;
    int *const pair = a.again + r / PAIR;
    if ((again && !*pair) || !batch_counts(a, r))
        return;
    team t(&memory, KL_SETTLERS);
    float max[1] = {-CUDART_INF_F};
    double sum = 0, targets = 0, weighted = 0;
    for (int i = (int)threadIdx.x; i < a.tiles; i += KL_SETTLERS) {
        const float4 part = ((const float4 *)a.parts)[(int64_t)r * a.tiles + i];
        max[0] = fmaxf(max[0], part.x);
        sum += part.y;
        targets += part.z;
        weighted += part.w;
    }
    t.reduce(max, larger());
    sum = t.sum(sum);
    targets = t.sum(targets);
    weighted = t.sum(weighted);
    if (threadIdx.x != 0)
        return;
    kl_row s = a.state[r];
    const float largest = max[0] + s.offset;
    if (!again && !(largest >= KL_LOWEST && largest <= KL_HIGHEST)) {
        a.state[r].offset = copysignf(fminf(fabsf(largest), CUDART_MAX_NORMAL_F), largest);
        *pair = 1;
        return;
    }
    s.sum = (float)sum;
    s.top = exp2_term(max[0]);
    s.share = (float)(targets / sum);
    s.limit = s.top > 0.6f * s.sum ? 0.75f * s.top : CUDART_INF_F;
    s.loss = targets * log2(sum) - weighted;
    a.state[r] = s;
}

/* What a thread has seen of a row: the targets' own part of the loss, to base 2, and but for the
 * class whose E is beyond the limit, which stands apart, the sums of E and of the targets. */
struct kl_seen {
    float loss, others, rest, of_best;
    int best; /* -1: not here */
};

template <class T, bool LOSS, bool GRADIENT>
__device__ __forceinline__ static void walk_chunk(const kl_rows &a, const kl_row &s, float factor,
                                                  int j, uint4 targets, bf16 *e, uint4 raw,
                                                  kl_seen *seen)
{
    const float least = fmaxf(a.eps, 0x1p-126f);
    float q[V<T>], x[V<T>];
    widen<T>(targets, q);
    if (LOSS)
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            seen->loss += q[i] != 0 ? q[i] * log2_of(no_less(q[i], least)) : 0;
    if (!GRADIENT)
        return;
    widen<bf16>(raw, x);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        const bool best = x[i] > s.limit;
        const float g = fmaf(x[i], s.share, -q[i]);
        seen->best = best ? j + i : seen->best;
        seen->of_best = best ? q[i] : seen->of_best;
        seen->others += best || (!element<T>::WHOLE && j + i >= a.n) ? 0 : x[i];
        seen->rest += best ? 0 : q[i];
        x[i] = fabsf(g) < 0x1p-110f ? 0 : factor * g; /* the README of softmax_kl_div */
    }
    *(uint4 *)(e + j) = narrow<bf16>(x);
}

template <class T, bool LOSS, bool GRADIENT>
__device__ __forceinline__ static void walk_row(const kl_rows &a, int64_t r, const kl_row &s,
                                                float factor, kl_seen *seen)
{
    const T *const target = a.target.row<T>(r);
    bf16 *const e = a.e + r * a.pitch;
    const int step = KL_THREADS * V<T>;
    for (int first = (int)threadIdx.x * V<T>; first < a.n; first += KL_AHEAD * step) {
        uint4 q[KL_AHEAD], x[KL_AHEAD];
#pragma unroll
        for (int u = 0; u < KL_AHEAD; u++) {
            const int j = first + u * step;
            if (j < a.n) {
                q[u] = load(target + j, a.n - j);
                x[u] = GRADIENT ? *(const uint4 *)(e + j) : q[u];
            }
        }
#pragma unroll
        for (int u = 0; u < KL_AHEAD; u++)
            if (first + u * step < a.n)
                walk_chunk<T, LOSS, GRADIENT>(a, s, factor, first + u * step, q[u], e, x[u], seen);
    }
}

/* A block a row: E becomes the gradient. */
template <class T, bool LOSS, bool GRADIENT>
__global__ void __launch_bounds__(KL_THREADS, 4) kl_gradient_kernel(const kl_rows a)
{
    __shared__ team_memory memory;
    const int64_t r = blockIdx.x;
    team t(&memory, KL_THREADS);
    if (!batch_counts(a, r)) {
        for (int j = (int)threadIdx.x * V<bf16>; GRADIENT && j < a.n; j += KL_THREADS * V<bf16>)
            *(uint4 *)(a.e + r * a.pitch + j) = make_uint4(0, 0, 0, 0);
        if (LOSS && threadIdx.x == 0)
            a.partial[r] = 0;
        return;
    }
    const kl_row s = a.state[r];
    const float factor = batch_factor(a);
    kl_seen seen = {0, 0, 0, 0, -1};
    walk_row<T, LOSS, GRADIENT>(a, r, s, factor, &seen);
    float sums[2] = {seen.others, seen.rest};
    t.sum(sums);
    if (seen.best >= 0) {
        /* no difference of numbers near each other */
        const float others = (s.sum - s.top > 0x1p-10f * s.sum ? s.sum - s.top : sums[0]) / s.top;
        put(a.e + r * a.pitch + seen.best,
            factor * (sums[1] - seen.of_best * others) / (1 + others));
    }
    if (!LOSS)
        return;
    const double loss = t.sum((double)seen.loss);
    if (threadIdx.x == 0)
        a.partial[r] = LN_2 * (loss + s.loss);
}

#endif
