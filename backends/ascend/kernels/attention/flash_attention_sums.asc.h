/* flash_attention_sums.asc.h - these kernels of one type; see asc_each_type.h. */
#include "flash_attention_sinks.asc.h"

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

/* The next core after the core `last` that has made a part of queries from `row` of the sequence on
 * that see a key, or of keys that are seen; -1: there is none. */
static inline __aicore__ int64_t ASC_NAME(flash_next_core)(const flash_units *u, int64_t head,
                                                           int64_t row, int64_t of_keys,
                                                           int64_t last)
{
    int64_t before = 0;
    for (int64_t tile = 0; tile < u->tiles; tile++) {
        const int64_t units = flash_units_of_tile(u, tile), chunk = row / u->chunk;
        if (of_keys && tile == row / u->tile) {
            /* the first unit whose number is of a core behind the last one */
            const int64_t left = (last + 1) * u->all / u->cores - flash_number_of(u, head, before);
            const int64_t unit = left > 0 ? (left + u->weight - 1) / u->weight : 0;
            return unit < units ? flash_core_of(u, flash_number_of(u, head, before + unit)) : -1;
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
    return flash_core_of(u, flash_number_of(u, head / u->shared, 0));
}

/* Rows of a sequence in pieces: first those that have no part, then those of its units. */
typedef struct ASC_NAME(flash_pieces) {
    int64_t from, seeing, to, whole, most; /* whole: rows of a unit; most: of a piece */
} ASC_NAME(flash_pieces);

static inline __aicore__ ASC_NAME(flash_pieces)
    ASC_NAME(flash_pieces_of)(const flash_problem *f, const flash_units *u, int64_t of_keys,
                              int64_t most)
{
    const flash_sequence s = flash_sequence_at(f, u->sequence);
    ASC_NAME(flash_pieces) p;
    p.from = of_keys ? s.key : s.query;
    p.seeing = of_keys ? u->of.key : u->of.query;
    p.to = of_keys ? s.key_end : s.query_end;
    p.whole = of_keys ? u->tile : u->chunk;
    p.most = asc_min_of(most, p.whole);
    return p;
}

static inline __aicore__ int64_t ASC_NAME(flash_number_of_pieces)(const ASC_NAME(flash_pieces) * p)
{
    const int64_t of_unit = (p->whole + p->most - 1) / p->most, seeing = p->to - p->seeing;
    return (p->seeing - p->from + p->most - 1) / p->most + seeing / p->whole * of_unit +
           (seeing % p->whole + p->most - 1) / p->most;
}

/* The first row of a piece, and how many it has. */
static inline __aicore__ int64_t ASC_NAME(flash_piece_at)(const ASC_NAME(flash_pieces) * p,
                                                          int64_t piece, int64_t *rows)
{
    const int64_t of_unit = (p->whole + p->most - 1) / p->most;
    const int64_t unseen = (p->seeing - p->from + p->most - 1) / p->most, rest = piece - unseen;
    const int64_t unit = p->seeing + rest / of_unit * p->whole, in_unit = rest % of_unit * p->most;
    const int64_t row = rest < 0 ? p->from + piece * p->most : unit + in_unit;
    const int64_t end = rest < 0 ? p->seeing : asc_min_of(unit + p->whole, p->to);
    *rows = asc_min_of(p->most, end - row);
    return row;
}

/* sum = the sum of a piece's parts, of rows from `row` on, in their order. */
static inline __aicore__ void ASC_NAME(flash_sum_parts)(const flash_problem *f,
                                                        const flash_units *u, __gm__ float *parts,
                                                        __ubuf__ float *sum, int64_t part_at,
                                                        int *slot, int64_t of_keys, int64_t head,
                                                        int64_t row, int64_t rows)
{
    const int64_t heads = of_keys ? u->heads : u->heads * u->shared;
    const int64_t all = of_keys ? f->keys : f->queries;
    const int64_t in_units = row - (of_keys ? u->of.key : u->of.query);
    const int64_t of_head = (u->of.batch * heads + head) * all + row;
    const uint32_t n = (uint32_t)(rows * f->pitch);
    asc_duplicate(sum, 0.0f, n);
    ASC_THEN();
    if (in_units < 0)
        return;
    const int64_t first = ASC_NAME(flash_first_core)(u, head, in_units, of_keys);
    for (int64_t core = -1;
         (core = ASC_NAME(flash_next_core)(u, head, in_units, of_keys, core)) >= 0; *slot ^= 1) {
        __ubuf__ float *part = ASC_UB(float, part_at, *slot);
        ASC_MAY_FILL(*slot);
        asc_copy_gm2ub_align(
            part, parts + ((core - first) * f->batches * heads * all + of_head) * f->pitch, 1,
            4 * n, 0, 0, 0, 0);
        ASC_HAS_FILLED(*slot);
        asc_add(sum, sum, part, n);
        ASC_THEN();
        ASC_HAS_READ(*slot);
    }
}

ASC_KERNEL ASC_NAME(flash_attention_add)(ASC_PARAMS(FLASH_ATTENTION_ADD))
{
    flash_problem f;
    FLASH_PROBLEM_ROWS(f);
    flash_units u = flash_units_begin(&f, cores);
    const int64_t heads = of_keys ? u.heads : f.heads, size = (int64_t)sizeof(ASC_T);
    const flash_strides of_to = FLASH_STRIDES(to);
    int64_t before = 0; /* tasks of earlier sequences */
    int slot = 0, out = 0;
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); u.sequence < f.sequences;) {
        const ASC_NAME(flash_pieces) p =
            ASC_NAME(flash_pieces_of)(&f, &u, of_keys, tile_floats / f.pitch);
        const int64_t pieces = ASC_NAME(flash_number_of_pieces)(&p);
        if (task >= before + heads * pieces) {
            before += heads * pieces;
            flash_units_on(&f, &u);
            continue;
        }
        int64_t rows;
        const int64_t head = (task - before) / pieces;
        const int64_t row = ASC_NAME(flash_piece_at)(&p, (task - before) % pieces, &rows);
        const uint32_t n = (uint32_t)(rows * f.pitch);
        __ubuf__ float *sum = ASC_SCRATCH(sum);
        ASC_NAME(flash_sum_parts)(&f, &u, parts, sum, part_at, &slot, of_keys, head, row, rows);
        ASC_MAY_WRITE(out);
#if ASC_16BIT
        asc_mul_scalar(sum, sum, asc_f32(scale), n);
        ASC_THEN();
        ASC_NARROW(ASC_UB(ASC_T, to_at, out), sum, n);
#else
        asc_mul_scalar(ASC_UB(float, to_at, out), sum, asc_f32(scale), n);
#endif
        ASC_HAS_WRITTEN(out);
        asc_copy_rows_out(to + flash_at(of_to, u.of.batch, row, head), asc_place(to_at, out), rows,
                          d * size, of_to.row * size, f.pitch * size);
        ASC_HAS_LEFT(out);
        ASC_THEN();
        out ^= 1;
        task += asc_get_block_num();
    }
    asc_pipeline_end();
}
