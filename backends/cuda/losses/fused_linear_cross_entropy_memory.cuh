/* fused_linear_cross_entropy_memory.cuh - the arguments of both directions, and what lies where in
 * the workspace. */
#ifndef CUDA_FUSED_LINEAR_CROSS_ENTROPY_MEMORY_CUH
#define CUDA_FUSED_LINEAR_CROSS_ENTROPY_MEMORY_CUH

#include "fused_linear_chunks.cuh"
#include "fused_linear_cross_entropy.cuh"

/* One view of both directions' arguments. */
struct flce : layer_call {
    const tg_tensor *dloss;
    tg_tensor *loss, *z_loss, *lse;
    int64_t reduction;
    double z;
    int is_logp; /* dloss is that of log-probabilities */
};

template <class ARGS> static flce common_of(const ARGS *args)
{
    flce f = {};
    layer_begin(args, &f);
    f.dloss = args->dloss;
    f.reduction = args->reduction;
    f.z = args->lse_square_scale;
    return f;
}

struct flce_memory {
    int64_t chunk, pitch; /* rows; elements from one row of E to the next */
    int tiles;
    row_state *state; /* of all rows */
    float *per_row;
    /* of a chunk */
    float *factor;
    int *again;
    row_part *parts;
    bf16 *e, *scaled; /* scaled: NULL where dx has room for it */
    float *sums;      /* [classes, hidden]: of a dweight of bf16, where several chunks add to it */
};

/* Returns the bytes of all. */
static int64_t place_memory(const flce &f, flce_memory *m, char *memory)
{
    const int64_t chunk = m->chunk, pairs = ceil_div(chunk, PAIR);
    int64_t used = 0;
    m->state = take<row_state>(memory, &used, f.rows * (int64_t)sizeof *m->state);
    m->per_row = take<float>(memory, &used, sizeof *m->per_row);
    m->factor = take<float>(memory, &used, chunk * (int64_t)sizeof *m->factor);
    m->again = take<int>(memory, &used, pairs * (int64_t)sizeof *m->again);
    m->parts = take<row_part>(memory, &used, chunk * m->tiles * (int64_t)sizeof *m->parts);
    if (f.dx || f.dweight)
        m->e = take<bf16>(memory, &used, 2 * chunk * m->pitch);
    if (f.dweight && !f.dx)
        m->scaled = take<bf16>(memory, &used, 2 * chunk * f.hidden);
    if (chunk < f.rows && sums_bytes(f))
        m->sums = take<float>(memory, &used, sums_bytes(f));
    return used;
}

#endif
