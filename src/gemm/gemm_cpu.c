/* src/gemm/gemm_cpu.c - the portable implementation of gemm, compiled once per level.
 *
 * The product is cut into steps of at most MB x NB results over KB terms. A step first packs its
 * part of a, converted to f32, into panels of MR rows, stored term by term. Then each task takes
 * BLOCK_ROWS of these rows, which stay in its L2 cache, packs one panel of b after the other, NR
 * columns that stay in L1, and computes tiles of MR x NR results in registers.
 *
 * All cuts depend on the sizes alone and a result adds up its terms in one order, so that the bits
 * do not depend on the number of threads.
 *
 * Of a batch, small products are one thread's each, which does all of this by itself.
 */
#include "gemm_cpu.h"

#include "core/parts.h"

/* ---- tiles ---- */

typedef struct task {
    const product *g;
    place from, to;
    int64_t rows; /* of a block */
} task;

/* Cache lines of a rectangle in memory, to be fetched one by one while tiles are computed. */
typedef struct lines {
    const char *next;
    int64_t row_lines, skip; /* lines of a row; bytes from its end to the next row */
    int64_t left_in_row, rows;
} lines;

static lines lines_of(const char *data, int64_t rows, int64_t row_bytes, int64_t stride)
{
    const int64_t n = ceil_div(row_bytes, LINE);
    return (lines){data, n, stride - n * LINE, n, rows};
}

SIMD_INLINE void fetch_line(lines *l)
{
    if (l->rows <= 0)
        return;
    __builtin_prefetch(l->next);
    l->next += LINE;
    if (--l->left_in_row == 0) {
        l->left_in_row = l->row_lines;
        l->next += l->skip;
        l->rows--;
    }
}

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

static void store_part(const task *t, int64_t i, int64_t j, int64_t rows, int64_t cols,
                       const vf sum[MR][NV])
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v * VL < cols; v++) {
            const int64_t n = min64(cols - v * VL, VL);
            vf x = sum[r][v];
            if (t->from.data)
                x += addend_at(&t->from, at(&t->from, i + r, j), v * VL, n);
            v_store_n(t->to.type, at(&t->to, i + r, j), v * VL, n, x);
        }
}

/* Results (i, j) to (i + MR, j + NR) of the step: to = from + alpha * (panel of a) * (panel of b).
 * Meanwhile the cache fetches their place, and `ahead`. */
static void tile(const task *t, const float *a, const float *b, lines *ahead, int64_t i, int64_t j)
{
    const product *g = t->g;
    const int64_t kb = g->kb, rows = min64(g->mb - i, MR), cols = min64(g->nb - j, NR);
    lines results = lines_of(at(&t->to, i, j), rows, cols * el_size(t->to.type),
                             t->to.ld * el_size(t->to.type));
    vf sum[MR][NV] = {0};
    for (int64_t p = 0; p < kb; p += AHEAD) {
        fetch_line(&results);
        fetch_line(ahead);
        const int64_t terms = min64(kb - p, AHEAD);
        for (int64_t q = 0; q < terms; q++, a += MR, b += NR) {
            vf bv[NV];
            for (int v = 0; v < NV; v++)
                bv[v] = v_load(EL_F32, b, v * VL);
#pragma GCC unroll 16
            for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
                for (int v = 0; v < NV; v++)
                    sum[r][v] += v_set(a[r]) * bv[v];
        }
    }
    const vf alpha = v_set(g->whole.alpha);
    if (rows == MR && cols == NR && t->to.type == EL_F32 &&
        (!t->from.data || (t->from.type == EL_F32 && t->from.factor == 1.0f))) {
#pragma GCC unroll 16
        for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) {
                vf x = alpha * sum[r][v];
                if (t->from.data)
                    x += v_load(EL_F32, at(&t->from, i + r, j), v * VL);
                v_store(EL_F32, at(&t->to, i + r, j), v * VL, x);
            }
        return;
    }
    vf part[MR][NV];
#pragma GCC unroll 16
    for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            part[r][v] = alpha * sum[r][v];
    store_part(t, i, j, rows, cols, (const vf(*)[NV])part);
}

/* One index is one panel of b and one block of rows; indices run along the columns first. While
 * tiles are computed with one panel, the next one is packed part by part. */
static void compute(void *arg, int64_t begin, int64_t end, int worker)
{
    const task *t = arg;
    const product *g = t->g;
    const int64_t across = ceil_div(g->nb, NR);
    float *b = g->packed_b + worker * 2 * panel_b(g), *next_b = b + panel_b(g);
    gemm_pack_b(g, begin % across * NR, 0, g->kb, b);
    for (int64_t n = begin; n < end; n++) {
        const int64_t j = n % across * NR, next_j = (n + 1) % across * NR;
        const int64_t i0 = n / across * t->rows, i1 = min64(i0 + t->rows, g->mb);
        const int64_t part = even_part(g->kb, ceil_div(g->kb, ceil_div(i1 - i0, MR)), VL);
        int64_t p = n + 1 < end ? 0 : g->kb;
        for (int64_t i = i0; i < i1; i += MR, p += part) {
            const int64_t terms = min64(part, g->kb - p);
            lines ahead = {0};
            if (terms > 0)
                ahead = lines_of_b(g, next_j, p, terms);
            tile(t, g->packed_a + i / MR * panel_a(g), b, &ahead, i, j);
            if (terms > 0)
                gemm_pack_b(g, next_j, p, terms, next_b);
        }
        float *swap = b;
        b = next_b;
        next_b = swap;
    }
}

/* ---- steps ---- */

static void step(const product *g)
{
    share_work(g->whole.ctx, ceil_div(g->mb, MR), ceil_div(PACK_WORK, MR * g->kb), gemm_pack_a,
               (void *)g);

    const places p =
        places_of(&g->whole, g->sums, g->i0, g->j0, g->nb, g->p0 == 0, g->p0 + g->kb == g->whole.k);
    const task t = {g, p.from, p.to, even_part(g->mb, BLOCK_ROWS, MR)};
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
    product sizes;                           /* of the first product, without memory */
    int64_t floats_a, floats_b, floats_sums; /* memory of a product */
    float *memory; /* of product after product, or of worker after worker */
} batch;

static product product_of(const batch *all, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = all->sizes;
    g.whole = gemm_product_of(all->args, ctx, index);
    g.packed_a = all->memory + slot * (all->floats_a + all->floats_b + all->floats_sums);
    g.packed_b = g.packed_a + all->floats_a;
    g.sums = all->floats_sums ? g.packed_b + all->floats_b : NULL;
    return g;
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
    g->most_mb = even_part(g->whole.m, MB, MR);
    g->most_nb = even_part(g->whole.n, NB, NR);
    g->most_kb = even_part(g->whole.k, KB, 4);
    const int needs_sums = tg_type_of(all->args->c) != TG_F32 && g->most_kb < g->whole.k;
    all->floats_a = ceil_div(ceil_div(g->most_mb, MR) * (g->most_kb * MR + VL), 16) * 16;
    all->floats_b = (alone ? 1 : threads) * 2 * g->most_kb * NR;
    all->floats_sums = needs_sums ? ceil_div(g->most_mb * g->most_nb, 16) * 16 : 0;
    const int64_t floats = all->floats_a + all->floats_b + all->floats_sums;
    all->memory = tg_workspace(ctx, (size_t)((alone ? threads : 1) * floats) * sizeof(float));
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

TG_CPU_IMPLS(gemm) = {
    TG_CPU_IMPL(gemm, run),
    TG_CPU_IMPL(batched_gemm, run_batch),
    TG_IMPLS_END,
};
