/* sparsemax_strips.cu - sparsemax along another dimension than the last: a block has 32 rows side
 * by side, and a warp every DOWN-th element of each. */
#include "sparsemax.cuh"

enum {
    DOWN = 32,
    PART = 32, /* elements of a thread that are added up before they join the others */
    LIST = 4   /* elements near the largest that a thread may list */
};

struct strip_memory {
    float part[2][DOWN][33], all[2][32];
};

/* A row of the strip, of which the thread has every DOWN-th element. */
template <class T> struct strip_row {
    const char *first; /* the thread's first element */
    int64_t step;      /* to its next one */
    int count;         /* of its elements */
    float list[LIST];
    int listed; /* more than LIST: there is no list */

    __device__ __forceinline__ strip_row(const cut_span &of, int64_t outer, int64_t i, int64_t n)
        : first((const char *)of.at<T>(outer, threadIdx.y, i)), step(of.step * DOWN),
          count(n > threadIdx.y ? (int)((n - threadIdx.y - 1) / DOWN) + 1 : 0), listed(LIST + 1)
    {
    }

    __device__ __forceinline__ float operator[](int k) const
    {
        return get((const T *)(first + k * step));
    }

    __device__ __forceinline__ float largest() const
    {
        float own = -CUDART_INF_F;
#pragma unroll 8
        for (int k = 0; k < count; k++)
            own = larger_or_nan(own, (*this)[k]);
        return own;
    }

    /* Lists what is not below the limit. */
    __device__ __forceinline__ void make(float limit)
    {
        listed = 0;
#pragma unroll 8
        for (int k = 0; k < count; k++) {
            const float x = (*this)[k];
            if (x <= limit)
                continue;
#pragma unroll
            for (int q = 0; q < LIST; q++)
                list[q] = listed == q ? x : list[q];
            listed++;
        }
    }

    __device__ __forceinline__ sparsemax_excess excess(const sparsemax_threshold &guess) const
    {
        sparsemax_excess e = {0, 0};
#pragma unroll
        for (int q = 0; q < LIST; q++)
            if (q < listed && listed <= LIST)
                e.add(guess.distance(list[q]));
        for (int from = 0; from < count && listed > LIST; from += PART) {
            sparsemax_excess part = {0, 0};
            for (int k = from; k < min(from + PART, count); k++)
                part.add(guess.distance((*this)[k]));
            e.add(part);
        }
        return e;
    }
};

/* Two values of each thread of a column become what join(of one thread a lane, the values) makes of
 * them, in all threads of the column. */
template <class JOIN>
__device__ __forceinline__ static void over_column(strip_memory *m, float (&value)[2],
                                                   const JOIN &join)
{
#pragma unroll
    for (int i = 0; i < 2; i++)
        m->part[i][threadIdx.y][threadIdx.x] = value[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
        value[i] = m->part[i][threadIdx.x][threadIdx.y];
    join(value);
    if (threadIdx.x == 0)
#pragma unroll
        for (int i = 0; i < 2; i++)
            m->all[i][threadIdx.y] = value[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
        value[i] = m->all[i][threadIdx.x];
}

__device__ __forceinline__ static void add_lanes(float (&value)[2])
{
    over_lanes(value, plus(), 32, 0xffffffffu);
}

template <class T>
__device__ __forceinline__ static void forward_strip(const strip_args &a, strip_memory *memory,
                                                     int64_t outer, int64_t i, int64_t n)
{
    strip_row<T> row(a.x, outer, i, n);
    /* the largest element, and a bound that tau is not below */
    float bounds[2] = {row.largest(), 0};
    over_column(memory, bounds, [](float(&value)[2]) {
        float max[1] = {value[0]};
        value[1] = bound_of_lanes(value[0]);
        over_lanes(max, larger(), 32, 0xffffffffu);
        value[0] = max[0];
    });
    const float max = bounds[0], limit = fmaxf(sparsemax_below(max, -1), bounds[1]);
    row.make(limit);
    const sparsemax_threshold found = sparsemax_find(
        max, fmaxf(sparsemax_below(limit, -max), -1),
        [&](const sparsemax_threshold &guess) {
            const sparsemax_excess e = row.excess(guess);
            float both[2] = {e.sum, e.above};
            over_column(memory, both, add_lanes);
            return sparsemax_excess{both[0], both[1]};
        },
        [](bool more) { return __syncthreads_or(more) != 0; });
    char *to = (char *)a.out.at<T>(outer, threadIdx.y, i);
#pragma unroll 4
    for (int k = 0; k < row.count; k++, to += a.out.step * DOWN)
        put((T *)to, found(row[k]));
}

template <class T>
__device__ __forceinline__ static void backward_strip(const strip_args &a, strip_memory *memory,
                                                      int64_t outer, int64_t i, int64_t n)
{
    const sparsemax_gradient f;
    const strip_row<T> y(a.x, outer, i, n), dy(a.dy, outer, i, n);
    float sums[2] = {0, 0}, mean;
    for (int k = 0; k < y.count; k++)
        f.sum(dy[k], y[k], sums);
    over_column(memory, sums, add_lanes);
    f.finish(mean, sums);
    char *to = (char *)a.out.at<T>(outer, threadIdx.y, i);
    for (int k = 0; k < y.count; k++, to += a.out.step * DOWN)
        put((T *)to, f.gradient(mean, dy[k], y[k]));
}

template <class T, bool BACKWARD>
__global__ void __launch_bounds__(32 * DOWN) strip_kernel(const strip_args a)
{
    __shared__ strip_memory memory;
    const int64_t strips = (a.inner + 31) / 32;
    for (int64_t p = blockIdx.x; p < a.outer * strips; p += gridDim.x) {
        const int64_t outer = p / strips, i = p % strips * 32 + threadIdx.x;
        const int64_t n = i < a.inner ? a.n : 0;
        if (BACKWARD)
            backward_strip<T>(a, &memory, outer, i, n);
        else
            forward_strip<T>(a, &memory, outer, i, n);
    }
}

void launch_sparsemax_strips(const cuda_call &call, const tg_tensor *x, const strip_args &a)
{
    const int64_t strips = min_of(INT32_MAX, a.outer * ceil_div(a.inner, 32));
    by_type(x, [&](auto e) {
        using T = decltype(e);
        const auto kernel = a.dy.data ? strip_kernel<T, true> : strip_kernel<T, false>;
        kernel<<<(unsigned)strips, dim3(32, DOWN), 0, call.stream>>>(a);
    });
}
