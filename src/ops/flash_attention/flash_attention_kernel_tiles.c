/* flash_attention: products of small matrices that lie packed in scratch, by matrix units (AMX).
 * Rows of 16 words are tiles of a where they lie, and words of 16 lanes are tiles of b; only the
 * probabilities of a sum over keys have to be turned first. */
#include "flash_attention_cpu_kernels.h"

#if TILES

enum { SIDE = 16 /* rows, and words of a row, of a tile */, SQUARE = SIDE * SIDE };

/* Two tiles of a, and two of b, over a depth of one: words from word to word, row to row,
 * and tile to tile. */
typedef struct operand {
    const word *at;
    int64_t row, tile, step; /* step: to the tiles of the next depth */
} operand;

/* Sums of FA_MR x FA_NR, in the matrix unit. */
SIMD_INLINE void multiply(operand a, operand b, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++, a.at += a.step, b.at += b.step) {
        _tile_loadd(4, a.at, 4 * a.row);
        _tile_loadd(6, b.at, 4 * b.row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b.at + b.tile, 4 * b.row);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a.at + a.tile, 4 * a.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

SIMD_INLINE void sums_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

SIMD_INLINE void sums_load(const float *c, int64_t row)
{
    _tile_loadd(0, c, 4 * row);
    _tile_loadd(1, c + SIDE, 4 * row);
    _tile_loadd(2, c + SIDE * row, 4 * row);
    _tile_loadd(3, c + SIDE * row + SIDE, 4 * row);
}

SIMD_INLINE void sums_store(float *c, int64_t row)
{
    _tile_stored(0, c, 4 * row);
    _tile_stored(1, c + SIDE, 4 * row);
    _tile_stored(2, c + SIDE * row, 4 * row);
    _tile_stored(3, c + SIDE * row + SIDE, 4 * row);
}

/* The compiler does not know what memory tiles are loaded from and stored to: all of it is written
 * before, and read after. */
SIMD_INLINE void memory_is_used(void)
{
    __asm__ volatile("" ::: "memory");
}

static void scale_block(float *c, float scale)
{
    for (int i = 0; i < FA_MR; i++)
        for (int j = 0; j < FA_NV; j++) {
            vf_mem *at = (vf_mem *)(c + i * FA_QB + j * VL);
            *at = *at * v_set(scale);
        }
}

void fa_scores(const fa_tile *t, int64_t d, const word *a, int64_t a_rows, const word *b,
               float scale, float *scores)
{
    memory_is_used();
    for (int j = 0; j < t->nq; j += FA_NR) {
        const int keys = fa_keys_up(t, j + FA_NR - 1);
        for (int i = fa_keys_from(t, j); i < keys; i += FA_MR) {
            float *c = scores + i * FA_QB + j;
            sums_zero();
            for (int64_t s = 0; s < fa_slices(d); s++) {
                const operand as = {a + (s * a_rows + i) * FA_W, FA_W, SIDE * FA_W, SIDE},
                              bs = {b + s * FA_W * FA_QB + j, FA_QB, SIDE, SIDE * FA_QB};
                multiply(as, bs, (fa_depth(d, s) + SIDE - 1) / SIDE);
            }
            sums_store(c, FA_QB);
            memory_is_used();
            if (scale != 1)
                scale_block(c, scale);
        }
    }
}

/* Words of 16 keys' pairs in lanes of queries become rows of queries, for FA_MR queries and so many
 * such squares: [half][square]. */
static void turn(const word *p, int64_t squares, word *to)
{
    for (int64_t half = 0; half < FA_MR / SIDE; half++)
        for (int64_t n = 0; n < squares; n++) {
            vi square[VL];
            for (int i = 0; i < SIDE; i++)
                square[i] = *(const vi_mem *)(p + (n * SIDE + i) * FA_QB + half * SIDE);
            v_transpose(square);
            for (int i = 0; i < SIDE; i++)
                *(vi_mem *)(to + (half * squares + n) * SQUARE + i * SIDE) = square[i];
        }
}

void fa_sum_keys(const fa_tile *t, int64_t d, const word *p, const word *b, int64_t b_rows,
                 float *sums, int64_t sum_rows)
{
    word turned[FA_MR * FA_KB / FA_PER_WORD] __attribute__((aligned(64)));
    for (int i = 0; i < t->nq; i += FA_MR) {
        const int64_t first = fa_keys_from(t, i) / (SIDE * FA_PER_WORD);
        const int64_t squares = fa_keys_up(t, i + FA_MR - 1) / (SIDE * FA_PER_WORD) - first;
        if (squares <= 0)
            continue;
        turn(p + i + first * SIDE * FA_QB, squares, turned);
        memory_is_used();
        for (int64_t n = 0; n < d; n += FA_NR) {
            const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
            float *c = sums + (s * sum_rows + i) * FA_SLICE + column;
            const word *bs = b + (s * (b_rows / FA_PER_WORD) + first * SIDE) * FA_SLICE + column;
            sums_load(c, FA_SLICE);
            multiply((operand){turned, SIDE, squares * SQUARE, SQUARE},
                     (operand){bs, FA_SLICE, SIDE, SIDE * FA_SLICE}, squares);
            sums_store(c, FA_SLICE);
        }
    }
    memory_is_used();
}

void fa_sum_queries(const fa_tile *t, int64_t d, const word *p, const word *b, float *sums,
                    int64_t sum_rows)
{
    const int keys = fa_keys(t, t->nq - 1);
    memory_is_used();
    for (int64_t n = 0; n < d; n += FA_NR) {
        const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
        for (int i = fa_keys_from(t, 0); i < keys; i += FA_MR) {
            const int first = fa_first_query(t, i) / FA_NR; /* panel */
            const int panels = (fa_end_query(t, i + FA_MR - 1) + FA_NR - 1) / FA_NR;
            float *c = sums + (s * sum_rows + i) * FA_SLICE + column;
            const word *bs = b + s * FA_STACK_TILE + column + first * SIDE * FA_SLICE;
            sums_load(c, FA_SLICE);
            multiply((operand){p + i * FA_QB + first * SIDE, FA_QB, SIDE * FA_QB, SIDE},
                     (operand){bs, FA_SLICE, SIDE, SIDE * FA_SLICE}, panels - first);
            sums_store(c, FA_SLICE);
        }
    }
    memory_is_used();
}

#endif
