/* src/gemm/gemm_tiles.c - gemm in bf16 on matrix units (AMX).
 *
 * A matrix unit adds the products of 16 rows of a with 16 columns of b, over 32 terms, to 16 x 16
 * sums in f32. Both factors are packed into such tiles first, a's rows as they are, b's columns as
 * pairs of terms side by side, so that all forms of a product become one.
 *
 * The product is cut into steps of at most MB x NB results over KS terms, for which both factors
 * are packed; of any number of rows where a is multiplied as it lies. Then each task computes at
 * most ROWS x COLS results; what it reads stays in its L2 cache.
 *
 * A result adds up its terms in one order, and the steps depend on the sizes alone, so that the
 * bits do not depend on the number of threads, as the cut into tasks does.
 *
 * Of a batch, small products are one thread's each, which does all of this by itself.
 */
#include "core/parts.h"
#include "gemm_matrix.h"
#include "tiles.h"

_Static_assert(TILES, "compiled for a processor with matrix units");

enum {
    SIDE = 16,            /* rows of a tile of a, columns of one of b */
    TERMS = 32,           /* of both */
    TILE = SIDE * TERMS,  /* elements */
    PANEL = 2 * SIDE,     /* rows of a, or columns of b, that are multiplied at once */
    UNIT = PANEL * TERMS, /* elements of a panel over the terms of a tile */
    SUMS = PANEL * PANEL, /* results of two panels */
    GROUP = 4,            /* panels that are packed at once */
    PART = 8,             /* of so many units */
    KS = 2048,            /* 1 MiB of a or b in 256 rows or columns */
    ROWS = 256,
    COLS = 256,
    LEAST = 64, /* rows and columns */
    TASKS = 4,  /* wanted of a thread */
    MB = 2048,  /* 8 MiB of a */
    NB = 2048,
    MANY_COLUMNS = 8192,
    PACK_WORK = 32 << 10, /* elements that are worth a task */
    TASK_WORK = 1 << 22,  /* multiplications that are */
    LINE = 64,            /* bytes: pieces of the workspace begin on a cache line */
};

typedef struct product {
    tg_ctx *ctx; /* whose threads share it; NULL: this one does it */
    int64_t m, n, k;
    matrix a, b, c;
    float alpha, beta;
    float *sums; /* f32 results of a step while c is of 16 bits and k needs several steps */
    uint16_t *packed_a, *packed_b;
    int as_it_is;                      /* a is not packed */
    int64_t most_mb, most_nb, most_ks; /* of a step */
    int streams;                       /* c is written past the caches */
    /* the step: results [i0, i0 + mb) x [j0, j0 + nb), terms [p0, p0 + ks) */
    int64_t i0, j0, p0, mb, nb, ks;
    int new_a, new_b;   /* factors that the step before did not pack */
    int64_t rows, cols; /* of a task */
    int64_t strip;      /* tasks that come one below the other before the next column of tasks */
} product;

/* ---- packing ---- */

typedef uint16_t row32 __attribute__((vector_size(2 * TERMS)));

/* The first n elements of a row, the rest 0. */
SIMD_INLINE row32 row_of(const char *src, int64_t n)
{
    row32 row = {0};
    if (n >= TERMS)
        memcpy(&row, src, sizeof row);
    else if (n > 0)
        v_copy_part(&row, src, n * el_size(EL_BF16));
    return row;
}

#define LOW(i) (i), 32 + (i)
#define HIGH(i) 16 + (i), 48 + (i)
#define SIXTEEN(of)                                                                               \
    of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8), of(9), of(10), of(11), of(12), \
        of(13), of(14), of(15)

/* Terms are rows in memory, PANEL lanes side by side: row i of either tile has the pairs of terms
 * 2i and 2i + 1 of its lanes. */
SIMD_INLINE void load_pairs(const char *src, int64_t stride, int64_t lanes, int64_t terms,
                            vi low[VL], vi high[VL])
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++, src += 2 * stride) {
        const row32 even = row_of(src, 2 * i < terms ? lanes : 0);
        const row32 odd = row_of(src + stride, 2 * i + 1 < terms ? lanes : 0);
        low[i] = (vi)__builtin_shufflevector(even, odd, SIXTEEN(LOW));
        high[i] = (vi)__builtin_shufflevector(even, odd, SIXTEEN(HIGH));
    }
}

/* Lanes are rows in memory: row i of a tile has the terms of its lane i. */
SIMD_INLINE void load_lanes(const char *src, int64_t stride, int64_t lanes, int64_t terms,
                            vi row[VL])
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++, src += stride)
        row[i] = (vi)row_of(src, i < lanes ? terms : 0);
}

SIMD_INLINE void store_tile(vi row[VL], int transpose, uint16_t *out)
{
    if (transpose)
        v_transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        memcpy(out + i * TERMS, &row[i], sizeof row[i]);
}

/* Both tiles of a panel over the terms of a tile, by pairs of terms or by lanes; `lanes` and
 * `terms` are there. */
SIMD_INLINE void pack_unit(const char *src, int64_t stride, int terms_are_rows, int by_pairs,
                           int64_t lanes, int64_t terms, uint16_t *out)
{
    vi low[VL], high[VL];
    if (terms_are_rows) {
        load_pairs(src, stride, lanes, terms, low, high);
    } else {
        load_lanes(src, stride, lanes, terms, low);
        load_lanes(src + SIDE * stride, stride, lanes - SIDE, terms, high);
    }
    store_tile(low, terms_are_rows != by_pairs, out);
    store_tile(high, terms_are_rows != by_pairs, out + TILE);
}

static int64_t panels(int64_t lanes)
{
    return ceil_div(lanes, PANEL);
}

/* Units of a panel in the step. */
static int64_t units(const product *g)
{
    return ceil_div(g->ks, TERMS);
}

/* Part n of a factor, some units of a group of panels; `size` lanes belong to the step. Memory is
 * read along its rows. */
SIMD_INLINE void pack_part(const product *g, const matrix *m, int terms_are_rows, int by_pairs,
                           int64_t lane0, int64_t size, int64_t n, uint16_t *packed)
{
    const int64_t groups = ceil_div(panels(size), GROUP), first = n % groups * GROUP;
    const int64_t count = min64(panels(size) - first, GROUP);
    const int64_t unit0 = n / groups * PART, unit_count = min64(units(g) - unit0, PART);
    const int64_t stride = m->ld * el_size(EL_BF16);
    for (int64_t x = 0; x < count * unit_count; x++) {
        const int64_t panel = first + (terms_are_rows ? x % count : x / unit_count);
        const int64_t unit = unit0 + (terms_are_rows ? x / count : x % unit_count);
        const int64_t i = panel * PANEL, lanes = min64(size - i, PANEL);
        const int64_t p = unit * TERMS, terms = min64(g->ks - p, TERMS);
        const char *src =
            terms_are_rows ? element(m, g->p0 + p, lane0 + i) : element(m, lane0 + i, g->p0 + p);
        uint16_t *out = packed + (panel * units(g) + unit) * UNIT;
        if (lanes == PANEL && terms == TERMS)
            pack_unit(src, stride, terms_are_rows, by_pairs, PANEL, TERMS, out);
        else
            pack_unit(src, stride, terms_are_rows, by_pairs, lanes, terms, out);
    }
}

static int64_t parts(const product *g, int64_t size)
{
    return ceil_div(panels(size), GROUP) * ceil_div(units(g), PART);
}

static void pack_a(const product *g, int64_t n)
{
    if (g->a.trans)
        pack_part(g, &g->a, 1, 0, g->i0, g->mb, n, g->packed_a);
    else
        pack_part(g, &g->a, 0, 0, g->i0, g->mb, n, g->packed_a);
}

static void pack_b(const product *g, int64_t n)
{
    if (g->b.trans)
        pack_part(g, &g->b, 0, 1, g->j0, g->nb, n, g->packed_b);
    else
        pack_part(g, &g->b, 1, 1, g->j0, g->nb, n, g->packed_b);
}

/* Parts of a come first, if a is packed anew. */
static void pack(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    const int64_t parts_of_a = g->new_a ? parts(g, g->mb) : 0;
    for (int64_t n = begin; n < end; n++)
        if (n < parts_of_a)
            pack_a(g, n);
        else
            pack_b(g, n - parts_of_a);
}

/* ---- tasks ---- */

typedef struct task {
    const product *g;
    place from, to;
    int stream; /* `to` is written past the caches, and not read */
} task;

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
    const vf alpha = v_set(t->g->alpha);
    char *to = at(&t->to, b->i + r, b->j);
    for (int64_t v = 0; v * SIDE < cols; v++) {
        const int64_t n = min64(cols - v * SIDE, SIDE);
        vf x = alpha * v_load(EL_F32, sums, v * SUMS / 4);
        if (t->from.data)
            x += v_load_n(t->from.type, at(&t->from, b->i + r, b->j), v * SIDE, n, 0.0f);
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
    const vf alpha = v_set(t->g->alpha);
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
    const int64_t row = g->a.ld * el_size(EL_BF16);
    if (!g->as_it_is)
        return packed_panel(g, g->packed_a, i);
    return (panel){element(&g->a, g->i0 + i, g->p0), row, SIDE * row, TERMS * 2};
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

static void compute(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const task *t = arg;
    tiles_open();
    EL_SPECIALIZE(t->to.type, compute_tasks, t, begin, end);
    tiles_close();
}

/* ---- steps ---- */

/* How the step's results are cut into tasks, and the order of these. */
static void cut(product *g)
{
    const int64_t threads = g->ctx ? tg_ctx_threads(g->ctx) : 1;
    int64_t rows = ROWS, cols = COLS;
    while (ceil_div(g->mb, rows) * ceil_div(g->nb, cols) < TASKS * threads && rows > LEAST)
        if (cols > LEAST)
            cols /= 2;
        else
            rows /= 2;
    g->rows = even_part(g->mb, rows, PANEL);
    g->cols = even_part(g->nb, cols, PANEL);
    const int64_t down = ceil_div(g->mb, g->rows), across = ceil_div(g->nb, g->cols);
    const int64_t share = ceil_div(down * across, threads);
    /* What a task reads outweighs what it writes: the tasks of a thread should be as high as
     * wide, to read less. */
    const int small = 16 * g->rows * g->cols < (g->rows + g->cols) * g->ks;
    g->strip = 1;
    while (small && 2 * g->strip * g->strip * g->rows <= share * g->cols && g->strip < down)
        g->strip++;
}

static void step(product *g)
{
    const int64_t packed = (g->new_a ? parts(g, g->mb) : 0) + (g->new_b ? parts(g, g->nb) : 0);
    cut(g);
    share_work(g->ctx, packed, ceil_div(PACK_WORK, GROUP * PANEL * PART * TERMS), pack, g);

    const place c = {(char *)element(&g->c, g->i0, g->j0), g->c.type, g->c.ld};
    const place sums = {(char *)g->sums, EL_F32, g->nb};
    const place none = {0}, between = g->sums ? sums : c;
    const int first = g->p0 == 0, last = g->p0 + g->ks == g->k;
    const task t = {g, first ? g->beta != 0.0f ? c : none : between, last ? c : between,
                    first && last && g->streams};
    share_work(g->ctx, ceil_div(g->mb, g->rows) * ceil_div(g->nb, g->cols),
               ceil_div(TASK_WORK, g->rows * g->cols * g->ks), compute, (void *)&t);
}

static void run_steps(product *g)
{
    const int one_a = g->most_mb >= g->m && g->most_ks >= g->k, one_b = g->most_ks >= g->k;
    for (g->j0 = 0; g->j0 < g->n; g->j0 += g->most_nb)
        for (g->i0 = 0; g->i0 < g->m; g->i0 += g->most_mb)
            for (g->p0 = 0; g->p0 < g->k; g->p0 += g->most_ks) {
                g->mb = min64(g->most_mb, g->m - g->i0);
                g->nb = min64(g->most_nb, g->n - g->j0);
                g->ks = min64(g->most_ks, g->k - g->p0);
                g->new_a = !g->as_it_is && (!one_a || g->j0 == 0);
                g->new_b = !one_b || g->i0 == 0;
                step(g);
            }
}

/* ---- the products of a call ---- */

typedef struct batch {
    const tg_gemm_args *args;
    product sizes;                        /* of each product, without matrices and memory */
    int64_t sums_bytes, a_bytes, b_bytes; /* memory of a product */
    char *memory;                         /* of product after product, or of worker after worker */
} batch;

static product product_of(const batch *all, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = all->sizes;
    g.ctx = ctx;
    g.a = matrix_of(all->args->a, all->args->trans_a, index);
    g.b = matrix_of(all->args->b, all->args->trans_b, index);
    g.c = matrix_of(all->args->c, 0, index);
    char *memory = all->memory + slot * (all->sums_bytes + all->a_bytes + all->b_bytes);
    g.sums = all->sums_bytes ? (float *)memory : NULL;
    g.packed_a = (uint16_t *)(memory + all->sums_bytes);
    g.packed_b = (uint16_t *)(memory + all->sums_bytes + all->a_bytes);
    return g;
}

/* 1 if all rows of all matrices begin on a cache line. */
static int begins_lines(const tg_tensor *t)
{
    uint64_t bytes = (uintptr_t)tg_data(t);
    for (int i = 0; i < t->ndim - 1; i++)
        bytes |= (uint64_t)tg_stride(t, i) * tg_type_size(tg_type_of(t));
    return bytes % LINE == 0;
}

/* Rows of a that are whole lines of terms are multiplied where they lie, unless one copy
 * serves many columns. */
static int lies_as_tiles(const tg_gemm_args *args, const product *g)
{
    const int worth_a_copy = g->m <= MB && g->k <= KS && g->n >= MANY_COLUMNS;
    return !args->trans_a && g->m % PANEL == 0 && g->k % TERMS == 0 && begins_lines(args->a) &&
           !worth_a_copy;
}

/* A large c of few terms, whose writing the products do not hide, is written past the caches, if
 * nothing is added to it. */
static int streams(const tg_gemm_args *args)
{
    enum { FEW_TERMS = 512 };
    const int64_t bytes = tg_numel(args->c) * (int64_t)tg_type_size(tg_type_of(args->c));
    return args->beta == 0 && gemm_inner(args) <= FEW_TERMS && tg_streams(bytes) &&
           begins_lines(args->c);
}

static void multiply(const void *batch, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = product_of(batch, ctx, index, slot);
    run_steps(&g);
}

static tg_status run_products(tg_ctx *ctx, batch *all)
{
    product *g = &all->sizes;
    const int64_t threads = tg_ctx_threads(ctx);
    const int alone = one_thread_each(all->args, threads);
    g->as_it_is = lies_as_tiles(all->args, g);
    g->streams = streams(all->args);
    g->most_nb = even_part(g->n, NB, PANEL);
    g->most_ks = even_part(g->k, KS, TERMS);
    g->most_mb = even_part(g->m, g->as_it_is && g->most_ks >= g->k ? g->m : MB, PANEL);
    const int needs_sums = tg_type_of(all->args->c) != TG_F32 && g->most_ks < g->k;
    all->a_bytes = g->as_it_is ? 0 : panels(g->most_mb) * PANEL * g->most_ks * 2;
    all->b_bytes = panels(g->most_nb) * PANEL * g->most_ks * 2;
    all->sums_bytes = needs_sums ? ceil_div(g->most_mb * g->most_nb * 4, LINE) * LINE : 0;
    const int64_t bytes = all->sums_bytes + all->a_bytes + all->b_bytes;
    all->memory = tg_workspace(ctx, (size_t)(LINE + (alone ? threads : 1) * bytes));
    if (!all->memory)
        return TG_ENOMEM;
    if (tg_reserving(ctx))
        return TG_OK;
    all->memory += -(uintptr_t)all->memory % LINE;
    multiply_products(ctx, all->args, alone, multiply, all);
    return TG_OK;
}

/* ---- the implementations ---- */

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    batch all = {.args = args,
                 .sizes = {.m = gemm_rows(args->c),
                           .n = gemm_cols(args->c),
                           .k = gemm_inner(args),
                           .alpha = (float)args->alpha,
                           .beta = (float)args->beta}};
    return run_products(ctx, &all);
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return run(ctx, &all);
}

/* Products that fill tiles. */
static int accepts(const tg_gemm_args *args)
{
    return gemm_rows(args->c) >= SIDE && gemm_cols(args->c) >= SIDE && gemm_inner(args) >= TERMS;
}

static int accepts_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return accepts(&all);
}

TG_CPU_IMPLS(gemm) = {
    TG_CPU_IMPL_IF(gemm, TG_TAKES_BF16, accepts, run),
    TG_CPU_IMPL_IF(batched_gemm, TG_TAKES_BF16, accepts_batch, run_batch),
    TG_IMPLS_END,
};
