/* src/gemm/gemm_cpu.c - the portable implementation of gemm, compiled once per level.
 *
 * The product is cut into steps of at most MB x NB results over KB terms. A step first packs its
 * part of a into panels of at most MR rows, stored word by word: f32, to which 16 bits are
 * converted, or, at the level that multiplies bf16, pairs of terms. Then each task takes BLOCK_ROWS
 * of these rows, which stay in its L2 cache, packs one panel of b after the other, NR columns that
 * stay in L1, or near it, and computes tiles of MR x NR results in registers.
 *
 * All cuts depend on the sizes alone and a result adds up its terms in one order, so that the bits
 * do not depend on the number of threads.
 *
 * Of a batch, small products are one thread's each, which does all of this by itself.
 */
#include "gemm_cpu.h"

#include "core/parts.h"

/* ---- tasks ---- */

/* What gemm_pack_b() reads. */
static lines lines_of_b(const product *g, int64_t j, int64_t p, int64_t terms)
{
    const int64_t cols = min64(g->nb - j, NR), size = el_size(g->whole.b.type);
    if (g->whole.b.trans)
        return lines_of(element(&g->whole.b, g->j0 + j, g->p0 + p), cols, terms * size,
                        g->whole.b.ld * size);
    return lines_of(element(&g->whole.b, g->p0 + p, g->j0 + j), terms, cols * size,
                    g->whole.b.ld * size);
}

/* One index is one panel of b and one block of rows; indices run along the columns first. While
 * tiles are computed with one panel, the next one is packed part by part. */
static void compute(void *arg, int64_t begin, int64_t end, int worker)
{
    const task *t = arg;
    const product *g = t->g;
    const int64_t across = ceil_div(g->nb, NR);
    word *b = g->packed_b + worker * 2 * panel_b(g), *next_b = b + panel_b(g);
    gemm_pack_b(g, begin % across * NR, 0, g->kb, b);
    for (int64_t n = begin; n < end; n++) {
        const int64_t j = n % across * NR, next_j = (n + 1) % across * NR;
        const int64_t i0 = n / across * t->rows, i1 = min64(i0 + t->rows, g->mb);
        const int64_t part =
            even_part(g->kb, ceil_div(g->kb, ceil_div(i1 - i0, g->height)), VL * WORD_TERMS);
        int64_t p = n + 1 < end ? 0 : g->kb;
        for (int64_t i = i0; i < i1; i += g->height, p += part) {
            const int64_t terms = min64(part, g->kb - p);
            lines ahead = {0};
            if (terms > 0)
                ahead = lines_of_b(g, next_j, p, terms);
            gemm_tile(t, g->packed_a + i / g->height * panel_a(g), b, &ahead, i, j);
            if (terms > 0)
                gemm_pack_b(g, next_j, p, terms, next_b);
        }
        word *swap = b;
        b = next_b;
        next_b = swap;
    }
}

/* ---- steps ---- */

static void step(const product *g)
{
    share_work(g->whole.ctx, ceil_div(g->mb, g->height), ceil_div(PACK_WORK, g->height * g->kb),
               gemm_pack_a, (void *)g);

    const places p =
        places_of(&g->whole, g->sums, g->i0, g->j0, g->nb, g->p0 == 0, g->p0 + g->kb == g->whole.k);
    const task t = {g, p.from, p.to, even_part(g->mb, BLOCK_ROWS, g->height)};
    const int64_t tasks = ceil_div(g->mb, t.rows) * ceil_div(g->nb, NR);
    const int64_t worth = ceil_div(TILE_WORK, t.rows * NR * g->kb);
    share_work(g->whole.ctx, tasks, tasks < MANY_TASKS || worth > 4 ? worth : 4, compute,
               (void *)&t);
}

static void run_steps(product *g)
{
    for (g->j0 = 0; g->j0 < g->whole.n; g->j0 += g->most_nb)
        for (g->i0 = 0; g->i0 < g->whole.m; g->i0 += g->most_mb)
            for (g->p0 = 0; g->p0 < g->whole.k; g->p0 += g->most_kb) {
                g->mb = min64(g->most_mb, g->whole.m - g->i0);
                g->nb = min64(g->most_nb, g->whole.n - g->j0);
                g->kb = min64(g->most_kb, g->whole.k - g->p0);
                step(g);
            }
}

/* ---- the products of a call ---- */

typedef struct batch {
    const tg_gemm_args *args;
    product sizes;                        /* of the first product, without memory */
    int64_t words_a, words_b, words_sums; /* memory of a product */
    word *memory;                         /* of product after product, or of worker after worker */
} batch;

static product product_of(const batch *all, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = all->sizes;
    g.whole = gemm_product_of(all->args, ctx, index);
    g.packed_a = all->memory + slot * (all->words_a + all->words_b + all->words_sums);
    g.packed_b = g.packed_a + all->words_a;
    g.sums = all->words_sums ? (float *)(g.packed_b + all->words_b) : NULL;
    return g;
}

static void multiply(const void *batch, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = product_of(batch, ctx, index, slot);
    if (few_rows(g.whole.m))
        gemm_few(&g);
    else
        run_steps(&g);
}

static tg_status run_products(tg_ctx *ctx, batch *all)
{
    product *g = &all->sizes;
    const int64_t threads = tg_ctx_threads(ctx);
    const int alone = one_thread_each(all->args, threads);
    const int64_t few = few_rows(g->whole.m);
    g->height = few ? few : even_part(g->whole.m, MR, HEIGHTS);
    g->most_mb = even_part(g->whole.m, MB, g->height);
    g->most_nb = even_part(g->whole.n, NB, NR);
    g->most_kb = even_part(g->whole.k, KB, PAIRS ? 2 * VL : 4);
    const int needs_sums = tg_type_of(all->args->c) != TG_F32 && g->most_kb < g->whole.k;
    all->words_a =
        ceil_div(ceil_div(g->most_mb, g->height) * (words_of(g->most_kb) * g->height + VL), 16) *
        16;
    all->words_b = (alone ? 1 : threads) * 2 * words_of(g->most_kb) * NR;
    all->words_sums = needs_sums ? ceil_div(g->most_mb * g->most_nb, 16) * 16 : 0;
    if (few) {
        all->words_a = ceil_div(gemm_few_words(g), 16) * 16;
        all->words_b = all->words_sums = 0;
    }
    const int64_t words = all->words_a + all->words_b + all->words_sums;
    all->memory = tg_workspace(ctx, (size_t)((alone ? threads : 1) * words) * sizeof(word));
    if (!all->memory)
        return TG_ENOMEM;
    if (tg_reserving(ctx))
        return TG_OK;
    multiply_products(ctx, all->args, alone, multiply, all);
    tg_workspace_free(ctx, all->memory);
    return TG_OK;
}

/* ---- the implementations ---- */

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    batch all = {.args = args};
    if (tg_numel(args->c) == 0)
        return TG_OK;
    all.sizes.whole = gemm_product_of(args, ctx, 0);
    if (all.sizes.whole.k > 0)
        return run_products(ctx, &all);
    if (!tg_reserving(ctx))
        gemm_add_alone(args);
    return TG_OK;
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    return gemm_run_batch(ctx, args, run);
}

#if defined(SIMD_BF16_DOT)
/* What oneDNN would refuse or prepare, and of the rest what was measured to run faster than by
 * oneDNN 2.6 (one core of a Zen 5): tiny products, few rows, and results that stay in the cache. Of
 * large ones both run at the same rate, within 4 %; of few terms or columns oneDNN is faster. */
static int accepts(const tg_gemm_args *args)
{
    enum {
        ROWS = 4,
        COLS = 128,
        TERMS = 256,
        FEW_ROWS = 128,
        RESULTS = 1 << 20,
        MOST = 1024,
        TINY = 1 << 18
    };
    const int64_t m = gemm_rows(args->c), n = gemm_cols(args->c), k = gemm_inner(args);
    if (args->alpha != 1 || args->addend || m * n * k <= TINY)
        return 1;
    return m >= ROWS && n >= COLS && k >= TERMS &&
           (m <= FEW_ROWS || (m * n <= RESULTS && k <= MOST));
}

static int accepts_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return accepts(&all);
}

/* Where rows do not know their batch, nothing is refused. */
TG_CPU_IMPLS(gemm) = {
    TG_IMPL(gemm, "v4bf16", TG_LEVEL_NEEDS, TG_TAKES_BF16, accepts, run),
    TG_IMPL(batched_gemm, "v4bf16", TG_LEVEL_NEEDS, TG_TAKES_BF16, accepts_batch, run_batch),
    TG_IMPL(gemm, "v4bf16_any", TG_LEVEL_NEEDS, TG_TAKES_BF16 | TG_ONLY_BATCH_INVARIANT, NULL, run),
    TG_IMPL(batched_gemm, "v4bf16_any", TG_LEVEL_NEEDS, TG_TAKES_BF16 | TG_ONLY_BATCH_INVARIANT,
            NULL, run_batch),
    TG_IMPLS_END,
};
#else
TG_CPU_IMPLS(gemm) = {
    TG_CPU_IMPL(gemm, run),
    TG_CPU_IMPL(batched_gemm, run_batch),
    TG_IMPLS_END,
};
#endif
