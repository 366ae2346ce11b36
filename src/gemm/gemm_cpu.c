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
#include "core/parts.h"
#include "gemm_matrix.h"

/* A tile's sums and one term's operands fill the vector registers. */
#if VL == 16
enum { MR = 14, NV = 2 };
#elif VL == 8
enum { MR = 6, NV = 2 };
#elif SIMD_REGISTERS == 32
enum { MR = 8, NV = 2 };
#else
enum { MR = 4, NV = 2 };
#endif
enum {
    NR = NV * VL,
    KB = 512,
    BLOCK_ROWS = 560 / MR * MR,
    BLOCKS = 2, /* blocks of rows in a step: bounds the workspace */
    NB = 2048,
    MB = BLOCKS * BLOCK_ROWS,
    PACK_WORK = 32 << 10, /* elements of a that are worth a task */
    TILE_WORK = 1 << 20,  /* multiplications that are worth a task */
    MANY_TASKS = 64,      /* from so many on, tasks of four panels */
    LINE = 64,            /* bytes of a cache line */
    AHEAD = 16,           /* terms between two prefetches */
};

typedef struct product {
    tg_ctx *ctx; /* whose threads share it; NULL: this one does it */
    int64_t m, n, k;
    matrix a, b, c;
    float alpha, beta;
    int64_t most_mb, most_nb, most_kb; /* of a step */
    float *sums;     /* f32 results of a step while c is of 16 bits and k needs several steps */
    float *packed_a; /* all panels of the step */
    float *packed_b; /* two panels a worker */
    /* the step: results [i0, i0 + mb) x [j0, j0 + nb), terms [p0, p0 + kb) */
    int64_t i0, j0, p0, mb, nb, kb;
} product;

/* Floats of a packed panel; one of a leaves room for the vector that runs past its last term. */
static int64_t panel_a(const product *g)
{
    return g->kb * MR + VL;
}

static int64_t panel_b(const product *g)
{
    return g->kb * NR;
}

/* ---- packing: out[p * width + w] = element of lane w and term p, zero for lanes
 * past `lanes` ---- */

/* Terms are rows in memory: lanes lie side by side. A vector may run past the width: what it
 * writes there is overwritten by the next term's, and the buffers have room behind the last. */
SIMD_INLINE void pack_rows(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                           int width, float *out)
{
    if (lanes >= (width + VL - 1) / VL * VL) {
        for (int64_t p = 0; p < terms; p++, src += ld * el_size(e))
            for (int w = 0; w < width; w += VL)
                v_store(EL_F32, out, p * width + w, v_load(e, src, w));
        return;
    }
    for (int64_t p = 0; p < terms; p++, src += ld * el_size(e))
        for (int w = 0; w < width; w += VL) {
            const int64_t left = lanes - w < 0 ? 0 : lanes - w;
            const int64_t n = left < width - w ? left : width - w;
            v_store(EL_F32, out, p * width + w, v_load_n(e, src, w, n < VL ? n : VL, 0.0f));
        }
}

/* Lanes are rows in memory: squares of VL x VL are transposed in registers. `whole`, a constant:
 * all rows and terms of the square are there. */
SIMD_INLINE void pack_square(el e, const char *src, int64_t ld, int whole, int64_t rows,
                             int64_t terms, int width, float *out)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++, src += ld * el_size(e)) {
        square[i] = v_seti(0);
        if (i < rows)
            square[i] = (vi)(whole ? v_load(e, src, 0) : v_load_n(e, src, 0, terms, 0.0f));
    }
    v_transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        if (whole || i < terms)
            v_store(EL_F32, out, (int64_t)i * width, (vf)square[i]);
}

SIMD_INLINE void pack_columns(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                              int width, float *out)
{
    for (int64_t p = 0; p < terms; p += VL)
        for (int w = 0; w < width; w += VL) {
            const int most = width - w < VL ? width - w : VL;
            const int64_t left = lanes - w < 0 ? 0 : lanes - w;
            const char *from = src + (w * ld + p) * el_size(e);
            float *to = out + p * width + w;
            if (left >= most && terms - p >= VL)
                pack_square(e, from, ld, 1, most, VL, width, to);
            else
                pack_square(e, from, ld, 0, left < most ? left : most, min64(terms - p, VL), width,
                            to);
        }
}

SIMD_INLINE void pack_panel(el e, const matrix *m, int terms_are_rows, int64_t lane0, int64_t lanes,
                            int64_t p0, int64_t terms, int width, float *out)
{
    if (terms_are_rows)
        pack_rows(e, element(m, p0, lane0), m->ld, lanes, terms, width, out);
    else
        pack_columns(e, element(m, lane0, p0), m->ld, lanes, terms, width, out);
}

static void pack_a(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    for (int64_t i = begin; i < end; i++)
        EL_SPECIALIZE(g->a.type, pack_panel, &g->a, g->a.trans, g->i0 + i * MR,
                      min64(g->mb - i * MR, MR > VL ? MR : VL), g->p0, g->kb, MR,
                      g->packed_a + i * panel_a(g));
}

/* Terms [p, p + terms) of the panel at column j. */
static void pack_b(const product *g, int64_t j, int64_t p, int64_t terms, float *out)
{
    EL_SPECIALIZE(g->b.type, pack_panel, &g->b, !g->b.trans, g->j0 + j, min64(g->nb - j, NR),
                  g->p0 + p, terms, NR, out + p * NR);
}

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

/* What pack_b() reads. */
static lines lines_of_b(const product *g, int64_t j, int64_t p, int64_t terms)
{
    const int64_t cols = min64(g->nb - j, NR), size = el_size(g->b.type);
    if (g->b.trans)
        return lines_of(element(&g->b, g->j0 + j, g->p0 + p), cols, terms * size, g->b.ld * size);
    return lines_of(element(&g->b, g->p0 + p, g->j0 + j), terms, cols * size, g->b.ld * size);
}

static void store_part(const task *t, int64_t i, int64_t j, int64_t rows, int64_t cols,
                       const vf sum[MR][NV])
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v * VL < cols; v++) {
            const int64_t n = min64(cols - v * VL, VL);
            vf x = sum[r][v];
            if (t->from.data)
                x += v_load_n(t->from.type, at(&t->from, i + r, j), v * VL, n, 0.0f);
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
    const vf alpha = v_set(g->alpha);
    if (rows == MR && cols == NR && t->to.type == EL_F32 &&
        (!t->from.data || t->from.type == EL_F32)) {
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
    pack_b(g, begin % across * NR, 0, g->kb, b);
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
                pack_b(g, next_j, p, terms, next_b);
        }
        float *swap = b;
        b = next_b;
        next_b = swap;
    }
}

/* ---- steps ---- */

static void step(const product *g)
{
    share_work(g->ctx, ceil_div(g->mb, MR), ceil_div(PACK_WORK, MR * g->kb), pack_a, (void *)g);

    const place c = {(char *)element(&g->c, g->i0, g->j0), g->c.type, g->c.ld};
    const place sums = {(char *)g->sums, EL_F32, g->nb};
    const place none = {0}, between = g->sums ? sums : c;
    const int first = g->p0 == 0, last = g->p0 + g->kb == g->k;
    const task t = {g, first ? g->beta != 0.0f ? c : none : between, last ? c : between,
                    even_part(g->mb, BLOCK_ROWS, MR)};
    const int64_t tasks = ceil_div(g->mb, t.rows) * ceil_div(g->nb, NR);
    const int64_t worth = ceil_div(TILE_WORK, t.rows * NR * g->kb);
    share_work(g->ctx, tasks, tasks < MANY_TASKS || worth > 4 ? worth : 4, compute, (void *)&t);
}

static void run_steps(product *g)
{
    for (g->j0 = 0; g->j0 < g->n; g->j0 += g->most_nb)
        for (g->i0 = 0; g->i0 < g->m; g->i0 += g->most_mb)
            for (g->p0 = 0; g->p0 < g->k; g->p0 += g->most_kb) {
                g->mb = min64(g->most_mb, g->m - g->i0);
                g->nb = min64(g->most_nb, g->n - g->j0);
                g->kb = min64(g->most_kb, g->k - g->p0);
                step(g);
            }
}

/* ---- the products of a call ---- */

typedef struct batch {
    const tg_gemm_args *args;
    product sizes;                           /* of each product, without matrices and memory */
    int64_t floats_a, floats_b, floats_sums; /* memory of a product */
    float *memory; /* of product after product, or of worker after worker */
} batch;

static product product_of(const batch *all, tg_ctx *ctx, int64_t index, int64_t slot)
{
    product g = all->sizes;
    g.ctx = ctx;
    g.a = matrix_of(all->args->a, all->args->trans_a, index);
    g.b = matrix_of(all->args->b, all->args->trans_b, index);
    g.c = matrix_of(all->args->c, 0, index);
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
    g->most_mb = even_part(g->m, MB, MR);
    g->most_nb = even_part(g->n, NB, NR);
    g->most_kb = even_part(g->k, KB, 4);
    const int needs_sums = tg_type_of(all->args->c) != TG_F32 && g->most_kb < g->k;
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
    return TG_OK;
}

/* k = 0, or alpha = 0 */
static void clear(const tg_gemm_args *args)
{
    const int64_t m = gemm_rows(args->c), products = gemm_products(args);
    for (int64_t i = 0; i < products * m; i++) {
        const matrix c = matrix_of(args->c, 0, i / m);
        memset((char *)element(&c, i % m, 0), 0, (size_t)(gemm_cols(args->c) * el_size(c.type)));
    }
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
    if (tg_numel(args->c) == 0)
        return TG_OK;
    if (all.sizes.k > 0)
        return run_products(ctx, &all);
    if (args->beta == 0 && !tg_reserving(ctx))
        clear(args);
    return TG_OK;
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return run(ctx, &all);
}

TG_CPU_IMPLS(gemm) = {
    TG_CPU_IMPL(gemm, run),
    TG_CPU_IMPL(batched_gemm, run_batch),
    TG_IMPLS_END,
};
