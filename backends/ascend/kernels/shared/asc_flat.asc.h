/* asc_flat.asc.h - a kernel on independent elements: all but its arithmetic. Included for each such
 * kernel by what asc_each_type.h includes, or by the kernel's file where the family has no other
 * kernels, which makes it for each type; after
 *
 *   #define ASC_FLAT ASC_NAME(relu_forward)      the kernel
 *   #define ASC_FLAT_ARGS RELU_FORWARD           what it is given: tensors, the grid, numbers,
 *                                                buffers
 *   #define ASC_FLAT_BEGIN asc_dcci_entire_all() what comes before the tiles; may be left out
 *   #define ASC_FLAT_READS ASC_READ(x)           the tensors that it reads; each has a buffer of
 *                                                its name, of two copies, and for types of 16 bits
 *                                                one of f32, x32
 *   #define ASC_FLAT_LATE ASC_READ(up)           one more, whose buffer of f32 is something else at
 *                                                first: the arithmetic says ASC_LATE(up) where it
 *                                                has read the others, and up32 is there from the
 *                                                next ASC_THEN() on; may be left out
 *   #define ASC_FLAT_IN_PLACE(X) X(gate, y)      a tensor that the arithmetic makes f32, and a
 *                                                result that leaves from its buffer, without one
 *                                                of its own. The arithmetic's first stage leaves
 *                                                alone what the result was computed in. May be left
 *                                                out
 *   #define ASC_FLAT_WRITES ASC_WRITE(y, x32)    the tensors that it writes, and the buffer of f32
 *                                                that each is computed in for types of 16 bits; for
 *                                                f32 it is computed in its own
 *   #define ASC_FLAT_TILE relu(y32, x32, n)      the arithmetic on the n elements of a tile, ended
 *                                                by ASC_THEN(). x32, y32 are addresses of f32, in
 *                                                which y32 may be x32; the kernel's numbers may be
 *                                                used, and ASC_SCRATCH(h), a buffer of f32
 */
#ifndef ASC_T
#define ASC_FLAT_EACH
#define ASC_TEMPLATE "shared/asc_flat.asc.h"
#include "shared/asc_each_type.h"
#undef ASC_TEMPLATE
#undef ASC_FLAT_EACH
#else
#ifndef ASC_FLAT_BEGIN
#define ASC_FLAT_BEGIN (void)0
#endif
#ifndef ASC_FLAT_LATE
#define ASC_FLAT_IN ASC_FLAT_READS
#define ASC_FLAT_HAS_READ(slot) ASC_HAS_READ(slot)
#else
#ifdef ASC_FLAT_READS
#define ASC_FLAT_IN ASC_FLAT_READS ASC_FLAT_LATE
#else
#define ASC_FLAT_IN ASC_FLAT_LATE
#endif
#define ASC_FLAT_HAS_READ(slot) (void)0
#endif
/* What leaves is waited for by who fills its buffer. */
#ifdef ASC_FLAT_IN_PLACE
#define ASC_FLAT_PLACES(X) ASC_FLAT_IN_PLACE(X)
#define ASC_FLAT_FILLS PIPE_MTE2
#define ASC_FLAT_MAY_FILL(slot) ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot)
#define ASC_FLAT_MAY_WRITE(slot) (void)0
#define ASC_FLAT_THEN() (void)0
#else
#define ASC_FLAT_PLACES(X)
#define ASC_FLAT_FILLS PIPE_V
#define ASC_FLAT_MAY_FILL(slot) (void)0
#define ASC_FLAT_MAY_WRITE(slot) ASC_MAY_WRITE(slot)
#define ASC_FLAT_THEN() ASC_THEN() /* what was narrowed is the next tile's */
#endif
#define ASC_FLAT_AT(x, y) const int64_t y##_at = x##_at;
#define ASC_FLAT_LOAD(x, y) ASC_LOAD(ASC_T, x##_at, slot, x, x##_stride, tile);
#if ASC_16BIT
#define ASC_FLAT_F32(x, y) __ubuf__ float *x##32 = ASC_SCRATCH(x##32);
#define ASC_FLAT_WIDEN(x) ASC_WIDEN(x##32, ASC_UB(ASC_T, x##_at, slot), n);
#define ASC_LATE(x)   \
    ASC_FLAT_WIDEN(x) \
    ASC_HAS_READ(slot)
#else
#define ASC_FLAT_F32(x, y) __ubuf__ float *x##32 = ASC_UB(float, x##_at, slot);
#define ASC_LATE(x) (void)0
#endif
ASC_KERNEL ASC_FLAT(ASC_PARAMS(ASC_FLAT_ARGS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    int slot = 0;
    ASC_FLAT_PLACES(ASC_FLAT_AT)
    asc_modes_set();
    ASC_BUFFERS(asc_sync_notify, ASC_FLAT_FILLS);
    ASC_FLAT_BEGIN;
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        ASC_MAY_FILL(slot);
#define ASC_READ(x) ASC_FLAT_LOAD(x, )
        ASC_FLAT_IN
#undef ASC_READ
        ASC_FLAT_MAY_FILL(slot);
        ASC_FLAT_PLACES(ASC_FLAT_LOAD)
        ASC_HAS_FILLED(slot);
#define ASC_READ(x) ASC_FLAT_F32(x, )
        ASC_FLAT_IN
#undef ASC_READ
        ASC_FLAT_PLACES(ASC_FLAT_F32)
#if ASC_16BIT
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = in;
#else
#define ASC_WRITE(y, in) __ubuf__ float *y##32 = ASC_UB(float, y##_at, slot);
#endif
        ASC_FLAT_WRITES
#undef ASC_WRITE
#if ASC_16BIT && defined(ASC_FLAT_READS)
#define ASC_READ(x) ASC_FLAT_WIDEN(x)
        ASC_FLAT_READS
#undef ASC_READ
        ASC_FLAT_HAS_READ(slot);
        ASC_THEN();
#endif
        ASC_FLAT_MAY_WRITE(slot);
        ASC_FLAT_TILE;
#if !ASC_16BIT
        ASC_HAS_READ(slot);
#else
#define ASC_WRITE(y, in) ASC_NARROW(ASC_UB(ASC_T, y##_at, slot), y##32, n);
        ASC_FLAT_WRITES
#undef ASC_WRITE
        ASC_FLAT_THEN();
#endif
        ASC_HAS_WRITTEN(slot);
#define ASC_WRITE(y, in) ASC_STORE(ASC_T, y, y##_stride, tile, y##_at, slot);
        ASC_FLAT_WRITES
#undef ASC_WRITE
        ASC_NOTIFY(PIPE_MTE3, ASC_FLAT_FILLS, slot);
    }
    ASC_BUFFERS(asc_sync_wait, ASC_FLAT_FILLS);
    asc_modes_clear();
}

#undef ASC_LATE
#undef ASC_FLAT_IN
#undef ASC_FLAT_HAS_READ
#undef ASC_FLAT_WIDEN
#undef ASC_FLAT_PLACES
#undef ASC_FLAT_FILLS
#undef ASC_FLAT_MAY_FILL
#undef ASC_FLAT_MAY_WRITE
#undef ASC_FLAT_THEN
#undef ASC_FLAT_AT
#undef ASC_FLAT_LOAD
#undef ASC_FLAT_F32
#endif

#ifndef ASC_FLAT_EACH
#undef ASC_FLAT
#undef ASC_FLAT_ARGS
#undef ASC_FLAT_BEGIN
#undef ASC_FLAT_READS
#undef ASC_FLAT_LATE
#undef ASC_FLAT_IN_PLACE
#undef ASC_FLAT_WRITES
#undef ASC_FLAT_TILE
#endif
