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
#include "gemm_tiles.h"

#include "core/parts.h"

/* ---- steps ---- */

/* How the step's results are cut into tasks, and the order of these. */
static void cut(product *g)
{
    const int64_t threads = g->whole.ctx ? tg_ctx_threads(g->whole.ctx) : 1;
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
    share_work(g->whole.ctx, packed, ceil_div(PACK_WORK, GROUP * PANEL * PART * TERMS),
               gemm_tiles_pack, g);

    const int first = g->p0 == 0, last = g->p0 + g->ks == g->whole.k;
    const places p = places_of(&g->whole, g->sums, g->i0, g->j0, g->nb, first, last);
    const task t = {g, p.from, p.to, first && last && g->streams};
    share_work(g->whole.ctx, ceil_div(g->mb, g->rows) * ceil_div(g->nb, g->cols),
               ceil_div(TASK_WORK, g->rows * g->cols * g->ks), gemm_tiles_compute, (void *)&t);
}

static void run_steps(product *g)
{
    const int one_a = g->most_mb >= g->whole.m && g->most_ks >= g->whole.k,
              one_b = g->most_ks >= g->whole.k;
    for (g->j0 = 0; g->j0 < g->whole.n; g->j0 += g->most_nb)
        for (g->i0 = 0; g->i0 < g->whole.m; g->i0 += g->most_mb)
            for (g->p0 = 0; g->p0 < g->whole.k; g->p0 += g->most_ks) {
                g->mb = min64(g->most_mb, g->whole.m - g->i0);
                g->nb = min64(g->most_nb, g->whole.n - g->j0);
                g->ks = min64(g->most_ks, g->whole.k - g->p0);
                g->new_a = !g->as_it_is && (!one_a || g->j0 == 0);
                g->new_b = !one_b || g->i0 == 0;
                step(g);
            }
}

/* ---- the products of a call ---- */

typedef struct batch {
    const tg_gemm_args *args;
    product sizes;                        /* of the first product, without memory */
    int64_t sums_bytes, a_bytes, b_bytes; /* memory of a product */
    char *memory;                         /* of product after product, or of worker after worker */
} batch;

static product product_of(const batch *all, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = all->sizes;
    g.whole = gemm_product_of(all->args, ctx, index);
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
    const int worth_a_copy = g->whole.m <= MB && g->whole.k <= KS && g->whole.n >= MANY_COLUMNS;
    return !args->trans_a && g->whole.m % PANEL == 0 && g->whole.k % TERMS == 0 &&
           begins_lines(args->a) && !worth_a_copy;
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
    g->most_nb = even_part(g->whole.n, NB, PANEL);
    g->most_ks = even_part(g->whole.k, KS, TERMS);
    g->most_mb =
        even_part(g->whole.m, g->as_it_is && g->most_ks >= g->whole.k ? g->whole.m : MB, PANEL);
    const int needs_sums = tg_type_of(all->args->c) != TG_F32 && g->most_ks < g->whole.k;
    all->a_bytes = g->as_it_is ? 0 : panels(g->most_mb) * PANEL * g->most_ks * 2;
    all->b_bytes = panels(g->most_nb) * PANEL * g->most_ks * 2;
    all->sums_bytes = needs_sums ? ceil_div(g->most_mb * g->most_nb * 4, LINE) * LINE : 0;
    const int64_t bytes = all->sums_bytes + all->a_bytes + all->b_bytes;
    all->memory = tg_workspace(ctx, (size_t)(LINE + (alone ? threads : 1) * bytes));
    if (!all->memory)
        return TG_ENOMEM;
    if (tg_reserving(ctx))
        return TG_OK;
    char *const taken = all->memory;
    all->memory += -(uintptr_t)taken % LINE;
    multiply_products(ctx, all->args, alone, multiply, all);
    tg_workspace_free(ctx, taken);
    return TG_OK;
}

/* ---- the implementations ---- */

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    batch all = {.args = args};
    if (tg_numel(args->c) == 0)
        return TG_OK;
    all.sizes.whole = gemm_product_of(args, ctx, 0);
    return run_products(ctx, &all);
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    return gemm_run_batch(ctx, args, run);
}

/* Where rows do not know their batch, the number of rows and columns decides nothing. */
static int accepts_any(const tg_gemm_args *args)
{
    return gemm_inner(args) >= TERMS;
}

/* Products that fill tiles. */
static int accepts(const tg_gemm_args *args)
{
    return gemm_rows(args->c) >= SIDE && gemm_cols(args->c) >= SIDE && accepts_any(args);
}

static int accepts_any_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return accepts_any(&all);
}

static int accepts_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return accepts(&all);
}

TG_CPU_IMPLS(gemm) = {
    TG_IMPL(gemm, "amx", TG_LEVEL_NEEDS, TG_TAKES_BF16, accepts, run),
    TG_IMPL(batched_gemm, "amx", TG_LEVEL_NEEDS, TG_TAKES_BF16, accepts_batch, run_batch),
    TG_IMPL(gemm, "amx_any", TG_LEVEL_NEEDS, TG_TAKES_BF16 | TG_ONLY_BATCH_INVARIANT, accepts_any,
            run),
    TG_IMPL(batched_gemm, "amx_any", TG_LEVEL_NEEDS, TG_TAKES_BF16 | TG_ONLY_BATCH_INVARIANT,
            accepts_any_batch, run_batch),
    TG_IMPLS_END,
};
