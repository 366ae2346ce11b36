/* asc_pairs.asc.h - a kernel on independent elements, of one type, where two operands are
 * neighbours in one tensor: all but its arithmetic. Rows of that tensor, `pairs`, have two elements
 * for each of the others'. Included for each such kernel by what asc_each_type.h includes, after
 *
 *   #define ASC_PAIRS(step) ASC_NAME(swiglu_forward_pairs##step)    the kernel, and its steps
 *   #define ASC_PAIRS_ARGS SWIGLU_FORWARD_PAIRS        what it is given: tensors, among them
 *                                                      `pairs`, the grid of the others, numbers,
 *                                                      buffers, among them ASC_PAIR_BUFFERS
 *   #define ASC_PAIRS_BEGIN                            what is done before the tiles; may be left
 *                                                      out
 *   #define ASC_PAIRS_READS ASC_READ(dy)               the tensors that it reads beside `pairs`, as
 *                                                      in asc_flat.asc.h; may be left out
 *   #define ASC_PAIRS_WRITES ASC_WRITE(y, sum)         those that it writes, and the f32 where each
 *                                                      is computed for types of 16 bits; one that
 *                                                      is NULL is left out
 *   #define ASC_PAIRS_OUT                              where it writes a tensor of pairs,
 *                                                      `results`, with ASC_PAIR_RESULTS
 *   #define ASC_PAIRS_TILE f(y32, first, second, n)    the arithmetic of n elements, ended by
 *                                                      ASC_THEN(). first, second: of the pairs, in
 *                                                      which those of ASC_PAIRS_OUT are left
 */
#ifndef ASC_PAIRS_BEGIN
#define ASC_PAIRS_BEGIN
#endif
#ifndef ASC_PAIRS_READS
#define ASC_PAIRS_READS
#endif
#if ASC_16BIT
#define ASC_PAIR_SIDE(name) name##_at
#else
#define ASC_PAIR_SIDE(name) name##_f32_at
#endif
static inline __aicore__ void ASC_PAIRS(_begin)(ASC_PARAMS(ASC_PAIRS_ARGS))
{
    const int64_t all = tile_rows * asc_round_up(tile_columns, 16);
    asc_clear_begin();
    asc_clear(ASC_PAIR_SIDE(pairs), 2 * all * (int64_t)sizeof(ASC_T));
    asc_offsets(ASC_UB(int32_t, to_halves_at, 0), all, 8);
#ifdef ASC_PAIRS_OUT
    asc_offsets_to_pairs(ASC_UB(int32_t, to_pairs_at, 0), all, 2 * all);
#endif
}

static inline __aicore__ void ASC_PAIRS(_in)(asc_tile tile, int slot, ASC_PARAMS(ASC_PAIRS_ARGS))
{
    const int64_t pitch = asc_pitch(tile, sizeof(ASC_T)), size = sizeof(ASC_T);
    asc_copy_rows_in(asc_place(ASC_PAIR_SIDE(pairs), slot),
                     pairs + tile.row * pairs_stride + 2 * tile.column, tile.rows,
                     2 * tile.columns * size, pairs_stride * size, 2 * pitch * size);
#define ASC_READ(x) ASC_LOAD(ASC_T, x##_at, slot, x, x##_stride, tile);
    ASC_PAIRS_READS
#undef ASC_READ
}

static inline __aicore__ void ASC_PAIRS(_out)(asc_tile tile, int slot, ASC_PARAMS(ASC_PAIRS_ARGS))
{
#define ASC_WRITE(y, in) \
    if (y)               \
        ASC_STORE(ASC_T, y, y##_stride, tile, y##_at, slot);
    ASC_PAIRS_WRITES
#undef ASC_WRITE
#ifdef ASC_PAIRS_OUT
    const int64_t pitch = asc_pitch(tile, sizeof(ASC_T)), size = sizeof(ASC_T);
    asc_copy_rows_out(results + tile.row * results_stride + 2 * tile.column,
                      asc_place(ASC_PAIR_SIDE(results), slot), tile.rows, 2 * tile.columns * size,
                      results_stride * size, 2 * pitch * size);
#endif
}

ASC_KERNEL ASC_PAIRS()(ASC_PARAMS(ASC_PAIRS_ARGS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *first = ASC_SCRATCH(halves);
    __ubuf__ float *second = first + tile_rows * asc_round_up(tile_columns, 16);
    int slot = 0;
    ASC_PAIRS(_begin)(ASC_NAMES(ASC_PAIRS_ARGS));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    ASC_PAIRS_BEGIN
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        ASC_MAY_FILL(slot);
        ASC_PAIRS(_in)(tile, slot, ASC_NAMES(ASC_PAIRS_ARGS));
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *mixed = ASC_SCRATCH(mixed);
        ASC_WIDEN(mixed, ASC_UB(ASC_T, pairs_at, slot), 2 * n);
#define ASC_READ(x)                                     \
    __ubuf__ float *x##32 = ASC_UB(float, x##32_at, 0); \
    ASC_WIDEN(x##32, ASC_UB(ASC_T, x##_at, slot), n);
        ASC_PAIRS_READS
#undef ASC_READ
        ASC_HAS_READ(slot);
        ASC_THEN();
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = in;
#else
        __ubuf__ float *mixed = ASC_UB(float, pairs_f32_at, slot);
#define ASC_READ(x) __ubuf__ float *x##32 = ASC_UB(float, x##_at, slot);
        ASC_PAIRS_READS
#undef ASC_READ
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = ASC_UB(float, y##_at, slot);
#endif
        ASC_PAIRS_WRITES
#undef ASC_WRITE
        asc_gather(first, mixed, ASC_UB(uint32_t, to_halves_at, 0), n);
        asc_gather(second, mixed + 1, ASC_UB(uint32_t, to_halves_at, 0), n);
        ASC_MAY_WRITE(slot);
        ASC_THEN();
        ASC_PAIRS_TILE;
#ifdef ASC_PAIRS_OUT
#if !ASC_16BIT
        mixed = ASC_UB(float, results_f32_at, slot);
#endif
        asc_gather(mixed, first, ASC_UB(uint32_t, to_pairs_at, 0), 2 * n);
        ASC_THEN();
#endif
#if ASC_16BIT
#define ASC_WRITE(y, in) \
    if (y)               \
        ASC_NARROW(ASC_UB(ASC_T, y##_at, slot), y##32, n);
        ASC_PAIRS_WRITES
#undef ASC_WRITE
#ifdef ASC_PAIRS_OUT
        ASC_NARROW(ASC_UB(ASC_T, results_at, slot), mixed, 2 * n);
#endif
        ASC_THEN(); /* what was narrowed is the next tile's */
#else
        ASC_HAS_READ(slot);
#endif
        ASC_HAS_WRITTEN(slot);
        ASC_PAIRS(_out)(tile, slot, ASC_NAMES(ASC_PAIRS_ARGS));
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

#undef ASC_PAIR_SIDE
#undef ASC_PAIRS
#undef ASC_PAIRS_ARGS
#undef ASC_PAIRS_BEGIN
#undef ASC_PAIRS_READS
#undef ASC_PAIRS_WRITES
#undef ASC_PAIRS_OUT
#undef ASC_PAIRS_TILE
