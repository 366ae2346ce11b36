/* src/gemm/gemm_tiles_compute.c - the products of packed panels, and their results. */
#include "gemm_tiles.h"

/* Sums of two panels, results (i, j) to (i + PANEL, j + PANEL) of the step, as tiles: two of
 * columns for the first rows, two for the others. Rows before `row` are written. */
typedef struct block {
    float sums[SUMS] __attribute__((aligned(LINE)));
    int64_t i, j, row;
} block;

/* The first SIDE sums of row r; those of the next SIDE columns are SUMS / 4 further on. */
SIMD_INLINE const float *row_of_sums(const block *b, int64_t r)
{
    return b->sums + (r / SIDE * 2 * SIDE + r % SIDE) * SIDE;
}

/* to = from + alpha * sums in the first `cols` columns of row r. */
SIMD_INLINE void write_row(el e, const task *t, const block *b, int64_t cols, int64_t r)
{
    const float *sums = row_of_sums(b, r);
    const vf alpha = v_set(t->g->whole.alpha);
    char *to = at(&t->to, b->i + r, b->j);
    for (int64_t v = 0; v * SIDE < cols; v++) {
        const int64_t n = min64(cols - v * SIDE, SIDE);
        vf x = alpha * v_load(EL_F32, sums, v * SUMS / 4);
        if (t->from.data)
            x += addend_at(&t->from, at(&t->from, b->i + r, b->j), v * SIDE, n);
        if (n == SIDE)
            v_store(e, to, v * SIDE, x);
        else
            v_store_n(e, to, v * SIDE, n, x);
    }
}

/* Rows to `end` of all columns, to which nothing is added. `stream`, a
 * constant: past the caches. */
SIMD_INLINE void write_whole_rows(el e, int stream, const task *t, block *b, int64_t end)
{
    const vf alpha = v_set(t->g->whole.alpha);
    char *to = at(&t->to, b->i + b->row, b->j);
    for (; b->row < end; b->row++, to += t->to.ld * el_size(e)) {
        const float *sums = row_of_sums(b, b->row);
        for (int v = 0; v < 2; v++) {
            const vf x = alpha * v_load(EL_F32, sums, v * SUMS / 4);
            if (stream)
                v_stream(e, to, v * SIDE, x);
            else
                v_store(e, to, v * SIDE, x);
        }
    }
}

/* Writes up to `rows` of the rows that are left. */
SIMD_INLINE void write_rows(el e, const task *t, block *b, int64_t rows)
{
    const product *g = t->g;
    const int64_t end = min64(min64(b->row + rows, PANEL), g->mb - b->i), cols = g->nb - b->j;
    if (cols >= PANEL && t->stream)
        write_whole_rows(e, 1, t, b, end);
    else if (cols >= PANEL && rows > 1 && !t->from.data)
        write_whole_rows(e, 0, t, b, end);
    else if (cols >= PANEL)
        for (; b->row < end; b->row++)
            write_row(e, t, b, PANEL, b->row);
    else
        for (; b->row < end; b->row++)
            write_row(e, t, b, cols, b->row);
}

/* Where the tiles of a panel lie: rows of a tile, its two tiles, and those of the next terms are so
 * many bytes apart. */
typedef struct panel {
    const char *at;
    int64_t row, tile, unit;
} panel;

static panel packed_panel(const product *g, const uint16_t *packed, int64_t lane)
{
    const char *at = (const char *)(packed + lane / PANEL * units(g) * UNIT);
    return (panel){at, SIDE * 4, TILE * 2, UNIT * 2};
}

static panel panel_of_a(const product *g, int64_t i)
{
    const int64_t row = g->whole.a.ld * el_size(EL_BF16);
    if (!g->as_it_is)
        return packed_panel(g, g->packed_a, i);
    return (panel){element(&g->whole.a, g->i0 + i, g->p0), row, SIDE * row, TERMS * 2};
}

/* The sums of `b` become panel x of a times panel y of b. Those of the block before are written
 * meanwhile, some rows after each tile, while the matrix unit multiplies. The compiler does not
 * know what memory tiles are loaded from: all of it must be written before. */
SIMD_INLINE void multiply_panels(el e, const task *t, panel x, panel y, int64_t units, block *b,
                                 block *before)
{
    enum { STRIDE = 64, QUARTER = SIDE * SIDE };
    const int64_t rows = ceil_div(PANEL, units);
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t u = 0; u < units; u++, x.at += x.unit, y.at += y.unit) {
        _tile_loadd(4, x.at, x.row);
        _tile_loadd(6, y.at, STRIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, y.at + y.tile, STRIDE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, x.at + x.tile, x.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        if (before->row < PANEL)
            write_rows(e, t, before, rows);
    }
    _tile_stored(0, b->sums, STRIDE);
    _tile_stored(1, b->sums + QUARTER, STRIDE);
    _tile_stored(2, b->sums + 2 * QUARTER, STRIDE);
    _tile_stored(3, b->sums + 3 * QUARTER, STRIDE);
    __asm__ volatile("" ::: "memory");
}

/* Asks for the memory that results are written to. */
SIMD_INLINE void fetch_place(el e, const task *t, int64_t i, int64_t j)
{
    const int64_t rows = min64(t->g->mb - i, PANEL);
    for (int64_t r = 0; r < rows; r++) {
        __builtin_prefetch(at(&t->to, i + r, j), 1);
        if (e == EL_F32)
            __builtin_prefetch(at(&t->to, i + r, j + SIDE), 1);
    }
}

/* Task n begins at (i, j): its strip's columns from left to right, and each column downwards. */
static void place_task(const product *g, int64_t n, int64_t *i, int64_t *j)
{
    const int64_t down = ceil_div(g->mb, g->rows), across = ceil_div(g->nb, g->cols);
    const int64_t top = n / (g->strip * across) * g->strip, in_strip = n - top * across;
    const int64_t high = min64(g->strip, down - top);
    *i = (top + in_strip % high) * g->rows;
    *j = in_strip / high * g->cols;
}

/* Tasks begin to end, each along the rows of its results: the lines of memory that these are
 * written to follow each other. */
SIMD_INLINE void compute_tasks(el e, const task *t, int64_t begin, int64_t end)
{
    const product *g = t->g;
    block blocks[2];
    int now = 0;
    blocks[1].i = blocks[1].j = 0;
    blocks[1].row = PANEL;
    for (int64_t n = begin; n < end; n++) {
        int64_t i0, j0;
        place_task(g, n, &i0, &j0);
        const int64_t i1 = min64(i0 + g->rows, g->mb), j1 = min64(j0 + g->cols, g->nb);
        for (int64_t i = i0; i < i1; i += PANEL)
            for (int64_t j = j0; j < j1; j += PANEL, now = !now) {
                block *b = &blocks[now];
                if (!t->stream)
                    fetch_place(e, t, i, j);
                multiply_panels(e, t, panel_of_a(g, i), packed_panel(g, g->packed_b, j), units(g),
                                b, &blocks[!now]);
                b->i = i;
                b->j = j;
                b->row = 0;
            }
    }
    write_rows(e, t, &blocks[!now], PANEL);
    if (t->stream)
        v_fence();
}

void gemm_tiles_compute(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const task *t = arg;
    tiles_open();
    EL_SPECIALIZE(t->to.type, compute_tasks, t, begin, end);
    tiles_close();
}
