/* asc_short.asc.h - a kernel on short rows, of one type: all but its arithmetic (asc_short.h).
 * Included for each such kernel by what asc_each_type.h includes, after
 *
 *   #define ASC_SHORT ASC_NAME(softmax_forward_short)      the kernel
 *   #define ASC_SHORT_ARGS SOFTMAX_FORWARD_SHORT           what it is given; its grid is GRID,
 *                                                            columns, rows, all, lanes, and its
 *                                                            buffers have those of
 *                                                            ASC_SHORT_PLANNED() with them
 *   #define ASC_SHORT_READS ASC_READ(x)                     the tensors that it reads, which may be
 *                                                            absent; each has a buffer of its name,
 *                                                            of two copies, and one of f32, x32,
 *                                                            for the tile
 *   #define ASC_SHORT_WRITES ASC_WRITE(y, x32)              the tensors that it writes, which may
 *                                                            be absent, each with a buffer of its
 *                                                            name, and the tile of f32 that it is
 *                                                            computed in
 *   #define ASC_SHORT_VALUES ASC_READ(rstd)                 what it reads of a value a row: a
 *                                                           buffer of its name, of two copies
 *   #define ASC_SHORT_RESULTS ASC_WRITE(rstd)               what it writes of a value a row, which
 *                                                           may be absent, likewise
 *   #define ASC_SHORT_EACH 3                                 values a row, if not one: as they lie
 *                                                            in memory, in both
 *   #define ASC_SHORT_FIRST                                 what comes before the first tile
 *   #define ASC_SHORT_TILE                                  the arithmetic on a tile of `columns`
 *                                                            lines of `lanes` rows, the first
 *                                                            `count` of which there are, from `row`
 *                                                            on; ended by ASC_THEN()
 *   #define ASC_SHORT_LAST                                  what comes behind the last, before
 *                                                           asc_pipeline_end()
 *
 * All but the first three may be left out. */
#ifndef ASC_SHORT_READS
#define ASC_SHORT_READS
#endif
#ifndef ASC_SHORT_WRITES
#define ASC_SHORT_WRITES
#endif
#ifndef ASC_SHORT_VALUES
#define ASC_SHORT_VALUES
#endif
#ifndef ASC_SHORT_RESULTS
#define ASC_SHORT_RESULTS
#endif
#ifndef ASC_SHORT_EACH
#define ASC_SHORT_EACH 1
#endif
#ifndef ASC_SHORT_FIRST
#define ASC_SHORT_FIRST
#endif
#ifndef ASC_SHORT_LAST
#define ASC_SHORT_LAST
#endif
/* f32 for the tile's arithmetic: y is not in its buffer yet. */
#if ASC_16BIT
#define ASC_SHORT_SCRATCH(y) ASC_SCRATCH(turned_rows)
#else
#define ASC_SHORT_SCRATCH(y) ASC_UB(float, y##_at, slot)
#endif
ASC_KERNEL ASC_SHORT(ASC_PARAMS(ASC_SHORT_ARGS))
{
    const int64_t bytes = columns * lanes * (int64_t)sizeof(ASC_T);
    int slot = 0;
    asc_clear_begin();
#define ASC_READ(x) \
    if (x)          \
        asc_clear(x##_at, bytes);
    ASC_SHORT_READS
#undef ASC_READ
#define ASC_READ(x) \
    if (x)          \
        asc_clear(x##_at, lanes *ASC_SHORT_EACH *(int64_t)sizeof(*(x)));
    ASC_SHORT_VALUES
#undef ASC_READ
    const asc_short turned = asc_short_of(columns, lanes, asc_place(turned_in_at, 0),
                                          asc_place(turned_out_at, 0), ASC_SCRATCH(turned_scratch));
    ASC_SHORT_FIRST
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * lanes; row < rows;
         row += asc_get_block_num() * lanes, slot ^= 1) {
        const int64_t count = asc_min_of(lanes, rows - row);
        ASC_MAY_FILL(slot);
#define ASC_READ(x)                                                       \
    if (x)                                                                \
        asc_copy_rows_in(asc_place(x##_at, slot), (x) + row * columns, 1, \
                         count * columns * (int64_t)sizeof(*(x)), 0, 0);
        ASC_SHORT_READS
#undef ASC_READ
#define ASC_READ(x)                                                              \
    if (x)                                                                       \
        asc_copy_rows_in(asc_place(x##_at, slot), (x) + row * ASC_SHORT_EACH, 1, \
                         count * ASC_SHORT_EACH * (int64_t)sizeof(*(x)), 0, 0);
        ASC_SHORT_VALUES
#undef ASC_READ
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
#define ASC_READ(x)                                                          \
    if (x) {                                                                 \
        ASC_WIDEN(ASC_SCRATCH(turned_rows), ASC_UB(ASC_T, x##_at, slot),     \
                  (uint32_t)(columns * lanes));                              \
        ASC_THEN();                                                          \
        asc_short_in(&turned, ASC_SCRATCH(x##32), ASC_SCRATCH(turned_rows)); \
        ASC_THEN();                                                          \
    }
#else
#define ASC_READ(x) \
    if (x)          \
        asc_short_in(&turned, ASC_SCRATCH(x##32), ASC_UB(float, x##_at, slot));
#endif
        ASC_SHORT_READS
#undef ASC_READ
        ASC_THEN();
        ASC_MAY_WRITE(slot);
        ASC_SHORT_TILE;
        ASC_HAS_READ(slot);
#if ASC_16BIT
#define ASC_WRITE(y, tile)                                                   \
    if (y) {                                                                 \
        asc_short_out(&turned, ASC_SCRATCH(turned_rows), ASC_SCRATCH(tile)); \
        ASC_THEN();                                                          \
        ASC_NARROW(ASC_UB(ASC_T, y##_at, slot), ASC_SCRATCH(turned_rows),    \
                   (uint32_t)(columns * lanes));                             \
        ASC_THEN();                                                          \
    }
#else
#define ASC_WRITE(y, tile) \
    if (y)                 \
        asc_short_out(&turned, ASC_UB(float, y##_at, slot), ASC_SCRATCH(tile));
#endif
        ASC_SHORT_WRITES
#undef ASC_WRITE
        ASC_THEN(); /* the tiles are the next ones' */
        ASC_HAS_WRITTEN(slot);
#define ASC_WRITE(y, tile)                                                     \
    if (y)                                                                     \
        asc_copy_ub2gm_align((y) + row * columns, ASC_UB(ASC_T, y##_at, slot), \
                             (uint32_t)(count * columns * (int64_t)sizeof(ASC_T)));
        ASC_SHORT_WRITES
#undef ASC_WRITE
#define ASC_WRITE(y)                                                              \
    if (y)                                                                        \
        asc_copy_rows_out((y) + row * ASC_SHORT_EACH, asc_place(y##_at, slot), 1, \
                          count * ASC_SHORT_EACH * (int64_t)sizeof(*(y)), 0, 0);
        ASC_SHORT_RESULTS
#undef ASC_WRITE
        ASC_HAS_LEFT(slot);
    }
    ASC_SHORT_LAST
    asc_pipeline_end();
}

#undef ASC_SHORT
#undef ASC_SHORT_ARGS
#undef ASC_SHORT_READS
#undef ASC_SHORT_WRITES
#undef ASC_SHORT_VALUES
#undef ASC_SHORT_RESULTS
#undef ASC_SHORT_EACH
#undef ASC_SHORT_FIRST
#undef ASC_SHORT_TILE
#undef ASC_SHORT_LAST
#undef ASC_SHORT_SCRATCH
