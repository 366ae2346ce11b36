/* sparsemax_strips.cu - sparsemax along another dimension than the last: a block has 32 rows side by side, and a warp every DOWN-th element
 * of each. */
#include "sparsemax.cuh"

enum {
    DOWN = 32,
    PART = 32 /* elements of a thread that are added up before they join the others */
};

struct strip_memory {
    float part[DOWN][33], all[32];
};

/* The values of the threads of a column, in all of them. */
template <class JOIN>
__device__ __forceinline__ static float over_column(strip_memory *m, float value, const JOIN &join)
{
    m->part[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    float one[1] = {m->part[threadIdx.x][threadIdx.y]};
    over_lanes(one, join, 32, 0xffffffffu);
    if (threadIdx.x == 0)
        m->all[threadIdx.y] = one[0];
    __syncthreads();
    value = m->all[threadIdx.x];
    return value;
}

template <class T, bool BACKWARD>
__global__ void __launch_bounds__(32 * DOWN) strip_kernel(const strip_args a)
{
    __shared__ strip_memory memory;
    const int64_t strips = (a.inner + 31) / 32;
    for (int64_t p = blockIdx.x; p < a.outer * strips; p += gridDim.x) {
        const int64_t outer = p / strips, i = p % strips * 32 + threadIdx.x;
        const int64_t n = i < a.inner ? a.n : 0;
        const auto element = [&](const cut_span &of, int64_t k) { return of.at<T>(outer, k, i); };
        if (BACKWARD) {
            sparsemax_gradient f;
            float sums[2] = {0, 0}, mean;
            for (int64_t k = threadIdx.y; k < n; k += DOWN)
                f.sum(get(element(a.dy, k)), get(element(a.x, k)), sums);
            sums[0] = over_column(&memory, sums[0], plus());
            sums[1] = over_column(&memory, sums[1], plus());
            f.finish(mean, sums);
            for (int64_t k = threadIdx.y; k < n; k += DOWN)
                put(element(a.out, k),
                    f.gradient(mean, get(element(a.dy, k)), get(element(a.x, k))));
        } else {
            float max = -CUDART_INF_F;
            for (int64_t k = threadIdx.y; k < n; k += DOWN)
                max = fmaxf(max, get(element(a.x, k)));
            max = over_column(&memory, max, larger());
            const sparsemax_threshold found = sparsemax_find(
                max, -1,
                [&](const sparsemax_threshold &guess) {
                    sparsemax_excess e = {0, 0};
                    for (int64_t first = threadIdx.y; first < n; first += PART * DOWN) {
                        sparsemax_excess part = {0, 0};
                        for (int k = 0; k < PART && first + k * DOWN < n; k++)
                            part.add(guess.distance(get(element(a.x, first + k * DOWN))));
                        e.add(part);
                    }
                    e.sum = over_column(&memory, e.sum, plus());
                    e.above = over_column(&memory, e.above, plus());
                    return e;
                },
                [](bool more) { return __syncthreads_or(more) != 0; });
            for (int64_t k = threadIdx.y; k < n; k += DOWN)
                put(element(a.out, k), found(get(element(a.x, k))));
        }
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
