/* src/gemm/gemm_onednn.c - gemm's default implementation: oneDNN, 2.6 or 3.x.
 *
 * c is cut into blocks by the problem's sizes alone; each block is one product of oneDNN on one
 * thread, so that the bits do not depend on the number of threads, and any executor will do. f32
 * goes through dnnl_sgemm. It multiplies an operand by alpha as it copies it, which may overflow, and
 * so this takes an alpha of 1 alone. bf16 goes through the matmul primitive, on processors whose
 * bf16 products are faster than f32's; elsewhere the portable one, which converts as it packs, is.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/ceiling.h"
#include "core/parts.h"
#include "gemm_dnnl.h"

enum {
    BLOCK = 1024,               /* most rows and columns of a block */
    GOOD_BLOCK = 512,           /* smaller ones run slower */
    BLOCK_UNIT = 64,            /* cuts are multiples of it */
    FEW_BLOCKS = 4,             /* wanted at least, to share the work */
    MORE_BLOCKS = 8,            /* wanted if they are good ones */
    MANY_BLOCKS = 16,           /* from so many on an odd one makes no difference */
    MIN_WORK = 128 * 128 * 128, /* multiplications that a block is worth */
};

typedef struct product product;

/* Computes one block; 0 if oneDNN found no memory. */
typedef int block_fn(const product *g, const call *w, const char *a, const char *b, char *c,
                     int worker);

struct product {
    call whole;
    block_fn *run_block;
    const char *a, *b;
    char *c;
    int64_t size, c_size; /* bytes of an element */
    int type;
    int64_t rows, cols; /* of a block */
    const gemm_matmul *matmul[4];
    tg_status found; /* of all of them */
    char *scratch;
    int64_t scratch_bytes; /* of a worker */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Block `index` of the product, and where its operands start. */
static call block_of(const product *g, int64_t index, const char **a, const char **b, char **c)
{
    const call *w = &g->whole;
    const int64_t down = ceil_div(w->m, g->rows);
    const int64_t i = index % down * g->rows, j = index / down * g->cols;
    *a = g->a + (w->trans_a ? i : i * w->ld_a) * g->size;
    *b = g->b + (w->trans_b ? j * w->ld_b : j) * g->size;
    *c = g->c + (i * w->ld_c + j) * g->c_size;
    call block = *w;
    block.m = w->m - i < g->rows ? w->m - i : g->rows;
    block.n = w->n - j < g->cols ? w->n - j : g->cols;
    return block;
}

/* What runs if oneDNN finds no memory of its own in the midst of a product: it has not touched the
 * block then, but others may be written, so that it is too late for an error.
 * no case: oneDNN finds memory where the checker runs */
static void plain_block(const product *g, const call *w, const char *a, const char *b, char *c)
{
    for (int64_t i = 0; i < w->m; i++)
        for (int64_t j = 0; j < w->n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < w->k; p++)
                sum += tg_get(a, g->type, w->trans_a ? p * w->ld_a + i : i * w->ld_a + p) *
                       tg_get(b, g->type, w->trans_b ? j * w->ld_b + p : p * w->ld_b + j);
            const int64_t at = i * w->ld_c + j;
            if (w->beta != 0)
                sum += tg_get(c, w->c_type, at);
            tg_set(c, w->c_type, at, sum);
        }
}

/* oneDNN 2.6 has kernels that move the stack pointer into their own buffer on the heap. A signal that
 * the thread handled meanwhile would be written below it, over somebody's memory; so it waits. */
static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void take_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int worker)
{
    const product *g = arg;
    sigset_t before;
    hold_signals(&before);
    for (int64_t n = begin; n < end; n++) {
        const char *a, *b;
        char *c;
        const call w = block_of(g, n, &a, &b, &c);
        if (!g->run_block(g, &w, a, b, c, worker)) /* no case: oneDNN finds memory */
            plain_block(g, &w, a, b, c);           /* no case: as above */
    }
    take_signals(&before);
}

static int run_sgemm(const product *g, const call *w, const char *a, const char *b, char *c,
                     int worker)
{
    (void)g, (void)worker;
    return dnnl_sgemm(w->trans_a ? 'T' : 'N', w->trans_b ? 'T' : 'N', w->m, w->n, w->k, 1.0f,
                      (const float *)a, w->ld_a, (const float *)b, w->ld_b, w->beta, (float *)c,
                      w->ld_c) == dnnl_success;
}

/* ---- bf16 ---- */

/* Blocks come in up to four shapes: whole, at the right, at the bottom, and in the corner. */
static int shape_of(const product *g, const call *block)
{
    return (block->m < g->rows) + 2 * (block->n < g->cols);
}

/* Runs as a task, since primitives are made for the number of threads that they find. */
static void find_matmuls(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end, (void)worker;
    product *g = arg;
    const int64_t down = ceil_div(g->whole.m, g->rows), across = ceil_div(g->whole.n, g->cols);
    const int64_t sample[] = {0, down - 1, (across - 1) * down, across * down - 1};
    for (int i = 0; i < 4; i++) {
        const char *a, *b;
        char *c;
        const call w = block_of(g, sample[i], &a, &b, &c);
        const gemm_matmul **m = &g->matmul[shape_of(g, &w)];
        /* no case: of a failure of oneDNN */
        if (!*m && g->found == TG_OK)
            g->found = gemm_find_matmul(&w, m);
        /* no case: of a failure of oneDNN */
        if (*m && gemm_scratch_bytes(*m) > g->scratch_bytes)
            g->scratch_bytes = gemm_scratch_bytes(*m);
    }
}

static int run_bf16_block(const product *g, const call *w, const char *a, const char *b, char *c,
                          int worker)
{
    char *scratch = g->scratch + worker * g->scratch_bytes;
    return gemm_run_matmul(g->matmul[shape_of(g, w)], w, a, b, c, scratch);
}

static tg_status run_bf16(tg_ctx *ctx, product *g, int64_t blocks)
{
    tg_parallel_for(ctx, 1, 1, find_matmuls, g);
    tg_status status = g->found;
    if (status == TG_ENOMEM)
        tg_fail(status, "oneDNN found no memory for a product"); /* no case: tests/oom has it */
    if (status == TG_OK) {
        g->scratch_bytes = ceil_div(g->scratch_bytes, 4096) * 4096;
        g->scratch = tg_workspace(ctx, (size_t)(g->scratch_bytes * tg_ctx_threads(ctx)));
        status = g->scratch ? TG_OK : TG_ENOMEM;
    }
    if (status == TG_OK && !tg_reserving(ctx))
        tg_parallel_for(ctx, blocks, 1, run_blocks, g);
    for (int i = 0; i < 4; i++)
        gemm_let_go(g->matmul[i]);
    return status;
}

/* ---- calls ---- */

/* 1 to halve blocks of rows x cols, `blocks` by now. */
static int halve(int64_t blocks, int64_t rows, int64_t cols, int64_t k)
{
    if (blocks < FEW_BLOCKS)
        return rows * cols * k >= 2 * MIN_WORK;
    return blocks < MORE_BLOCKS && (rows > cols ? rows : cols) >= 2 * GOOD_BLOCK;
}

/* Cuts c into blocks; returns how many. */
static int64_t cut(product *g)
{
    const int64_t m = g->whole.m, n = g->whole.n;
    int64_t down = ceil_div(m, BLOCK), across = ceil_div(n, BLOCK);
    while (halve(down * across, m / down, n / across, g->whole.k)) {
        if (m / down > n / across)
            down *= 2;
        else
            across *= 2;
    }
    if (down * across > 1 && down * across < MANY_BLOCKS && down * across % 2)
        across++;
    g->rows = ceil_div(ceil_div(m, down), BLOCK_UNIT) * BLOCK_UNIT;
    g->cols = ceil_div(ceil_div(n, across), BLOCK_UNIT) * BLOCK_UNIT;
    return ceil_div(m, g->rows) * ceil_div(n, g->cols);
}

/* Row stride; a single row may have any. */
static int64_t stride_of(const tg_tensor *t)
{
    if (t->shape[0] > 1)
        return tg_stride(t, 0);
    return t->shape[1] > 0 ? t->shape[1] : 1;
}

static void scale_c(const product *g)
{
    if (g->whole.n == 0 || g->whole.beta != 0) /* without columns c may have no memory */
        return;
    for (int64_t i = 0; i < g->whole.m; i++)
        memset(g->c + i * g->whole.ld_c * g->c_size, 0, (size_t)(g->whole.n * g->c_size));
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    const int type = tg_type_of(args->a), c_type = tg_type_of(args->c);
    product g = {.whole = {.m = args->c->shape[0],
                           .n = args->c->shape[1],
                           .k = args->a->shape[!args->trans_a],
                           .ld_a = stride_of(args->a),
                           .ld_b = stride_of(args->b),
                           .ld_c = stride_of(args->c),
                           .trans_a = (int32_t)args->trans_a,
                           .trans_b = (int32_t)args->trans_b,
                           .c_type = c_type,
                           .beta = (float)args->beta},
                 .run_block = type == TG_BF16 ? run_bf16_block : run_sgemm,
                 .a = tg_data(args->a),
                 .b = tg_data(args->b),
                 .c = tg_data(args->c),
                 .size = (int64_t)tg_type_size(type),
                 .c_size = (int64_t)tg_type_size(c_type),
                 .type = type};
    const int empty = g.whole.m == 0 || g.whole.n == 0 || g.whole.k == 0;
    const int64_t blocks = empty ? 0 : cut(&g);
    if (!empty && type == TG_BF16)
        return run_bf16(ctx, &g, blocks);
    if (tg_reserving(ctx))
        return TG_OK;
    if (empty)
        scale_c(&g);
    tg_parallel_for(ctx, blocks, 1, run_blocks, &g);
    return TG_OK;
}

/* Row strides that BLAS knows: none shorter than a row. */
static int plain_stride(const tg_tensor *t)
{
    return stride_of(t) >= t->shape[1];
}

static int accepts(const tg_gemm_args *args)
{
    if (args->alpha != 1 || !gemm_isa_takes(tg_type_of(args->a)))
        return 0;
    return plain_stride(args->a) && plain_stride(args->b); /* no output's rows overlap */
}

const tg_impl tg_impls_gemm_onednn[] = {
    TG_IMPL(gemm, "onednn", TG_CPU_PROCESS, TG_TAKES_FLOATS, accepts, run), TG_IMPLS_END};
