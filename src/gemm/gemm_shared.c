/* src/gemm/gemm_shared.c - cuts products into blocks. */
#include <string.h>

#include "gemm_blocks.h"

enum {
    BLOCK = 1024,               /* most rows and columns of a block */
    GOOD_BLOCK = 192,           /* smaller ones run slower */
    LEAST_BLOCK = 128,          /* if processors would have none */
    BLOCK_UNIT = 64,            /* cuts are multiples of it */
    FEW_BLOCKS = 4,             /* wanted at least, to share the work */
    BLOCKS = 4,                 /* wanted of a processor: the fast ones do more */
    MANY_BLOCKS = 16,           /* from so many on an odd one makes no difference */
    MIN_WORK = 128 * 128 * 128, /* multiplications that a block is worth */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

call gemm_block(const gemm_blocks *g, int64_t index, const char **a, const char **b, char **c)
{
    const call *w = &g->whole;
    const int64_t i = index % g->down * g->rows, j = index / g->down * g->cols;
    *a = g->a + (w->trans_a ? i : i * w->ld_a) * g->size;
    *b = g->b + (w->trans_b ? j * w->ld_b : j) * g->size;
    *c = g->c + (i * w->ld_c + j) * g->c_size;
    call block = *w;
    block.m = w->m - i < g->rows ? w->m - i : g->rows;
    block.n = w->n - j < g->cols ? w->n - j : g->cols;
    return block;
}

/* 1 to halve blocks of rows x cols, `blocks` by now. Few processors get large blocks, of which they do more in a second. */
static int halve(int64_t blocks, int64_t rows, int64_t cols, int64_t k)
{
    const int64_t processors = tg_processors(), side = rows > cols ? rows : cols;
    const int64_t good = BLOCK / processors > GOOD_BLOCK ? BLOCK / processors : GOOD_BLOCK;
    if (blocks < FEW_BLOCKS)
        return rows * cols * k >= 2 * MIN_WORK;
    if (blocks < processors && side >= 2 * LEAST_BLOCK && rows * cols * k >= 2 * MIN_WORK)
        return 1;
    return blocks < BLOCKS * processors && side >= 2 * good;
}

static void cut(gemm_blocks *g)
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
    g->down = ceil_div(m, g->rows);
    g->across = ceil_div(n, g->cols);
}

/* Row stride; a single row may have any. */
static int64_t stride_of(const tg_tensor *t)
{
    if (t->shape[0] > 1)
        return tg_stride(t, 0);
    return t->shape[1] > 0 ? t->shape[1] : 1;
}

gemm_blocks gemm_cut(const tg_gemm_args *args)
{
    const int type = tg_type_of(args->a), c_type = tg_type_of(args->c);
    gemm_blocks g = {.whole = {.m = args->c->shape[0],
                               .n = args->c->shape[1],
                               .k = args->a->shape[!args->trans_a],
                               .ld_a = stride_of(args->a),
                               .ld_b = stride_of(args->b),
                               .ld_c = stride_of(args->c),
                               .trans_a = (int32_t)args->trans_a,
                               .trans_b = (int32_t)args->trans_b,
                               .c_type = c_type,
                               .beta = (float)args->beta},
                     .a = tg_data(args->a),
                     .b = tg_data(args->b),
                     .c = tg_data(args->c),
                     .size = (int64_t)tg_type_size(type),
                     .c_size = (int64_t)tg_type_size(c_type),
                     .type = type};
    if (g.whole.m > 0 && g.whole.n > 0 && g.whole.k > 0)
        cut(&g);
    return g;
}

void gemm_scale(const gemm_blocks *g)
{
    if (g->whole.n == 0 || g->whole.beta != 0) /* without columns c may have no memory */
        return;
    for (int64_t i = 0; i < g->whole.m; i++)
        memset(g->c + i * g->whole.ld_c * g->c_size, 0, (size_t)(g->whole.n * g->c_size));
}

static int plain(const tg_tensor *t)
{
    return stride_of(t) >= t->shape[1];
}

int gemm_plain_strides(const tg_gemm_args *args)
{
    return plain(args->a) && plain(args->b); /* no output's rows overlap */
}
