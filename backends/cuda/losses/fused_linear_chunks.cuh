/* fused_linear_chunks.cuh - losses of a last layer that never write logits (Hopper, bf16): how many
 * rows make a chunk, and the products behind a chunk's matrix of 16 bits, E. */
#ifndef CUDA_FUSED_LINEAR_CHUNKS_CUH
#define CUDA_FUSED_LINEAR_CHUNKS_CUH

#include "last_layer.cuh"

/* A layer and its gradients, each of which may be NULL. */
struct layer_call : last_layer {
    tg_tensor *dx, *dweight;
    int64_t accumulate;
};

template <class ARGS> static void layer_begin(const ARGS *args, layer_call *f)
{
    (last_layer &)*f = layer_of(args);
    f->dx = args->dx;
    f->dweight = args->dweight;
    f->accumulate = args->accumulate;
}

template <class ARGS> static bool takes_gradients(const ARGS *args)
{
    return (!args->dx || has_tiles(args->dx)) && (!args->dweight || has_tiles(args->dweight));
}

/* ---- chunks ---- */

/* Bytes of a chunk by default. With fewer rows a chunk the sums of dweight, read and written with
 * each, would take longer. */
static const int64_t CHUNK_BYTES = 1 << 30;

/* f32 sums of dweight are needed if there are several chunks. */
static int64_t sums_bytes(const layer_call &f)
{
    return f.dweight && tg_type_of(f.dweight) == TG_BF16 ? 4 * f.classes * f.hidden : 0;
}

/* How often the card goes to all its multiprocessors with tiles of dx of so many rows. */
static int64_t rounds_of(const cuda_call &call, const layer_call &f, int64_t rows)
{
    const int64_t pairs = ceil_div(rows, PAIR) * ceil_div(f.hidden, TILE_N);
    return ceil_div(pairs, call.processors / CLUSTER);
}

/* Rows of a chunk, of `row` bytes each, that fit the memory: all, also where that takes no more
 * than several chunks and their sums; else, down to half of what fits, so many that the rounds of
 * all chunks are the fewest. */
static int64_t chunk_of(const cuda_call &call, const layer_call &f, int64_t row)
{
    const int64_t most = f.chunk_bytes ? f.chunk_bytes : CHUNK_BYTES, fit = most / row;
    if ((!f.dx && !f.dweight) || f.rows <= fit ||
        (!f.chunk_bytes && f.rows * row <= most + sums_bytes(f)))
        return f.rows;
    if (fit < PAIR)
        return fit < 1 ? 1 : fit;
    int64_t best = 0, fewest = INT64_MAX;
    for (int64_t c = fit / PAIR * PAIR; c > 0 && 2 * c >= fit; c -= PAIR) {
        const int64_t rounds = f.rows / c * rounds_of(call, f, c) + rounds_of(call, f, f.rows % c);
        if (rounds < fewest) {
            best = c;
            fewest = rounds;
        }
    }
    return best;
}

/* The memory of a call, which place_memory(f, m, room) lays out and tells the bytes of. */
template <class CALL, class MEMORY>
static tg_status allocate(const cuda_call &call, const CALL &f, MEMORY *m)
{
    *m = {};
    m->pitch = ceil_div(f.classes, 64) * 64;
    m->tiles = (int)ceil_div(f.classes, TILE_N);
    m->chunk = chunk_of(call, f, 2 * m->pitch + m->tiles * (int64_t)sizeof *m->parts);
    const int64_t bytes = place_memory(f, m, NULL);
    char *memory = (char *)cuda_host->device_workspace(call.ctx, (size_t)bytes);
    if (!memory)
        return TG_ENOMEM;
    place_memory(f, m, memory);
    return TG_OK;
}

/* ---- products ---- */

/* A matrix for a call of an operator. */
struct matrix {
    int64_t shape[2], strides[2];
    tg_tensor t;
    matrix(const tg_tensor *like, void *data, tg_type type, int64_t rows, int64_t columns,
           int64_t stride)
        : shape{rows, columns}, strides{stride, 1}, t(tg_tensor_of(data, type, 2, shape))
    {
        t.strides = strides;
        t.device = like->device;
    }
};

/* Rows `first`... of E, `rows` of them at `pitch`, with rows of x or what stands for them. sums: of
 * a dweight of 16 bits over several chunks; NULL where there are none. */
struct chunk_matrix {
    bf16 *e;
    int64_t pitch, first, rows;
    float *sums;
};

/* dweight (+)= E^T x, to where it is summed up. */
static tg_status add_dweight(const cuda_call &call, const layer_call &f, const chunk_matrix &c,
                             const row_span &x)
{
    const matrix e(f.x, c.e, TG_BF16, c.rows, f.classes, c.pitch),
        rows(f.x, x.data, TG_BF16, c.rows, f.hidden, x.stride / 2),
        sums(f.x, c.sums, TG_F32, f.classes, f.hidden, f.hidden);
    tg_gemm_args args = {};
    args.a = &e.t;
    args.b = &rows.t;
    args.c = c.sums ? (tg_tensor *)&sums.t : f.dweight;
    args.trans_a = 1;
    args.beta = c.first > 0 || (f.accumulate && !c.sums);
    return cuda_host->call(call.ctx, "gemm", &args);
}

enum { ROUND_THREADS = 256 };

/* A block a row. */
static __global__ void __launch_bounds__(ROUND_THREADS)
    round_sums_kernel(const float *sums, const row_span to, int hidden, int accumulate)
{
    const float *const from = sums + (int64_t)blockIdx.x * hidden;
    bf16 *const row = to.row<bf16>(blockIdx.x);
    for (int j = (int)threadIdx.x * V<bf16>; j < hidden; j += ROUND_THREADS * V<bf16>) {
        const float4 a = __ldcs((const float4 *)(from + j)),
                     b = __ldcs((const float4 *)(from + j + 4));
        float x[V<bf16>] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, before[V<bf16>];
        if (accumulate) {
            widen<bf16>(*(const uint4 *)(row + j), before);
#pragma unroll
            for (int i = 0; i < V<bf16>; i++)
                x[i] += before[i];
        }
        *(uint4 *)(row + j) = narrow<bf16>(x);
    }
}

/* dweight (+)= its sums, rounded to bf16. */
static void round_sums(const cuda_call &call, const layer_call &f, const float *sums)
{
    round_sums_kernel<<<(unsigned)f.classes, ROUND_THREADS, 0, call.stream>>>(
        sums, span_of(f.dweight), (int)f.hidden, (int)f.accumulate);
}

#endif
