/* asc_flat.asc.h - a kernel on independent elements, of one type: all but its arithmetic. Included
 * for each such kernel by what asc_each_type.h includes, or by asc_flat_each.h, after
 *
 *   #define ASC_FLAT ASC_NAME(relu_forward)      the kernel
 *   #define ASC_FLAT_ARGS RELU_FORWARD           what it is given: tensors, the grid, numbers,
 *                                                buffers
 *   #define ASC_FLAT_BEGIN asc_dcci_entire_all() what is done before the tiles; may be left out
 *   #define ASC_FLAT_READS ASC_READ(x)           the tensors that it reads; each has a buffer of
 *                                                its name, of two copies, and for types of 16 bits
 *                                                one of f32, x32
 *   #define ASC_FLAT_WRITES ASC_WRITE(y, x32)    the tensors that it writes, and the buffer of f32
 *                                                that each is computed in for types of 16 bits; for
 *                                                f32 it is computed in its own
 *   #define ASC_FLAT_TILE relu(y32, x32, n)      the arithmetic on the n elements of a tile, ended
 *                                                by ASC_THEN(). x32, y32 are addresses of f32, in
 *                                                which y32 may be x32; the kernel's numbers may be
 *                                                used, and ASC_SCRATCH(h), a buffer of f32
 */
#ifndef ASC_FLAT_BEGIN
#define ASC_FLAT_BEGIN (void)0
#endif
ASC_KERNEL ASC_FLAT(ASC_PARAMS(ASC_FLAT_ARGS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    int slot = 0;
    ASC_FLAT_BEGIN;
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        ASC_MAY_FILL(slot);
#define ASC_READ(x) ASC_LOAD(ASC_T, x##_at, slot, x, x##_stride, tile);
        ASC_FLAT_READS
#undef ASC_READ
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
#define ASC_READ(x)                                     \
    __ubuf__ float *x##32 = ASC_UB(float, x##32_at, 0); \
    ASC_WIDEN(x##32, ASC_UB(ASC_T, x##_at, slot), n);
        ASC_FLAT_READS
#undef ASC_READ
        ASC_HAS_READ(slot);
        ASC_THEN();
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = in;
#else
#define ASC_READ(x) __ubuf__ float *x##32 = ASC_UB(float, x##_at, slot);
        ASC_FLAT_READS
#undef ASC_READ
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = ASC_UB(float, y##_at, slot);
#endif
        ASC_FLAT_WRITES
#undef ASC_WRITE
        ASC_MAY_WRITE(slot);
        ASC_FLAT_TILE;
#if ASC_16BIT
#define ASC_WRITE(y, in) ASC_NARROW(ASC_UB(ASC_T, y##_at, slot), y##32, n);
        ASC_FLAT_WRITES
#undef ASC_WRITE
        ASC_THEN(); /* what was narrowed is the next tile's */
#else
        ASC_HAS_READ(slot);
#endif
        ASC_HAS_WRITTEN(slot);
#define ASC_WRITE(y, in) ASC_STORE(ASC_T, y, y##_stride, tile, y##_at, slot);
        ASC_FLAT_WRITES
#undef ASC_WRITE
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

#ifndef ASC_FLAT_EACH /* which needs them for the next type */
#undef ASC_FLAT
#undef ASC_FLAT_ARGS
#undef ASC_FLAT_BEGIN
#undef ASC_FLAT_READS
#undef ASC_FLAT_WRITES
#undef ASC_FLAT_TILE
#endif
