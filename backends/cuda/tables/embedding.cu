/* embedding.cu - y[i] = weight[indices[i]]. */
#include "rows/indices.cuh"

enum { EMBEDDING_THREADS = 256, LOOKUP_AHEAD = 4 };

/* Rows are copied as they are: T holds the bits of an element. A thread has the chunks of its row
 * at distances of blockDim.x. */
template <class T>
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    lookup_kernel(const row_span weight, const row_span y, const int64_t *indices, int64_t rows,
                  int64_t n, const index_range range)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += step) {
        const int64_t index = indices[r];
        if (!range.holds(r, index, true))
            continue;
        const T *const from = weight.row<T>(index);
        T *const to = y.row<T>(r);
        for (int64_t j = (int64_t)threadIdx.x * V<T>; j < n;
             j += LOOKUP_AHEAD * blockDim.x * V<T>) {
            uint4 raw[LOOKUP_AHEAD];
#pragma unroll
            for (int u = 0; u < LOOKUP_AHEAD; u++)
                if (j + u * blockDim.x * V<T> < n)
                    raw[u] = load(from + j + u * blockDim.x * V<T>, n - j - u * blockDim.x * V<T>);
#pragma unroll
            for (int u = 0; u < LOOKUP_AHEAD; u++)
                if (j + u * blockDim.x * V<T> < n)
                    store(to + j + u * blockDim.x * V<T>, n - j - u * blockDim.x * V<T>, raw[u]);
        }
    }
}

CUDA_OPERATOR(embedding_forward, TG_TAKES_FLOATS);

tg_status cuda_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *a)
{
    const int64_t rows = rows_of(a->y), n = width_of(a->y);
    cuda_call call;
    if (rows == 0 || n == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, "embedding_forward", a->y);
    if (status != TG_OK)
        return status;
    const int size = (int)tg_type_size(tg_type_of(a->y));
    const int across =
        power_of_two(min_of(ceil_div(n * size, 16 * LOOKUP_AHEAD), EMBEDDING_THREADS));
    const dim3 block(across, EMBEDDING_THREADS / across);
    const unsigned grid = (unsigned)min_of(INT32_MAX, ceil_div(rows, block.y));
    const index_range range = range_of(call, "indices", a->weight->shape[0]);
    const int64_t *indices = (const int64_t *)data_of(a->indices);
    const tg_tensor *const tensors[] = {a->y, a->weight};
    const auto narrow = are_whole(tensors, 2) ? lookup_kernel<whole<bf16>> : lookup_kernel<bf16>;
    const auto kernel = size == 2               ? narrow
                        : are_whole(tensors, 2) ? lookup_kernel<whole<float>>
                                                : lookup_kernel<float>;
    kernel<<<grid, block, 0, call.stream>>>(span_of(a->weight), span_of(a->y), indices, rows, n,
                                            range);
    return cuda_end(&call, TG_OK);
}
