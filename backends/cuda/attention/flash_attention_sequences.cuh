/* flash_attention_sequences.cuh - sequences of a call, their tiles, and which query of one sees
 * which key.
 *
 * Boundaries of packed rows lie in the device's memory, and the host does not know them: it
 * launches for as many tiles as there can be. Sequence i, whose rows begin at row x, has the tiles
 * from x / ROWS + i on: as many as it needs, or one more. So a block finds its sequence by a search
 * in boundaries alone. */
#ifndef CUDA_FLASH_ATTENTION_SEQUENCES_CUH
#define CUDA_FLASH_ATTENTION_SEQUENCES_CUH

#include "flash_attention.cuh"

/* Query i sees the keys from i + begin to i + end (itself not one of them), of those that there
 * are. No query of a sequence is without a key that it sees, but those with i + end <= 0, and all
 * where there are no keys. */
struct flash_sequence {
    int batch, query, queries, key, keys; /* first rows in the tensors, and how many */
    int begin, end;
    int number; /* among all sequences */
    __device__ __forceinline__ bool sees_none(int i) const
    {
        return keys == 0 || i + end <= 0;
    }
};

__device__ __forceinline__ flash_sequence flash_sequence_at(const flash_problem &p, int i)
{
    flash_sequence s = {i, 0, p.queries, 0, p.keys, 0, 0, i};
    if (p.bounds) {
        const int2 from = p.bounds[i], to = p.bounds[i + 1];
        s = {0, from.x, max(0, to.x - from.x), from.y, max(0, to.y - from.y), 0, 0, i};
    }
    const int64_t at = (int64_t)s.keys - s.queries;
    /* limits beyond those of all queries and keys are as good as theirs */
    s.begin = (int)max(-(int64_t)s.queries, at - p.left);
    s.end = (int)min((int64_t)s.keys, at + p.right + 1);
    return s;
}

/* Tiles of rows, of queries or of keys, of one head and all sequences (of one batch, where rows are
 * not packed). */
static inline __host__ __device__ int flash_tiles(const flash_problem &p, int rows, int tile_rows)
{
    return p.bounds ? rows / tile_rows + p.sequences : (rows + tile_rows - 1) / tile_rows;
}

/* A tile of rows of one head: its sequence, and the first row there. The last tile of a sequence
 * may begin behind its end: then there is nothing to do. */
struct flash_place {
    flash_sequence of;
    int row, head;
};

/* The first tile of sequence i. */
template <int ROWS, bool OF_KEYS>
__device__ __forceinline__ int flash_first_tile(const flash_problem &p, int i)
{
    return (OF_KEYS ? p.bounds[i].y : p.bounds[i].x) / ROWS + i;
}

template <int ROWS, bool OF_KEYS>
__device__ __forceinline__ flash_place flash_tile_at(const flash_problem &p, int batch, int head,
                                                     int tile)
{
    if (!p.bounds)
        return {flash_sequence_at(p, batch), tile * ROWS, head};
    int low = 0, high = p.sequences; /* it is from low on, and below high */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (flash_first_tile<ROWS, OF_KEYS>(p, middle) <= tile)
            low = middle;
        else
            high = middle;
    }
    const int first = flash_first_tile<ROWS, OF_KEYS>(p, low);
    return {flash_sequence_at(p, low), (tile - first) * ROWS, head};
}

/* The same by a warp, all lanes of which ask for one tile: they look at 32 boundaries at a time. */
template <int ROWS, bool OF_KEYS>
__device__ __forceinline__ flash_place flash_tile_by_warp(const flash_problem &p, int batch,
                                                          int head, int tile)
{
    if (!p.bounds)
        return {flash_sequence_at(p, batch), tile * ROWS, head};
    int low = 0, high = p.sequences;
    while (high - low > 1) {
        const int step = (high - low + 31) / 32, at = low + lane_id() * step;
        const bool before =
            lane_id() == 0 || (at < high && flash_first_tile<ROWS, OF_KEYS>(p, at) <= tile);
        low += (31 - __clz(__ballot_sync(0xffffffff, before))) * step;
        high = min(high, low + step);
    }
    const int first = flash_first_tile<ROWS, OF_KEYS>(p, low);
    return {flash_sequence_at(p, low), (tile - first) * ROWS, head};
}

/* The tile of a block. The blocks of a head follow one another, and those that see most where
 * attention is causal come first. */
template <int ROWS, bool OF_KEYS>
__device__ __forceinline__ flash_place flash_tile_of(const flash_problem &p, int block)
{
    const int tiles = flash_tiles(p, OF_KEYS ? p.keys : p.queries, ROWS), tile = block % tiles;
    const int heads = OF_KEYS ? p.key_heads : p.heads, head = block / tiles;
    return flash_tile_at<ROWS, OF_KEYS>(p, head / heads, head % heads,
                                        OF_KEYS ? tile : tiles - 1 - tile);
}

#endif
