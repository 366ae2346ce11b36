/* flash_attention_call.cuh - a call of flash_attention, from its tensors; boundaries of packed
 * rows. */
#ifndef CUDA_FLASH_ATTENTION_CALL_CUH
#define CUDA_FLASH_ATTENTION_CALL_CUH

#include "flash_attention.cuh"
#include "rows/indices.cuh"

static inline flash_view view_of(const tg_tensor *t)
{
    return flash_view_of(t, 1, 2);
}

static inline flash_bias bias_of(const tg_tensor *t)
{
    flash_bias b = {};
    if (t)
        b = {vector_of(t), tg_stride(t, 0), tg_stride(t, 1), tg_stride(t, 2)};
    return b;
}

/* What the kernels are able to count. */
template <class ARGS> static bool takes(const ARGS *a)
{
    const tg_tensor *q = a->q, *k = a->k;
    const int64_t sequences = a->cu_seqlens_q ? a->cu_seqlens_q->shape[0] + 1 : q->shape[0];
    const int64_t most = (int64_t)1 << 30, heads = q->shape[2] + k->shape[2];
    /* blocks are of 32 rows at least */
    const int64_t tiles = (rows_of(q) + rows_of(k)) / 32;
    return q->shape[3] <= FLASH_MOST_D && a->v->shape[3] <= FLASH_MOST_D && q->shape[1] < most &&
           k->shape[1] < most && tiles < INT32_MAX / 2 &&
           sequences < INT32_MAX / 2 / (heads + 1) - tiles / (heads + 1);
}

/* All but the tensors' places. */
template <class ARGS> static flash_problem problem_of(const ARGS *a)
{
    const tg_tensor *q = a->q, *k = a->k;
    const int64_t all = q->shape[1] + k->shape[1], right = a->causal ? 0 : a->window_right;
    flash_problem p = {};
    p.batches = (int)q->shape[0];
    p.queries = (int)q->shape[1];
    p.heads = (int)q->shape[2];
    p.d = (int)q->shape[3];
    p.e = (int)a->v->shape[3];
    p.keys = (int)k->shape[1];
    p.key_heads = (int)k->shape[2];
    p.group = p.key_heads ? p.heads / p.key_heads : 0;
    p.sequences = a->cu_seqlens_q ? (int)a->cu_seqlens_q->shape[0] + 1 : p.batches;
    p.left = a->window_left < 0 ? all : min_of(a->window_left, all);
    p.right = right < 0 ? all : min_of(right, all);
    p.end = a->causal ? p.keys - p.queries + 1 : p.keys;
    p.scale = (float)flash_scale(a->scale, p.d);
    p.factor = (float)(flash_scale(a->scale, p.d) / log(2.0));
    p.softcap = (float)a->softcap;
    p.bias = bias_of(a->bias);
    p.sinks = vector_of(a->sinks);
    p.dropout = TG_DROPOUT(a);
    return p;
}

/* ---- packed rows ---- */

struct flash_boundaries {
    const int64_t *at; /* [count] */
    int64_t count, rows;
    index_range range;

    /* Boundary i, within the tensor whatever it is; that it is none is told. */
    __device__ __forceinline__ int get(int64_t i) const
    {
        const int64_t value = at[i];
        const int64_t next = i + 1 < count ? max((int64_t)0, min(rows, at[i + 1])) : rows;
        index_range expected = range;
        expected.count = i == 0 ? 1 : next + 1;
        expected.holds(i, value, true);
        return (int)max((int64_t)0, min(rows, value));
    }
};

/* bounds [count + 2]: behind the last boundary lie queries without keys, then keys without
 * queries. */
static __global__ void __launch_bounds__(256)
    flash_bounds_kernel(int2 *bounds, const flash_boundaries q, const flash_boundaries k)
{
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < q.count + 2; i += gridDim.x * 256ll) {
        const int key = i > q.count ? (int)k.rows : k.get(min(i, q.count - 1));
        bounds[i] = make_int2(i < q.count ? q.get(i) : (int)q.rows, key);
    }
}

static inline flash_boundaries boundaries_of(const cuda_call &call, const char *name,
                                             const tg_tensor *t, int rows)
{
    const flash_boundaries b = {(const int64_t *)data_of(t), t->shape[0], rows,
                                range_of(call, name, rows + 1)};
    return b;
}

/* Bytes of the workspace for boundaries, and what puts them there: p.bounds at *room, which moves
 * on. */
template <class ARGS> static int64_t flash_bounds_bytes(const ARGS *a)
{
    return a->cu_seqlens_q
               ? ceil_div((a->cu_seqlens_q->shape[0] + 2) * (int64_t)sizeof(int2), 256) * 256
               : 0;
}

template <class ARGS>
static void flash_put_bounds(flash_problem *p, const ARGS *a, char **room, const cuda_call &call)
{
    if (!a->cu_seqlens_q)
        return;
    int2 *bounds = (int2 *)*room;
    flash_bounds_kernel<<<(unsigned)min_of(ceil_div(p->sequences + 1, 256), 1024), 256, 0,
                          call.stream>>>(
        bounds, boundaries_of(call, "cu_seqlens_q", a->cu_seqlens_q, p->queries),
        boundaries_of(call, "cu_seqlens_k", a->cu_seqlens_k, p->keys));
    p->bounds = bounds;
    *room += flash_bounds_bytes(a);
}

#endif
