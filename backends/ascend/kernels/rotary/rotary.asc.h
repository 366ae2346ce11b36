/* rotary.asc.h - the kernels of one type; see asc_each_type.h. */

/* A table of a tile, as f32: where it was copied to, or in `wide`. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ __ubuf__ float *ASC_NAME(rotary_angles)(__ubuf__ float *wide, uint64_t in,
                                                                 int64_t is_f32, int64_t n)
{
#if ASC_16BIT
    if (!is_f32) {
        ASC_WIDEN(wide, (__ubuf__ ASC_T *)in, (uint32_t)n);
        return wide;
    }
#endif
    (void)wide;
    (void)is_f32;
    (void)n;
    return (__ubuf__ float *)in;
}

#if ASC_16BIT
#define ROTARY_TAKE(slot, n)                                     \
    __ubuf__ float *a = ASC_SCRATCH(x32), *b = ASC_SCRATCH(y32); \
    ASC_WIDEN(a, ASC_UB(ASC_T, x_at, slot), (uint32_t)(n))
#define ROTARY_GIVE(slot, n) ASC_NARROW(ASC_UB(ASC_T, y_at, slot), b, (uint32_t)(n))
#else
#define ROTARY_TAKE(slot, n) \
    __ubuf__ float *a = ASC_UB(float, x_at, slot), *b = ASC_UB(float, y_at, slot)
#define ROTARY_GIVE(slot, n) (void)(n)
#endif

ASC_KERNEL ASC_NAME(rotary_halves)(ASC_PARAMS(ROTARY_HALVES))
{
    const int64_t size = sizeof(ASC_T), widest = asc_round_up(tile_columns, 16);
    const int64_t most = planes * tile_positions * widest;
    __ubuf__ float *plus = ASC_SCRATCH(plus), *minus = ASC_SCRATCH(minus);
    ROTARY_BEGIN(2);
    asc_clear_begin();
    asc_clear(cos_at, most * 4);
    asc_clear(sin_at, most * 4);
#if ASC_16BIT /* what the columns leave of a pitch is narrowed as well */
    asc_duplicate(ASC_SCRATCH(y32), 0.0f, (uint32_t)(tile_rows * widest));
#endif
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const rotary_tile t = rotary_tile_at(&grid, task);
        const int64_t n = rotary_elements(&t), plane = t.positions * t.pitch;
        ASC_MAY_FILL(slot);
        rotary_in(asc_place(x_at, slot), (__gm__ char *)x, size, t, from);
        for (int64_t i = 0; i < planes; i++) {
            const int64_t at = i * plane * (table_f32 ? 4 : size);
            rotary_angles_in(asc_place(cos_at, slot) + (uint64_t)at, cos, table_f32, size,
                             i * cos_plane + t.batch * cos_batch, cos_position, &t, t.pitch);
            rotary_angles_in(asc_place(sin_at, slot) + (uint64_t)at, sin, table_f32, size,
                             i * sin_plane + t.batch * sin_batch, sin_position, &t, t.pitch);
        }
        ASC_HAS_FILLED(slot);
        ASC_MAY_WRITE(slot);
        ROTARY_TAKE(slot, n);
        __ubuf__ float *c = ASC_NAME(rotary_angles)(ASC_SCRATCH(cos32), asc_place(cos_at, slot),
                                                    table_f32, planes * plane);
        __ubuf__ float *s = ASC_NAME(rotary_angles)(ASC_SCRATCH(sin32), asc_place(sin_at, slot),
                                                    table_f32, planes * plane);
        ASC_THEN();
        for (int64_t i = 1; i < planes; i++) {
            const int64_t first = i == 1 ? second : third;
            const int64_t end = asc_min_of(i == 1 ? third : columns, t.column + t.columns);
            rotary_take_plane(c, c + i * plane, first, end, t.column, t.positions, t.pitch);
            rotary_take_plane(s, s + i * plane, first, end, t.column, t.positions, t.pitch);
            ASC_THEN();
        }
        asc_mul_scalar(plus, s, asc_f32(direction), (uint32_t)plane);
        asc_mul_scalar(minus, s, -asc_f32(direction), (uint32_t)plane);
        rotary_turn_halves(b, a, c, plus, minus, &t, t.pitch);
        ASC_HAS_READ(slot);
        ROTARY_GIVE(slot, n);
        ASC_HAS_WRITTEN(slot);
        rotary_out((__gm__ char *)y, asc_place(y_at, slot), size, t, to);
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

/* What rotary_moved() clears once, and the places that elements are moved from. */
static inline __aicore__ void ASC_NAME(rotary_moved_begin)(int64_t pitch, ASC_PARAMS(ROTARY_MOVED))
{
    const int64_t all = tile_rows * pitch;
    asc_clear_begin();
    asc_clear(x_at, all * (int64_t)sizeof(ASC_T));
    asc_clear(cos_at, tile_positions * pitch * 4);
    asc_clear(sin_at, tile_positions * pitch * 4);
#if ASC_16BIT
    asc_duplicate(ASC_SCRATCH(y32), 0.0f, (uint32_t)all);
#endif
    asc_duplicate(ASC_SCRATCH(moved), 0.0f, (uint32_t)all);
    if (from_neighbours)
        asc_offsets_to_halves(ASC_UB(int32_t, to_halves_at, 0), pitch, all);
    if (to_neighbours)
        asc_offsets_to_pairs(ASC_UB(int32_t, to_pairs_at, 0), pitch, all);
}

/* Elements are moved to halves before they are turned, to neighbours after. */
ASC_KERNEL ASC_NAME(rotary_moved)(ASC_PARAMS(ROTARY_MOVED))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(tile_columns, 16);
    __ubuf__ float *plus = ASC_SCRATCH(plus), *minus = ASC_SCRATCH(minus);
    __ubuf__ float *moved = ASC_SCRATCH(moved);
    __ubuf__ int32_t *to_halves = ASC_UB(int32_t, to_halves_at, 0);
    __ubuf__ int32_t *to_pairs = ASC_UB(int32_t, to_pairs_at, 0);
    ROTARY_BEGIN(2);
    ASC_NAME(rotary_moved_begin)(pitch, ASC_NAMES(ROTARY_MOVED));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        rotary_tile t = rotary_tile_at(&grid, task);
        t.pitch = pitch; /* as the offsets have it */
        const int64_t n = rotary_elements(&t), angles = t.positions * pitch;
        ASC_MAY_FILL(slot);
        rotary_in(asc_place(x_at, slot), (__gm__ char *)x, size, rotary_side(t, from_neighbours),
                  from);
        rotary_angles_in(asc_place(cos_at, slot), cos, table_f32, size, t.batch * cos_batch,
                         cos_position, &t, pitch);
        rotary_angles_in(asc_place(sin_at, slot), sin, table_f32, size, t.batch * sin_batch,
                         sin_position, &t, pitch);
        ASC_HAS_FILLED(slot);
        ASC_MAY_WRITE(slot);
        ROTARY_TAKE(slot, n);
        __ubuf__ float *c =
            ASC_NAME(rotary_angles)(ASC_SCRATCH(cos32), asc_place(cos_at, slot), table_f32, angles);
        __ubuf__ float *s =
            ASC_NAME(rotary_angles)(ASC_SCRATCH(sin32), asc_place(sin_at, slot), table_f32, angles);
        ASC_THEN();
        __ubuf__ float *turned = !to_neighbours ? b : from_neighbours ? a : moved;
        if (from_neighbours)
            asc_gather(moved, a, (__ubuf__ uint32_t *)to_halves, (uint32_t)n);
        asc_mul_scalar(plus, s, asc_f32(direction), (uint32_t)angles);
        asc_mul_scalar(minus, s, -asc_f32(direction), (uint32_t)angles);
        ASC_THEN();
        rotary_turn_halves(turned, from_neighbours ? moved : a, c, plus, minus, &t, pitch);
        if (to_neighbours) {
            asc_gather(b, turned, (__ubuf__ uint32_t *)to_pairs, (uint32_t)n);
            ASC_THEN();
        }
        ASC_HAS_READ(slot);
        ROTARY_GIVE(slot, n);
        ASC_HAS_WRITTEN(slot);
        rotary_out((__gm__ char *)y, asc_place(y_at, slot), size, rotary_side(t, to_neighbours),
                   to);
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(rotary_pairs)(ASC_PARAMS(ROTARY_PAIRS))
{
    const int64_t size = sizeof(ASC_T), widest = asc_round_up(tile_columns, 16);
    const int64_t most = asc_round_up(tile_positions * widest, ASC_LANES);
    const int64_t tile = tile_positions * tile_heads * widest;
    __ubuf__ float *real = ASC_SCRATCH(real), *imaginary = ASC_SCRATCH(imaginary);
    __ubuf__ float *swapped = ASC_SCRATCH(swapped);
    __ubuf__ int32_t *swap = ASC_UB(int32_t, swap_at, 0);
    ROTARY_BEGIN(1);
    asc_clear_begin();
    asc_clear(x_at, tile * size);
    asc_clear(freqs_at, most * 4);
#if ASC_16BIT
    asc_duplicate(ASC_SCRATCH(freqs32), 0.0f, (uint32_t)most);
    asc_duplicate(ASC_SCRATCH(y32), 0.0f, (uint32_t)tile);
#endif
    asc_duplicate(real, 0.0f, (uint32_t)most);
    rotary_offsets(swap, tile);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const rotary_tile t = rotary_tile_at(&grid, task);
        const int64_t n = rotary_elements(&t), angles = t.positions * t.pitch;
        ASC_MAY_FILL(slot);
        rotary_in(asc_place(x_at, slot), (__gm__ char *)x, size, t, from);
        rotary_angles_in(asc_place(freqs_at, slot), freqs, table_f32, size, t.batch * freqs_batch,
                         freqs_position, &t, t.pitch);
        ASC_HAS_FILLED(slot);
        ASC_MAY_WRITE(slot);
        ROTARY_TAKE(slot, n);
        __ubuf__ float *w = ASC_NAME(rotary_angles)(ASC_SCRATCH(freqs32), asc_place(freqs_at, slot),
                                                    table_f32, angles);
        ASC_THEN();
        asc_gather(swapped, a, (__ubuf__ uint32_t *)swap, (uint32_t)n);
        rotary_split(real, imaginary, w, swap, asc_f32(direction), angles);
        rotary_turn_pairs(b, a, swapped, real, imaginary, &t, t.pitch);
        ASC_HAS_READ(slot);
        ROTARY_GIVE(slot, n);
        ASC_HAS_WRITTEN(slot);
        rotary_out((__gm__ char *)y, asc_place(y_at, slot), size, t, to);
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(rotary_copy)(ASC_PARAMS(ROTARY_COPY))
{
    ROTARY_BEGIN(1);
    asc_modes_set();
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_MTE2);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const rotary_tile t = rotary_tile_at(&grid, task);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        rotary_in(asc_place(x_at, slot), (__gm__ char *)x, sizeof(ASC_T), t, from);
        ASC_NOTIFY(PIPE_MTE2, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_MTE3, slot);
        rotary_out((__gm__ char *)y, asc_place(x_at, slot), sizeof(ASC_T), t, to);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_MTE2);
    asc_modes_clear();
}

#undef ROTARY_TAKE
#undef ROTARY_GIVE
