/* embedding.asc.h - the kernels of one type; see asc_each_type.h. */

/* No arithmetic: rows come in one by one and leave together. Indices come in a tile ahead, since
 * S waits for them. */
ASC_KERNEL ASC_NAME(embedding_forward)(ASC_PARAMS(EMBEDDING_FORWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t first = asc_get_block_idx(), step = asc_get_block_num();
    int slot = 0;
    asc_init();
    asc_set_copy_pad_val((uint16_t)0);
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_MTE2);
    embedding_ask(indices + asc_tile_at(grid, first).row, asc_tile_at(grid, first).rows, index_at,
                  slot); /* every block has a tile */
    for (int64_t task = first; task < grid.tasks; task += step, slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t bytes = tile.columns * (int64_t)sizeof(ASC_T);
        const int64_t pitch = asc_pitch(tile, sizeof(ASC_T)) * (int64_t)sizeof(ASC_T);
        const __ubuf__ int64_t *index = ASC_UB(int64_t, index_at, slot);
        if (task + step < grid.tasks) {
            const asc_tile next = asc_tile_at(grid, task + step);
            embedding_ask(indices + next.row, next.rows, index_at, slot ^ 1);
        }
        ASC_WAIT(PIPE_MTE2, PIPE_S, slot);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        for (int64_t i = 0; i < tile.rows; i++)
            asc_copy_rows_in(asc_place(rows_at, slot) + (uint64_t)(i * pitch),
                             weight + index[i] * weight_stride + tile.column, 1, bytes, 0, pitch);
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, slot);
        ASC_NOTIFY(PIPE_MTE2, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_MTE3, slot);
        ASC_STORE(ASC_T, y, y_stride, tile, rows_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_MTE2);
}

#define EMBEDDING_ADD ASC_NAME(embedding_add)

/* Adds the rows of dy that `count` records name to their rows in acc. S reads each record once, and
 * keeps its row in eight bits. */
static inline __aicore__ void EMBEDDING_ADD(__ubuf__ float *acc, __gm__ ASC_T *dy, int64_t stride,
                                            embedding_order order, const __ubuf__ uint64_t *records,
                                            int64_t count, asc_tile tile, int64_t piece_at,
                                            int64_t wide_at, int slot)
{
    const int64_t pitch = asc_pitch(tile, sizeof(ASC_T));
    uint64_t rows[8] = {0};
    ASC_MAY_FILL(slot);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t record = records[i];
        rows[i / 8] |= (uint64_t)embedding_row(order, record) << i % 8 * 8;
        asc_copy_rows_in(asc_place(piece_at, slot) + (uint64_t)(i * pitch) * sizeof(ASC_T),
                         dy + embedding_position(record) * stride + tile.column, 1,
                         tile.columns * (int64_t)sizeof(ASC_T), 0, pitch * (int64_t)sizeof(ASC_T));
    }
    ASC_HAS_FILLED(slot);
#if ASC_16BIT
    __ubuf__ float *piece = ASC_UB(float, wide_at, 0);
    ASC_WIDEN(piece, ASC_UB(ASC_T, piece_at, slot), (uint32_t)(count * pitch));
    ASC_HAS_READ(slot);
    ASC_THEN();
#else
    __ubuf__ float *piece = ASC_UB(float, piece_at, slot);
#endif
    uint64_t busy = 0; /* rows that have been added to since the last barrier */
    ASC_COUNTED(pitch);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = (int64_t)(rows[i / 8] >> i % 8 * 8 & 255);
        __ubuf__ float *to = acc + row * pitch;
        if (busy >> row & 1) {
            ASC_THEN();
            busy = 0;
        }
        busy |= (uint64_t)1 << row;
        asc_add(to, to, piece + i * pitch, 1, 1, 1, 1, 8, 8, 8);
    }
    ASC_UNCOUNTED();
#if !ASC_16BIT
    ASC_HAS_READ(slot);
#endif
    ASC_THEN();
}

/* With accumulate: the rows of a tile that its records name come in, and stand in acc, too. Returns
 * which those are. */
static inline __aicore__ uint64_t ASC_NAME(embedding_take)(__ubuf__ float *acc,
                                                           const embedding_chunk *own,
                                                           asc_tile tile, int slot,
                                                           ASC_PARAMS(EMBEDDING_BACKWARD))
{
    const int64_t out_at = size == 4 ? sum_at : dweight_at, pitch = asc_pitch(tile, sizeof(ASC_T));
    const embedding_order order = embedding_order_of(tile_shift, owner_shift, tiles_each);
    uint64_t used = 0;
    for (int64_t i = own->at; i < own->last; i++)
        used |= (uint64_t)1 << embedding_row(order, records[i]);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    embedding_rows(0, dweight, dweight_stride, size, used, tile, asc_place(out_at, slot),
                   pitch * size);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
#if ASC_16BIT
    /* EMBEDDING_ADD has a barrier before it touches acc. */
    for (uint64_t left = size == 4 ? 0 : used; left; left &= left - 1)
        ASC_WIDEN(acc + asc_ffs(left) * pitch, ASC_UB(ASC_T, out_at, slot) + asc_ffs(left) * pitch,
                  (uint32_t)tile.columns);
#else
    (void)acc;
#endif
    return used;
}

/* The rows of a tile leave: all, or with accumulate those in use. */
static inline __aicore__ void ASC_NAME(embedding_leave)(__ubuf__ float *acc, uint64_t used,
                                                        asc_tile tile, int slot,
                                                        ASC_PARAMS(EMBEDDING_BACKWARD))
{
    const int64_t out_at = size == 4 ? sum_at : dweight_at, pitch = asc_pitch(tile, sizeof(ASC_T));
#if ASC_16BIT
    if (size == 2) {
        ASC_NARROW(ASC_UB(ASC_T, out_at, slot), acc, (uint32_t)(tile.rows * pitch));
        ASC_THEN();
    }
#else
    (void)acc;
#endif
    ASC_HAS_WRITTEN(slot);
    if (accumulate)
        embedding_rows(1, dweight, dweight_stride, size, used, tile, asc_place(out_at, slot),
                       pitch * size);
    else
        asc_copy_rows_out(dweight + (tile.row * dweight_stride + tile.column) * size,
                          asc_place(out_at, slot), tile.rows, tile.columns * size,
                          dweight_stride * size, pitch * size);
    ASC_HAS_LEFT(slot);
}

/* A tile of the table: its rows summed up. If an element of dweight is of 4 bytes, acc is where
 * rows leave from; else they leave from `out`. With accumulate, rows in use come in first and leave
 * alone. Records come a chunk ahead, since S waits for them. */
ASC_KERNEL ASC_NAME(embedding_backward)(ASC_PARAMS(EMBEDDING_BACKWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const embedding_order order = embedding_order_of(tile_shift, owner_shift, tiles_each);
    int slot = 0, piece_slot = 0;
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    asc_dcci_entire_all(); /* the scalar unit reads records */
    embedding_bounds of = {bounds, asc_place(bound_at, 0), ASC_UB(int32_t, bound_at, 0), 0};
    embedding_bounds_in(&of, grid, asc_get_block_idx());
    embedding_chunk ahead = embedding_chunk_of(&of, grid, asc_get_block_idx());
    ahead.at -= tile_rows;
    embedding_next(&ahead, &of, grid);
    if (ahead.at < ahead.last)
        embedding_ask(records + ahead.at, asc_min_of(tile_rows, ahead.last - ahead.at), record_at,
                      piece_slot);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        embedding_chunk own = ahead; /* the next one, of this tile if it has any */
        if (own.task != task)
            own.at = own.last;
        if (accumulate && own.at >= own.last)
            continue;
        __ubuf__ float *acc = size == 4 ? ASC_UB(float, sum_at, slot) : ASC_SCRATCH(sum32);
        uint64_t used = ~(uint64_t)0 >> (64 - tile.rows);
        ASC_MAY_WRITE(slot);
        asc_duplicate(acc, 0.0f, (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T))));
        ASC_THEN();
        if (accumulate)
            used = ASC_NAME(embedding_take)(acc, &own, tile, slot, ASC_NAMES(EMBEDDING_BACKWARD));
        for (int64_t at = own.at; at < own.last; at += tile_rows, piece_slot ^= 1) {
            embedding_next(&ahead, &of, grid);
            if (ahead.at < ahead.last)
                embedding_ask(records + ahead.at, asc_min_of(tile_rows, ahead.last - ahead.at),
                              record_at, piece_slot ^ 1);
            ASC_WAIT(PIPE_MTE2, PIPE_S, piece_slot);
            EMBEDDING_ADD(acc, dy, dy_stride, order, ASC_UB(uint64_t, record_at, piece_slot),
                          asc_min_of(tile_rows, own.last - at), tile, dy_at, dy32_at, piece_slot);
            ASC_NOTIFY(PIPE_S, PIPE_MTE2, piece_slot);
        }
        ASC_NAME(embedding_leave)(acc, used, tile, slot, ASC_NAMES(EMBEDDING_BACKWARD));
        slot ^= 1;
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
}

#undef EMBEDDING_ADD
