/* src/gemm/gemm_matrix.h - the matrices of a product, and how it is cut, for the
 * implementations of our own. */
#ifndef TG_GEMM_MATRIX_H
#define TG_GEMM_MATRIX_H

#include "gemm_batch.h"
#include "simd.h"

typedef struct matrix {
    char *data;
    el type;
    int trans;
    int64_t ld;
} matrix;

SIMD_INLINE int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

SIMD_INLINE int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Part `index` of n cut into the fewest parts of at most `most`, all multiples of `unit` but the
 * last: parts of one size balance better than many of `most` and a small rest. */
SIMD_INLINE int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    const int64_t parts = ceil_div(n, most);
    return ceil_div(ceil_div(n, parts), unit) * unit;
}

SIMD_INLINE const char *element(const matrix *m, int64_t row, int64_t col)
{
    return m->data + (row * m->ld + col) * el_size(m->type);
}

/* Number `index` of a batch. */
SIMD_INLINE matrix matrix_of(const tg_tensor *t, int64_t trans, int64_t index)
{
    return (matrix){gemm_data(t, index), (el)tg_el(tg_type_of(t)), trans != 0, gemm_stride(t)};
}

/* One product of a call: c = alpha a b + beta addend. */
typedef struct gemm_product {
    tg_ctx *ctx; /* whose threads share it; NULL: this one does it */
    int64_t m, n, k;
    matrix a, b, c, addend; /* addend: c itself, unless there is another */
    float alpha, beta;
} gemm_product;

static inline gemm_product gemm_product_of(const tg_gemm_args *args, tg_ctx *ctx, int64_t index)
{
    return (gemm_product){.ctx = ctx,
                          .m = gemm_rows(args->c),
                          .n = gemm_cols(args->c),
                          .k = gemm_inner(args),
                          .a = matrix_of(args->a, args->trans_a, index),
                          .b = matrix_of(args->b, args->trans_b, index),
                          .c = matrix_of(args->c, 0, index),
                          .addend = matrix_of(gemm_addend(args), 0, index),
                          .alpha = (float)args->alpha,
                          .beta = (float)args->beta};
}

/* 1 if each product of a batch is the work of one thread, with scratch memory of its own: where it
 * has too little work to be shared, or where nearly all threads have something to do until the end.
 * Otherwise all threads work on one after the other. */
static inline int one_thread_each(const tg_gemm_args *args, int64_t threads)
{
    enum { RESULTS = 1 << 18, FACTOR = 1 << 20, WORK = 1 << 20 /* multiplications of a thread */ };
    const int64_t m = gemm_rows(args->c), n = gemm_cols(args->c), k = gemm_inner(args);
    const int64_t products = gemm_products(args);
    return products > 1 && m * n <= RESULTS && m * k <= FACTOR && n * k <= FACTOR &&
           (m * n * k <= WORK * threads ||
            4 * products >= 3 * threads * ceil_div(products, threads));
}

/* How many of such products are worth a task: as many as take some microseconds, of which each
 * has some for itself. */
static inline int64_t products_of_task(const tg_gemm_args *args)
{
    enum { TASK = 1 << 18, ITSELF = 1 << 14 /* multiplications */ };
    const int64_t work = gemm_rows(args->c) * gemm_cols(args->c) * gemm_inner(args);
    return TASK / (work + ITSELF) + 1;
}

/* fn on [0, n): on the context's threads, or, if ctx is NULL, on this one. */
static inline void share_work(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg)
{
    if (ctx)
        tg_parallel_for(ctx, n, grain, fn, arg);
    else if (n > 0)
        fn(arg, 0, n, 0);
}

/* Multiplies number `index` of a batch by share_work(ctx, ...), in the scratch
 * memory number `slot`. */
typedef void multiply_fn(const void *batch, tg_ctx *ctx, int64_t index, int64_t slot);

typedef struct products {
    const void *batch;
    multiply_fn *multiply;
} products;

static inline void multiply_alone(void *arg, int64_t begin, int64_t end, int worker)
{
    const products *p = arg;
    for (int64_t i = begin; i < end; i++)
        p->multiply(p->batch, NULL, i, worker);
}

/* All products of a call. alone: one_thread_each(), and a slot for each thread;
 * else there is slot 0. */
static inline void multiply_products(tg_ctx *ctx, const tg_gemm_args *args, int alone,
                                     multiply_fn *multiply, const void *batch)
{
    products p = {batch, multiply};
    const int64_t count = gemm_products(args);
    if (alone)
        tg_parallel_for(ctx, count, products_of_task(args), multiply_alone, &p);
    else
        for (int64_t i = 0; i < count; i++)
            multiply(batch, ctx, i, 0);
}

/* Where a step's results come from and go to: the addend or c, or sums between the steps
 * along k. */
typedef struct place {
    char *data; /* of result (i0, j0); NULL: nowhere */
    el type;
    int64_t ld;
    float factor; /* of what comes from there */
} place;

/* Of a step that begins at result (i0, j0) and is the first, or the last, of these results: where
 * they come from, and go to. sums: nb columns of them, or NULL. */
typedef struct places {
    place from, to;
} places;

static inline places places_of(const gemm_product *p, float *sums, int64_t i0, int64_t j0,
                               int64_t nb, int first, int last)
{
    const place none = {0}, c = {(char *)element(&p->c, i0, j0), p->c.type, p->c.ld, 1};
    const place addend = {(char *)element(&p->addend, i0, j0), p->addend.type, p->addend.ld,
                          p->beta};
    const place between = sums ? (place){(char *)sums, EL_F32, nb, 1} : c;
    return (places){first ? p->beta != 0.0f ? addend : none : between, last ? c : between};
}

SIMD_INLINE char *at(const place *p, int64_t i, int64_t j)
{
    return p->data + (i * p->ld + j) * el_size(p->type);
}

/* n elements of what results come from, at element i of a row. The factor is a branch so that a sum
 * without one is a single operation on its product. */
SIMD_INLINE vf addend_at(const place *p, const char *row, int64_t i, int64_t n)
{
    vf x = v_load_n(p->type, row, i, n, 0.0f);
    if (p->factor != 1.0f)
        x *= v_set(p->factor);
    return x;
}

#endif
