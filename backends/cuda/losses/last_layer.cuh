/* last_layer.cuh - what operators over the logits of a linear layer share that never write these:
 * products whose result is used before it leaves the multiprocessor (gemm_wgmma.cuh), of bf16. */
#ifndef CUDA_LAST_LAYER_CUH
#define CUDA_LAST_LAYER_CUH

#include "logits.cuh"
#include "products/gemm_wgmma.cuh"
#include "rows/indices.cuh"

enum { ROW_THREADS = 256 /* of a block that has a row's sums */ };

/* The target of a row that is there, -1 for none. */
__device__ __forceinline__ static int target_of(const int64_t *target, int row, int rows,
                                                int classes)
{
    const int64_t y = row < rows ? target[row] : -1;
    return y >= 0 && y < classes ? (int)y : -1;
}

/* d, of two rows, becomes -inf of columns that are not there, and of the targets; keep(h, x): x is
 * the logit of row h's. */
template <class KEEP>
__device__ __forceinline__ static void leave_out(float (&d)[128], const int (&target)[2],
                                                 int column, int classes, const KEEP &keep)
{
    const int own = column + 2 * (int)(threadIdx.x % 4), left = classes - own;
    const int y[2] = {target[0] - own, target[1] - own};
    if (column + TILE_N > classes)
#pragma unroll
        for (int i = 0; i < 128; i++)
            if (i / 4 * 8 + i % 2 >= left)
                d[i] = -CUDART_INF_F;
    if (__any_sync(0xffffffffu, (unsigned)y[0] < TILE_N || (unsigned)y[1] < TILE_N))
#pragma unroll
        for (int i = 0; i < 128; i++)
            if (i / 4 * 8 + i % 2 == y[i / 2 % 2]) {
                keep(i / 2 % 2, d[i]);
                d[i] = -CUDART_INF_F;
            }
}

/* ---- the host's side ---- */

struct last_layer {
    const tg_tensor *x, *weight, *target;
    int64_t ignore_index, chunk_bytes, rows, classes, hidden;
    double by; /* logits are the product times this */
};

template <class ARGS> static last_layer layer_of(const ARGS *args)
{
    last_layer l = {};
    l.x = args->x;
    l.weight = args->weight;
    l.target = args->target;
    l.ignore_index = args->ignore_index;
    l.chunk_bytes = args->chunk_bytes;
    l.rows = rows_of(l.x);
    l.classes = l.weight->shape[0];
    l.hidden = l.weight->shape[1];
    l.by = 1 / args->temperature;
    return l;
}

/* Whether its products can be made. */
static bool has_products(const last_layer &l)
{
    const int64_t most = INT32_MAX / 2;
    return l.rows > 0 && l.rows <= most && l.classes > 0 && l.classes <= most && l.hidden > 0 &&
           l.hidden <= most && l.hidden % V<bf16> == 0 && has_tiles(l.x) && has_tiles(l.weight);
}

/* Whether the kernels take it: without bias and softcap, with all classes there. */
template <class ARGS> static bool accepts_layer(const ARGS *args)
{
    return !args->bias && args->softcap == 0 && !args->vocab_size && has_products(layer_of(args));
}

/* The next part of a workspace, of so many bytes; without one they are counted alone. */
template <class T> static T *take(char *memory, int64_t *used, int64_t bytes)
{
    T *const part = memory ? (T *)(memory + *used) : NULL;
    *used += ceil_div(bytes, 1024) * 1024;
    return part;
}

#endif
