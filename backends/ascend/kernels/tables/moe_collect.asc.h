/* moe_collect.asc.h - sums of the rows of each token's slots, and their products with a token's
 * row; of one type, see asc_each_type.h. */

/* Places and weights of a tile of tokens, for the scalar unit. */
static inline __aicore__ void ASC_NAME(moe_places_in)(asc_tile tile, int side,
                                                      ASC_PARAMS(MOE_COLLECT))
{
    const int64_t count = tile.rows * top_k;
    ASC_WAIT(PIPE_S, PIPE_MTE2, side);
    if (count)
        moe_ask(place + tile.row * top_k, count, place_at, side);
    if (weights && count)
        asc_copy_gm2ub_align(ASC_UB(float, weight_at, side), weights + tile.row * top_k,
                             (uint32_t)count * 4);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, side);
}

/* sum += the rows of slot k of each of the tile's tokens; turn: of the buffer they come to. */
static inline __aicore__ void ASC_NAME(moe_add)(__ubuf__ float *sum, int64_t k, asc_tile tile,
                                                int side, int turn, ASC_PARAMS(MOE_COLLECT))
{
    const __ubuf__ int64_t *from = ASC_UB(int64_t, place_at, side) + k;
    const __ubuf__ float *weight = ASC_UB(float, weight_at, side) + k;
    const int64_t size = sizeof(ASC_T), pitch = asc_pitch(tile, size);
    ASC_MAY_FILL(turn);
    for (int64_t i = 0; i < tile.rows; i++)
        if (from[i * top_k] >= 0)
            asc_copy_rows_in(asc_place(x_at, turn) + (uint64_t)(i * pitch * size),
                             x + from[i * top_k] * x_stride + tile.column, 1, tile.columns * size,
                             0, pitch * size);
    ASC_HAS_FILLED(turn);
#if ASC_16BIT
    __ubuf__ float *rows = ASC_SCRATCH(x32);
    ASC_WIDEN(rows, ASC_UB(ASC_T, x_at, turn), (uint32_t)(tile.rows * pitch));
    ASC_THEN();
    ASC_HAS_READ(turn);
#else
    __ubuf__ float *rows = ASC_UB(float, x_at, turn);
#endif
    for (int64_t i = 0; i < tile.rows; i++) {
        __ubuf__ float *to = sum + i * pitch, *row = rows + i * pitch;
        if (from[i * top_k] >= 0 && weights)
            asc_axpy(to, row, weight[i * top_k], (uint32_t)pitch);
        else if (from[i * top_k] >= 0)
            asc_add(to, to, row, (uint32_t)pitch);
    }
    ASC_THEN();
#if !ASC_16BIT
    ASC_HAS_READ(turn);
#endif
}

/* sum = the addend of the tile's tokens. */
static inline __aicore__ void ASC_NAME(moe_begin_with)(__ubuf__ float *sum, asc_tile tile, int turn,
                                                       ASC_PARAMS(MOE_COLLECT))
{
    const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
    ASC_MAY_FILL(turn);
    ASC_LOAD(ASC_T, x_at, turn, addend, addend_stride, tile);
    ASC_HAS_FILLED(turn);
#if ASC_16BIT
    ASC_WIDEN(sum, ASC_UB(ASC_T, x_at, turn), n);
#else
    asc_mul_scalar(sum, ASC_UB(float, x_at, turn), 1.0f, n);
#endif
    ASC_HAS_READ(turn);
}

ASC_KERNEL ASC_NAME(moe_collect)(ASC_PARAMS(MOE_COLLECT))
{
    const asc_grid grid = asc_grid_of(tokens, columns, tile_rows, tile_columns);
    const int64_t first = asc_get_block_idx(), step = asc_get_block_num();
    int side = 0, turn = 0;
    asc_clear_begin();
    MOE_CLEAR(x, 2, asc_round_up(tile_columns, 32 / (int64_t)sizeof(ASC_T)), sizeof(ASC_T));
    asc_sync();
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    ASC_NAME(moe_places_in)(asc_tile_at(grid, first), side, ASC_NAMES(MOE_COLLECT));
    for (int64_t task = first; task < grid.tasks; task += step, side ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
#if ASC_16BIT
        __ubuf__ float *sum = ASC_SCRATCH(sum32);
#else
        __ubuf__ float *sum = ASC_UB(float, out_at, side);
        ASC_MAY_WRITE(side);
#endif
        if (task + step < grid.tasks)
            ASC_NAME(moe_places_in)
        (asc_tile_at(grid, task + step), side ^ 1, ASC_NAMES(MOE_COLLECT));
        if (addend)
            ASC_NAME(moe_begin_with)(sum, tile, turn, ASC_NAMES(MOE_COLLECT));
        else
            asc_duplicate(sum, 0.0f, n);
        turn ^= addend != 0;
        ASC_THEN();
        ASC_WAIT(PIPE_MTE2, PIPE_S, side);
        for (int64_t k = 0; k < top_k; k++, turn ^= 1)
            ASC_NAME(moe_add)(sum, k, tile, side, turn, ASC_NAMES(MOE_COLLECT));
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
#if ASC_16BIT
        ASC_MAY_WRITE(side);
        ASC_NARROW(ASC_UB(ASC_T, out_at, side), sum, n);
        ASC_THEN();
#endif
        ASC_HAS_WRITTEN(side);
        ASC_STORE(ASC_T, out, out_stride, tile, out_at, side);
        ASC_HAS_LEFT(side);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
}

/* ---- products ---- */

/* part = the products of the rows of a tile of slots, in some of their columns. */
static inline __aicore__ void ASC_NAME(moe_multiply)(const __ubuf__ int64_t *from, asc_tile tile,
                                                     int turn, ASC_PARAMS(MOE_DOTS))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(tile.columns, ASC_LANES);
    const int64_t token = tile.row / top_k;
    asc_tile own = tile; /* the rows of dy */
    own.row = token;
    own.rows = (tile.row + tile.rows - 1) / top_k - token + 1;
    ASC_MAY_FILL(turn);
    for (int64_t i = 0; i < tile.rows; i++)
        if (from[i] >= 0)
            asc_copy_rows_in(asc_place(x_at, turn) + (uint64_t)(i * pitch * size),
                             x + from[i] * x_stride + tile.column, 1, tile.columns * size, 0,
                             pitch * size);
    ASC_ROWS_IN(ASC_T, dy_at, turn, dy, dy_stride, own, pitch);
    ASC_HAS_FILLED(turn);
    __ubuf__ float *p = ASC_SCRATCH(p);
#if ASC_16BIT
    __ubuf__ float *rows = p, *by = ASC_SCRATCH(dy32);
    ASC_WIDEN(rows, ASC_UB(ASC_T, x_at, turn), (uint32_t)(tile.rows * pitch));
    ASC_WIDEN(by, ASC_UB(ASC_T, dy_at, turn), (uint32_t)(own.rows * pitch));
    ASC_THEN();
    ASC_HAS_READ(turn);
#else
    __ubuf__ float *rows = ASC_UB(float, x_at, turn), *by = ASC_UB(float, dy_at, turn);
#endif
    for (int64_t i = 0; i < tile.rows; i++) {
        const int64_t t = (tile.row + i) / top_k - token;
        if (from[i] < 0)
            asc_duplicate(p + i * pitch, 0.0f, (uint32_t)pitch);
        else
            asc_mul(p + i * pitch, rows + i * pitch, by + t * pitch, (uint32_t)pitch);
    }
    ASC_THEN();
#if !ASC_16BIT
    ASC_HAS_READ(turn);
#endif
    asc_sum_rows(ASC_SCRATCH(part), p, tile.rows, pitch, tile.columns, ASC_SCRATCH(eighth),
                 ASC_SCRATCH(rest));
}

ASC_KERNEL ASC_NAME(moe_dots)(ASC_PARAMS(MOE_DOTS))
{
    const int64_t tiles = (slots + tile_rows - 1) / tile_rows;
    const int64_t first = asc_get_block_idx(), step = asc_get_block_num();
    int side = 0, turn = 0;
    asc_clear_begin();
    MOE_CLEAR(x, 2, asc_round_up(tile_columns, ASC_LANES), sizeof(ASC_T));
    MOE_CLEAR(dy, 2, asc_round_up(tile_columns, ASC_LANES), sizeof(ASC_T));
    asc_sync();
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    for (int64_t task = first - step; task < tiles; task += step, side ^= 1) {
        asc_tile tile;
        if (task + step < tiles) {
            tile.row = (task + step) * tile_rows;
            ASC_WAIT(PIPE_S, PIPE_MTE2, side ^ 1);
            moe_ask(place + tile.row, asc_min_of(tile_rows, slots - tile.row), place_at, side ^ 1);
            ASC_NOTIFY(PIPE_MTE2, PIPE_S, side ^ 1);
        }
        if (task < 0)
            continue;
        tile.row = task * tile_rows;
        tile.rows = asc_min_of(tile_rows, slots - tile.row);
        __ubuf__ float *total = ASC_UB(float, total_at, side);
        ASC_MAY_WRITE(side);
        asc_duplicate(total, 0.0f, (uint32_t)tile.rows);
        ASC_THEN();
        ASC_WAIT(PIPE_MTE2, PIPE_S, side);
        for (int64_t c = 0; c < columns; c += tile_columns, turn ^= 1) {
            tile.column = c;
            tile.columns = asc_min_of(tile_columns, columns - c);
            ASC_NAME(moe_multiply)
            (ASC_UB(int64_t, place_at, side), tile, turn, ASC_NAMES(MOE_DOTS));
            asc_add(total, total, ASC_SCRATCH(part), (uint32_t)tile.rows);
            ASC_THEN();
        }
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
        ASC_HAS_WRITTEN(side);
        asc_copy_ub2gm_align(dweights + tile.row, total, (uint32_t)tile.rows * 4);
        ASC_HAS_LEFT(side);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
}
