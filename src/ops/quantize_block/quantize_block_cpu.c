/* quantize_block: x is read once, in tiles of 128 x 128, and stays in the L2 cache as f32 until
 * both results of the tile are written; where scales are those of rows alone, in tiles of 8 x 128,
 * which the first cache holds. Each element and each scale belongs to one tile. Rows of a tile are
 * too short for the processor to see what comes next: each asks for what lies beside it, in the
 * next tile. */
#include "rows/rows.h"
#include "simd_e4m3.h"
#include "simd_lanes.h"

enum { BLOCK = 128, VECTORS = BLOCK / VL, ROWS = 8, LINE = 64 };

typedef struct job {
    el type;
    int stream; /* 0 */
    int square, power_of_two;
    float min_amax;
    int64_t rows, columns, tiles; /* tiles: of a row of them */
    int64_t height;               /* of a tile: BLOCK or ROWS */
    operand x, q, qt;             /* data NULL: not asked for */
    operand scale, scale_t;
} job;

/* Columns and rows beyond the edge are 0. */
typedef struct tile {
    float x[BLOCK][BLOCK];
    float row_inverse[BLOCK], column_inverse[BLOCK];
    vi column_most[VECTORS]; /* bits of the largest |x|: those of NaN are larger than all others */
    int64_t row, column, rows, columns;
} tile;

SIMD_INLINE vi larger(vi a, vi b)
{
    return (vi)v_select(a > b, (vf)a, (vf)b);
}

SIMD_INLINE float amax_of(const job *j, int32_t bits)
{
    float amax;
    memcpy(&amax, &bits, sizeof amax);
    return amax < j->min_amax ? j->min_amax : amax;
}

SIMD_INLINE float scale_of(const job *j, int32_t most)
{
    const float amax = amax_of(j, most);
    float scale = amax == 0 ? 1 : amax / 448;
    scale = scale < 0x1p-126f ? 0x1p-126f : scale;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    if (j->power_of_two && bits < 0x7f800000u) {
        bits = (bits + 0x7fffffu) & 0xff800000u;
        memcpy(&scale, &bits, sizeof scale);
    }
    return scale;
}

SIMD_INLINE float *scale_at(const operand *scales, int64_t block, int64_t at)
{
    return (float *)row_at(scales, block) + at;
}

/* Reads a row; the bits of its largest |x|. */
SIMD_INLINE int32_t read_row(el e, const job *j, tile *t, int64_t r)
{
    const char *x = row_at(&j->x, t->row + r) + t->column * el_size(e);
    for (int64_t byte = 0; byte < BLOCK * el_size(e); byte += LINE)
        v_prefetch(x + BLOCK * el_size(e) + byte);
    vi most = v_seti(0);
    for (int64_t v = 0; v < VECTORS; v++) {
        const int64_t left = t->columns - v * VL;
        const vf a = left >= VL ? v_load(e, x, v * VL)
                     : left > 0 ? v_load_n(e, x, v * VL, left, 0.0f)
                                : v_set(0.0f);
        v_store(EL_F32, t->x[r], v * VL, a);
        most = larger((vi)v_abs(a), most);
        t->column_most[v] = larger((vi)v_abs(a), t->column_most[v]);
    }
    int32_t all = 0;
    for (int i = 0; i < VL; i++)
        all = most[i] > all ? most[i] : all;
    return all;
}

static void write_row(const tile *t, int64_t r, float inverse, char *q)
{
    uint8_t codes[BLOCK];
    for (int64_t v = 0; v < VECTORS; v++)
        *(vb_mem *)(codes + v * VL) =
            v_bytes(v_e4m3_codes(v_load(EL_F32, t->x[r], v * VL) * v_set(inverse)));
    memcpy(q, codes, (size_t)t->columns);
}

/* VL rows of the transpose from column `first` on, by blocks of VL x VL. */
static void write_columns(const job *j, const tile *t, int64_t first)
{
    uint8_t codes[VL][BLOCK];
    const vf inverse = v_load(EL_F32, t->column_inverse, first);
    for (int64_t r = 0; r < t->rows; r += VL) {
        vi block[VL];
        for (int i = 0; i < VL; i++)
            block[i] = (vi)v_e4m3_codes(v_load(EL_F32, t->x[r + i], first) * inverse);
        v_transpose(block);
        for (int i = 0; i < VL; i++)
            *(vb_mem *)(codes[i] + r) = v_bytes((vu)block[i]);
    }
    for (int64_t i = 0; i < VL && first + i < t->columns; i++)
        memcpy(row_at(&j->qt, t->column + first + i) + t->row, codes[i], (size_t)t->rows);
}

/* Reads the tile and writes q, but where all of it has one scale; the bits of its largest |x|. A
 * few rows are read, then written: while some are computed with, no others would come. */
SIMD_INLINE int32_t read_rows(el e, const job *j, tile *t)
{
    int32_t all = 0;
    for (int64_t first = 0; first < t->rows; first += ROWS) {
        const int64_t count = t->rows - first < ROWS ? t->rows - first : ROWS;
        int32_t most[ROWS];
        for (int64_t i = 0; i < count; i++) {
            most[i] = read_row(e, j, t, first + i);
            all = most[i] > all ? most[i] : all;
        }
        if (j->square || !j->q.data)
            continue;
        for (int64_t i = 0; i < count; i++) {
            const int64_t r = first + i;
            const float scale = scale_of(j, most[i]);
            *scale_at(&j->scale, t->column / BLOCK, t->row + r) = scale;
            write_row(t, r, 1 / scale, row_at(&j->q, t->row + r) + t->column);
        }
    }
    return all;
}

static void write_square(const job *j, tile *t, int32_t most)
{
    const float scale = scale_of(j, most);
    if (j->q.data) {
        *scale_at(&j->scale, t->column / BLOCK, t->row / BLOCK) = scale;
        for (int64_t r = 0; r < t->rows; r++)
            write_row(t, r, 1 / scale, row_at(&j->q, t->row + r) + t->column);
    }
    if (j->qt.data)
        *scale_at(&j->scale_t, t->row / BLOCK, t->column / BLOCK) = scale;
    for (int64_t i = 0; i < BLOCK; i++)
        t->column_inverse[i] = 1 / scale;
}

static void column_scales(const job *j, tile *t)
{
    for (int64_t i = 0; i < t->columns; i++) {
        const float scale = scale_of(j, t->column_most[i / VL][i % VL]);
        *scale_at(&j->scale_t, t->row / BLOCK, t->column + i) = scale;
        t->column_inverse[i] = 1 / scale;
    }
}

SIMD_INLINE void one_tile(el e, const job *j, tile *t)
{
    for (int64_t v = 0; v < VECTORS; v++)
        t->column_most[v] = v_seti(0);
    const int32_t most = read_rows(e, j, t);
    if (j->square)
        write_square(j, t, most);
    else if (j->qt.data)
        column_scales(j, t);
    if (!j->qt.data)
        return;
    for (int64_t r = t->rows; r % VL; r++)
        memset(t->x[r], 0, sizeof t->x[r]);
    for (int64_t i = 0; i < t->columns; i += VL)
        write_columns(j, t, i);
}

SIMD_INLINE void some_tiles(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    (void)stream;
    (void)worker;
    tile t;
    memset(t.column_inverse, 0, sizeof t.column_inverse);
    for (int64_t i = begin; i < end; i++) {
        t.row = i / j->tiles * j->height;
        t.column = i % j->tiles * BLOCK;
        t.rows = j->rows - t.row < j->height ? j->rows - t.row : j->height;
        t.columns = j->columns - t.column < BLOCK ? j->columns - t.column : BLOCK;
        one_tile(e, j, &t);
    }
}
ROWS_CHUNK(tiles_chunk, job, some_tiles);

static tg_status run(tg_ctx *ctx, const tg_quantize_block_args *args)
{
    const tg_rows x = tg_rows_of(args->x);
    job j = {.type = el_of(args->x),
             .square = (int)args->square,
             .power_of_two = (int)args->power_of_two,
             .min_amax = (float)args->min_amax,
             .rows = x.rows,
             .columns = x.n,
             .tiles = (x.n + BLOCK - 1) / BLOCK,
             .x = operand_of(args->x),
             .q = operand_of(args->q),
             .qt = operand_of(args->qt),
             .scale = operand_of(args->scale),
             .scale_t = operand_of(args->scale_t)};
    j.height = j.square || j.qt.data ? BLOCK : ROWS;
    tg_parallel_for(ctx, (x.rows + j.height - 1) / j.height * j.tiles, 1, tiles_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(quantize_block) = {TG_CPU_IMPL(quantize_block, run), TG_IMPLS_END};
