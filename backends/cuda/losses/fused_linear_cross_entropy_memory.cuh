/* fused_linear_cross_entropy_memory.cuh - the arguments of both directions, how many rows make a
 * chunk, and what lies where in the workspace. */
#ifndef CUDA_FUSED_LINEAR_CROSS_ENTROPY_MEMORY_CUH
#define CUDA_FUSED_LINEAR_CROSS_ENTROPY_MEMORY_CUH

#include "fused_linear_cross_entropy.cuh"

/* One view of both directions' arguments. */
struct flce : last_layer {
    const tg_tensor *dloss;
    tg_tensor *loss, *z_loss, *lse, *dx, *dweight;
    int64_t reduction, accumulate;
    double z;
    int is_logp; /* dloss is that of log-probabilities */
};

template <class ARGS> static flce common_of(const ARGS *args)
{
    flce f = {};
    (last_layer &)f = layer_of(args);
    f.dloss = args->dloss;
    f.dx = args->dx;
    f.dweight = args->dweight;
    f.reduction = args->reduction;
    f.accumulate = args->accumulate;
    f.z = args->lse_square_scale;
    return f;
}

/* Bytes of E by default. With fewer rows a chunk the sums of dweight, read and written with each,
 * would take longer. */
static const int64_t CHUNK_BYTES = 1 << 30;

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

/* f32 sums of dweight are needed if there are several chunks. */
static int64_t sums_bytes(const flce &f)
{
    return f.dweight && tg_type_of(f.dweight) == TG_BF16 ? 4 * f.classes * f.hidden : 0;
}

/* How often the card goes to all its multiprocessors with tiles of dx of so many rows. */
static int64_t rounds_of(const cuda_call &call, const flce &f, int64_t rows)
{
    const int64_t pairs = ceil_div(rows, PAIR) * ceil_div(f.hidden, TILE_N);
    return ceil_div(pairs, call.processors / CLUSTER);
}

/* Rows of a chunk that fit the memory: all, also where that takes no more than several chunks and
 * their sums; else, down to half of what fits, so many that the rounds of all chunks are the
 * fewest. */
static int64_t chunk_of(const cuda_call &call, const flce &f, const flce_memory &m)
{
    const int64_t row = 2 * m.pitch + m.tiles * (int64_t)sizeof *m.parts;
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

static tg_status allocate(const cuda_call &call, const flce &f, flce_memory *m)
{
    *m = {};
    m->pitch = ceil_div(f.classes, 64) * 64;
    m->tiles = (int)ceil_div(f.classes, TILE_N);
    m->chunk = chunk_of(call, f, *m);
    const int64_t bytes = place_memory(f, m, NULL);
    char *memory = (char *)cuda_host->device_workspace(call.ctx, (size_t)bytes);
    if (!memory)
        return TG_ENOMEM;
    place_memory(f, m, memory);
    return TG_OK;
}

#endif
