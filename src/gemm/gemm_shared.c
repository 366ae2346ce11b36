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

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

call gemm_block(const gemm_blocks *g, int64_t index, const char **a, const char **b, char **c)
{
    const call *w = &g->whole;
    const int64_t product = index / (g->down * g->across);
    const int64_t i = index % g->down * g->rows, j = index / g->down % g->across * g->cols;
    *a = gemm_data(g->args->a, product) + (w->trans_a ? i : i * w->ld_a) * g->size;
    *b = gemm_data(g->args->b, product) + (w->trans_b ? j * w->ld_b : j) * g->size;
    *c = gemm_data(g->args->c, product) + (i * w->ld_c + j) * g->c_size;
    call block = *w;
    block.m = min64(g->rows, w->m - i);
    block.n = min64(g->cols, w->n - j);
    return block;
}

/* 1 to halve blocks of rows x cols, `blocks` of all products by now. Few processors get large
 * blocks, of which they do more in a second. */
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
    while (halve(g->products * down * across, m / down, n / across, g->whole.k)) {
        if (m / down > n / across)
            down *= 2;
        else
            across *= 2;
    }
    if (g->products == 1 && down * across > 1 && down * across < MANY_BLOCKS && down * across % 2)
        across++;
    g->rows = ceil_div(ceil_div(m, down), BLOCK_UNIT) * BLOCK_UNIT;
    g->cols = ceil_div(ceil_div(n, across), BLOCK_UNIT) * BLOCK_UNIT;
    g->down = ceil_div(m, g->rows);
    g->across = ceil_div(n, g->cols);
    g->count = g->products * g->down * g->across;
}

/* Row stride; a single row may have any. */
static int64_t stride_of(const tg_tensor *t)
{
    if (gemm_rows(t) > 1)
        return gemm_stride(t);
    return gemm_cols(t) > 0 ? gemm_cols(t) : 1;
}

gemm_blocks gemm_cut(const tg_gemm_args *args)
{
    const int type = tg_type_of(args->a), c_type = tg_type_of(args->c);
    gemm_blocks g = {.args = args,
                     .whole = {.m = gemm_rows(args->c),
                               .n = gemm_cols(args->c),
                               .k = gemm_inner(args),
                               .ld_a = stride_of(args->a),
                               .ld_b = stride_of(args->b),
                               .ld_c = stride_of(args->c),
                               .trans_a = (int32_t)args->trans_a,
                               .trans_b = (int32_t)args->trans_b,
                               .c_type = c_type,
                               .beta = args->beta != 0},
                     .products = gemm_products(args),
                     .size = (int64_t)tg_type_size(type),
                     .c_size = (int64_t)tg_type_size(c_type),
                     .type = type};
    if (g.products > 0 && g.whole.m > 0 && g.whole.n > 0 && g.whole.k > 0)
        cut(&g);
    return g;
}

int gemm_adds_to_c(const tg_gemm_args *args)
{
    return !args->addend || args->beta == 0 || tg_type_of(args->c) == TG_F32;
}

void gemm_begin_block(const gemm_blocks *g, int64_t index, char *c)
{
    const tg_gemm_args *args = g->args;
    const tg_tensor *from = args->addend;
    if (!from || args->beta == 0)
        return;
    const int64_t product = index / (g->down * g->across);
    const int64_t i0 = index % g->down * g->rows, j0 = index / g->down % g->across * g->cols;
    const int64_t rows = min64(g->rows, g->whole.m - i0), cols = min64(g->cols, g->whole.n - j0);
    const char *data = gemm_data(from, product);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            ((float *)c)[i * g->whole.ld_c + j] =
                (float)(args->beta *
                        tg_get(data, tg_type_of(from), (i0 + i) * gemm_stride(from) + j0 + j));
}

void gemm_add_alone(const tg_gemm_args *args)
{
    const int64_t m = gemm_rows(args->c), n = gemm_cols(args->c);
    const tg_tensor *from = args->addend, *c = args->c;
    if (n == 0 || (args->beta != 0 && !from)) /* without columns c may have no memory */
        return;
    for (int64_t i = 0; i < gemm_products(args) * m; i++) {
        const int64_t row = i % m * gemm_stride(c);
        char *to = gemm_data(c, i / m);
        if (args->beta == 0) {
            const int64_t size = (int64_t)tg_type_size(tg_type_of(c));
            memset(to + row * size, 0, (size_t)(n * size));
            continue;
        }
        const char *data = gemm_data(from, i / m);
        for (int64_t j = 0; j < n; j++)
            tg_set(to, tg_type_of(c), row + j,
                   args->beta * tg_get(data, tg_type_of(from), i % m * gemm_stride(from) + j));
    }
}

static int plain(const tg_tensor *t)
{
    return stride_of(t) >= gemm_cols(t);
}

int gemm_plain_strides(const tg_gemm_args *args)
{
    return plain(args->a) && plain(args->b); /* no output's rows overlap */
}
