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

/* dweight (+)= its sums, rounded. */
static tg_status round_sums(const cuda_call &call, const layer_call &f, float *of)
{
    int64_t shape[3] = {1, f.classes, f.hidden};
    tg_tensor sums = tg_tensor_of(of, TG_F32, 3, shape);
    sums.device = f.x->device;
    tg_sum_rows_forward_args args = {};
    args.x = &sums;
    args.y = f.dweight;
    args.accumulate = f.accumulate;
    return cuda_host->call(call.ctx, "sum_rows_forward", &args);
}

#endif
