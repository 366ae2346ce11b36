/* fused_neighborhood_attention_look.asc.h - whether all that the cube core multiplies is finite, of
 * one type: 0 times it is added to 64 lanes. */

static inline __aicore__ void ASC_NAME(neighborhood_add_odd)(const neighborhood_ub *u,
                                                             __ubuf__ float *x, int64_t elements)
{
    __ubuf__ float *lanes = ASC_UB(float, u->lanes_at, 0);
    const int64_t whole = asc_round_up(elements, ASC_LANES);
    if (whole > elements)
        asc_duplicate(x + elements, 0.0f, (uint32_t)(whole - elements));
    FLASH_ALL_LANES();
    ASC_THEN();
    asc_add(lanes, x, lanes, (uint8_t)(whole / ASC_LANES), 1, 1, 1, 0, 8, 0);
    ASC_THEN();
}

/* Some rows of x, `columns` of each. */
static inline __aicore__ void ASC_NAME(neighborhood_look_at)(neighborhood_ub *u, __gm__ ASC_T *x,
                                                             int64_t rows, int64_t columns,
                                                             int64_t stride)
{
    const int64_t size = (int64_t)sizeof(ASC_T), used = asc_round_up(columns, 32 / size);
    const uint32_t n = (uint32_t)(rows * used);
    __ubuf__ ASC_T *piece = ASC_UB(ASC_T, u->piece_at, u->piece);
    __ubuf__ float *wide = ASC_UB(float, u->wide_at, 0);
    const int event = 2 + u->piece;
    ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, event);
    asc_copy_rows_in((uint64_t)piece, x, rows, columns * size, stride * size, used * size);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_V, event);
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, event);
#if ASC_16BIT
    ASC_WIDEN(wide, piece, n);
    ASC_THEN();
    asc_mul_scalar(wide, wide, 0.0f, n);
#else
    asc_mul_scalar(wide, piece, 0.0f, n);
#endif
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, event);
    u->piece ^= 1;
    ASC_NAME(neighborhood_add_odd)(u, wide, n);
}

/* The window's queries of q and dy, and its keys of k or v. */
static inline __aicore__ void ASC_NAME(neighborhood_look)(const flash_problem *f,
                                                          neighborhood_ub *u, const FLASH_TENSOR *x,
                                                          int64_t batch, int64_t head, int64_t row,
                                                          int64_t rows)
{
    const int64_t columns = asc_min_of(f->d, NEIGHBORHOOD_PIECE);
    const int64_t fit =
        f->d ? NEIGHBORHOOD_PIECE / asc_round_up(columns, 32 / (int64_t)sizeof(ASC_T)) : 0;
    const int64_t most = x->of.row >= f->d && fit > 1 ? fit : 1; /* a gap is not below 0 */
    for (int64_t r = 0; r < rows; r += most)
        for (int64_t c = 0; c < f->d; c += columns)
            ASC_NAME(neighborhood_look_at)
    (u, x->at + flash_at(x->of, batch, row + r, head) + c, asc_min_of(most, rows - r),
     asc_min_of(columns, f->d - c), x->of.row);
}
