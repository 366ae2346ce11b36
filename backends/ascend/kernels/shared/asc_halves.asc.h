/* asc_halves.asc.h - short rows that are two halves side by side, such as gate and up, as one of
 * `columns`, beside tensors of half of them: for kernels of asc_short.asc.h, of one type. Included
 * by what asc_each_type.h includes. A tile's first half has the lines of the left halves. The list
 * has ASC_HALF_BUFFERS(), and a tensor of half the columns is one of ASC_SHORT_VALUES or
 * ASC_SHORT_RESULTS with ASC_SHORT_EACH (columns / 2).
 *
 *   ASC_HALF_FIRST          what comes first: `n`, the elements of half a tile
 *   ASC_HALF_IN(tile, x)    from x, the place of a buffer, to lines, ended by ASC_THEN()
 *   ASC_HALF_OUT(y, tile)   back */
#undef ASC_HALF_FIRST
#undef ASC_HALF_IN
#undef ASC_HALF_OUT
#define ASC_HALF_FIRST                                                                        \
    const int64_t n = columns / 2 * lanes;                                                    \
    const asc_short by_half =                                                                 \
        asc_short_of(columns / 2, lanes, asc_place(half_in_at, 0), asc_place(half_out_at, 0), \
                     ASC_SCRATCH(turned_scratch));
#if ASC_16BIT
#define ASC_HALF_IN(tile, x)                                                  \
    ASC_WIDEN(ASC_SCRATCH(turned_rows), ASC_UB(ASC_T, x, slot), (uint32_t)n); \
    ASC_THEN();                                                               \
    asc_short_in(&by_half, tile, ASC_SCRATCH(turned_rows));                   \
    ASC_THEN()
#define ASC_HALF_OUT(y, tile)                                                  \
    asc_short_out(&by_half, ASC_SCRATCH(turned_rows), tile);                   \
    ASC_THEN();                                                                \
    ASC_NARROW(ASC_UB(ASC_T, y, slot), ASC_SCRATCH(turned_rows), (uint32_t)n); \
    ASC_THEN()
#else
#define ASC_HALF_IN(tile, x)                              \
    asc_short_in(&by_half, tile, ASC_UB(float, x, slot)); \
    ASC_THEN()
#define ASC_HALF_OUT(y, tile)                              \
    asc_short_out(&by_half, ASC_UB(float, y, slot), tile); \
    ASC_THEN()
#endif
