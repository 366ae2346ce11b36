/* flash_attention_sums.asc.h - these kernels of one type; see asc_each_type.h. */

/* Rows of x come in, `pitch` apart in UB. */
static inline __aicore__ void ASC_NAME(flash_rows_in)(uint64_t to, __gm__ ASC_T *x, int64_t rows,
                                                      int64_t d, int64_t stride, int64_t pitch)
{
    const int64_t size = (int64_t)sizeof(ASC_T);
    asc_copy_rows_in(to, x, rows, d * size, stride * size, pitch * size);
}

/* sums[r] = the sum of row r of left times right, `pitch` apart; left and right are used up. */
static inline __aicore__ void ASC_NAME(flash_sum_rows)(__ubuf__ float *sums, __ubuf__ float *left,
                                                       __ubuf__ float *right, int64_t rows,
                                                       int64_t pitch)
{
    asc_mul(left, left, right, (uint32_t)(rows * pitch));
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    ASC_THEN();
    for (int64_t c = ASC_LANES; c < pitch; c += ASC_LANES) {
        asc_add(left, left, left + c, (uint8_t)rows, 1, 1, 1, (uint8_t)(pitch / 8),
                (uint8_t)(pitch / 8), (uint8_t)(pitch / 8));
        ASC_THEN();
    }
    asc_repeat_reduce_sum(sums, left, (uint8_t)rows, 1, 1, (uint16_t)(pitch / 8));
}

ASC_KERNEL ASC_NAME(flash_attention_delta)(ASC_PARAMS(FLASH_ATTENTION_DELTA))
{
    const int64_t pitch = asc_round_up(d, ASC_LANES), most = asc_min_of(tile_floats / pitch, 64);
    const int64_t tiles = (queries + most - 1) / most;
    const flash_strides of_dy = FLASH_STRIDES(dy), of_y = FLASH_STRIDES(y);
    const uint32_t words = (uint32_t)(tile_floats * (int64_t)sizeof(ASC_T) / 2);
    int slot = 0;
    asc_modes_set();
    for (int i = 0; i < 2; i++) { /* what lies behind the columns */
        asc_duplicate(ASC_UB(uint16_t, dy_at, i), (uint16_t)0, words);
        asc_duplicate(ASC_UB(uint16_t, y_at, i), (uint16_t)0, words);
    }
    ASC_THEN();
    ASC_BUFFERS(asc_sync_notify, PIPE_V);
    for (int64_t task = asc_get_block_idx(); task < batches * heads * tiles;
         task += asc_get_block_num(), slot ^= 1) {
        const int64_t row = task % tiles * most, head = task / tiles;
        const int64_t rows = asc_min_of(most, queries - row);
        ASC_MAY_FILL(slot);
        ASC_NAME(flash_rows_in)
        (asc_place(dy_at, slot), dy + flash_at(of_dy, head / heads, row, head % heads), rows, d,
         of_dy.row, pitch);
        ASC_NAME(flash_rows_in)
        (asc_place(y_at, slot), y + flash_at(of_y, head / heads, row, head % heads), rows, d,
         of_y.row, pitch);
        ASC_HAS_FILLED(slot);
        __ubuf__ float *sums = ASC_UB(float, sums_at, slot);
#if ASC_16BIT
        __ubuf__ float *left = ASC_SCRATCH(left), *right = ASC_SCRATCH(right);
        ASC_WIDEN(left, ASC_UB(ASC_T, dy_at, slot), (uint32_t)(rows * pitch));
        ASC_WIDEN(right, ASC_UB(ASC_T, y_at, slot), (uint32_t)(rows * pitch));
#else
        __ubuf__ float *left = ASC_UB(float, dy_at, slot), *right = ASC_UB(float, y_at, slot);
#endif
        ASC_MAY_WRITE(slot);
        ASC_THEN();
        ASC_NAME(flash_sum_rows)(sums, left, right, rows, pitch);
        ASC_HAS_READ(slot);
        ASC_HAS_WRITTEN(slot);
        asc_copy_ub2gm_align(delta + head * queries + row, sums, (uint32_t)(4 * rows));
        ASC_HAS_LEFT(slot);
        ASC_THEN();
    }
    asc_pipeline_end();
}

/* The next core that has made a part of queries from `row` on, or of keys, after the core `last`;
 * -1: there is none. */
static inline __aicore__ int64_t ASC_NAME(flash_next_core)(const flash_units *u, int64_t head,
                                                           int64_t row, int64_t of_keys,
                                                           int64_t last)
{
    int64_t before = 0;
    for (int64_t tile = 0; tile < u->tiles; tile++) {
        const int64_t units = flash_units_of_tile(u, tile), chunk = row / u->chunk;
        if (of_keys && tile == row / u->tile) {
            const int64_t first = flash_core_of(u, head * u->each + before);
            const int64_t end = flash_core_of(u, head * u->each + before + units - 1);
            return last < first ? first : last < end ? last + 1 : -1;
        }
        if (!of_keys && flash_first_chunk(u, tile) <= chunk && flash_last_chunk(u, tile) >= chunk) {
            const int64_t core = flash_core_of(
                u, flash_unit_at(u, head / u->shared, tile, before, head % u->shared, chunk));
            if (core > last)
                return core;
        }
        before += units;
    }
    return -1;
}

/* The core whose part is the first: of the head of k and v, or of the tile of keys. */
static inline __aicore__ int64_t ASC_NAME(flash_first_core)(const flash_units *u, int64_t head,
                                                            int64_t row, int64_t of_keys)
{
    if (of_keys)
        return ASC_NAME(flash_next_core)(u, head, row, of_keys, -1);
    return u->all ? flash_core_of(u, head / u->shared * u->each) : 0;
}

ASC_KERNEL ASC_NAME(flash_attention_add)(ASC_PARAMS(FLASH_ATTENTION_ADD))
{
    const int64_t pitch = asc_round_up(d, ASC_LANES);
    const int64_t heads = of_keys ? key_heads : key_heads * shared;
    const int64_t all_rows = of_keys ? all_keys : queries;
    const flash_units u = flash_units_of(batches * key_heads, shared, queries, all_keys, lo, hi,
                                         2 * core_rows, keys, cores);
    const int64_t whole = of_keys ? u.tile : u.chunk;
    const int64_t most = asc_min_of(tile_floats / pitch, whole);
    const int64_t tiles = (whole + most - 1) / most;
    const int64_t groups = (all_rows + whole - 1) / whole;
    const flash_strides of_to = FLASH_STRIDES(to);
    int slot = 0, out = 0;
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); task < batches * heads * groups * tiles;
         task += asc_get_block_num()) {
        const int64_t head = task / (groups * tiles), in_group = task % tiles * most;
        const int64_t row = task / tiles % groups * whole + in_group;
        const int64_t rows = asc_min_of(asc_min_of(most, whole - in_group), all_rows - row);
        if (rows <= 0)
            continue;
        const uint32_t n = (uint32_t)(rows * pitch);
        __ubuf__ float *sum = ASC_SCRATCH(sum);
        const int64_t first = ASC_NAME(flash_first_core)(&u, head, row, of_keys);
        asc_duplicate(sum, 0.0f, n);
        ASC_THEN();
        for (int64_t core = -1;
             (core = ASC_NAME(flash_next_core)(&u, head, row, of_keys, core)) >= 0; slot ^= 1) {
            __ubuf__ float *part = ASC_UB(float, part_at, slot);
            ASC_MAY_FILL(slot);
            asc_copy_gm2ub_align(
                part, parts + (((core - first) * batches * heads + head) * all_rows + row) * pitch,
                1, 4 * n, 0, 0, 0, 0);
            ASC_HAS_FILLED(slot);
            asc_add(sum, sum, part, n);
            ASC_THEN();
            ASC_HAS_READ(slot);
        }
        ASC_MAY_WRITE(out);
#if ASC_16BIT
        asc_mul_scalar(sum, sum, asc_f32(scale), n);
        ASC_THEN();
        ASC_NARROW(ASC_UB(ASC_T, to_at, out), sum, n);
#else
        asc_mul_scalar(ASC_UB(float, to_at, out), sum, asc_f32(scale), n);
#endif
        ASC_HAS_WRITTEN(out);
        asc_copy_rows_out(to + flash_at(of_to, head / heads, row, head % heads),
                          asc_place(to_at, out), rows, d * (int64_t)sizeof(ASC_T),
                          of_to.row * (int64_t)sizeof(ASC_T), pitch * (int64_t)sizeof(ASC_T));
        ASC_HAS_LEFT(out);
        ASC_THEN();
        out ^= 1;
    }
    asc_pipeline_end();
}
