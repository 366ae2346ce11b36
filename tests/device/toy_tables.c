/* toy_tables.c - embedding, gemm, and sum_rows. Indices lie in device memory: no check has seen them. */
#include <stdlib.h>

#include "toy.h"

/* The row of the table that position i names; -1 if there is none. */
static int64_t row_of(const toy_call *call, const tg_tensor *indices, int64_t i, int64_t count)
{
    const int64_t row = ((const int64_t *)indices->data)[i];
    if (row >= 0 && row < count)
        return row;
    toy_out_of_range(call, "indices", i, row, count);
    return -1;
}

static void embedding(toy_call *call)
{
    const tg_embedding_forward_args *a = (const void *)call->slot;
    const tg_rows w = tg_rows_of(a->weight), y = tg_rows_of(a->y);
    for (int64_t i = 0; i < y.rows; i++) {
        const int64_t row = row_of(call, a->indices, i, w.rows);
        for (int64_t j = 0; row >= 0 && j < w.n; j++)
            toy_set(&y, i, j, toy_get(&w, row, j));
    }
}

/* Sums in f64, in the workspace. */
static void embedding_gradient(toy_call *call)
{
    const tg_embedding_backward_args *a = (const void *)call->slot;
    const tg_rows dy = tg_rows_of(a->dy), dw = tg_rows_of(a->dweight);
    double *sum = call->scratch;
    for (int64_t i = 0; i < dw.rows; i++)
        for (int64_t j = 0; j < dw.n; j++)
            sum[i * dw.n + j] = a->accumulate ? toy_get(&dw, i, j) : 0;
    for (int64_t i = 0; i < dy.rows; i++) {
        const int64_t row = row_of(call, a->indices, i, dw.rows);
        for (int64_t j = 0; row >= 0 && j < dw.n; j++)
            sum[row * dw.n + j] += toy_get(&dy, i, j);
    }
    for (int64_t i = 0; i < dw.rows; i++)
        for (int64_t j = 0; j < dw.n; j++)
            toy_set(&dw, i, j, sum[i * dw.n + j]);
}

/* Its elements, row by row. */
static double *widened(const tg_rows *t)
{
    double *x = malloc((size_t)(t->rows * t->n + 1) * sizeof *x);
    for (int64_t i = 0; x && i < t->rows * t->n; i++)
        x[i] = toy_get(t, i / t->n, i % t->n);
    return x;
}

static void gemm(toy_call *call)
{
    const tg_gemm_args *g = (const void *)call->slot;
    const tg_rows a = tg_rows_of(g->a), b = tg_rows_of(g->b), c = tg_rows_of(g->c);
    const int64_t k = g->alpha == 0 ? 0 : g->trans_a ? a.rows : a.n;
    const int64_t a_row = g->trans_a ? 1 : a.n, a_step = g->trans_a ? a.n : 1;
    const int64_t b_column = g->trans_b ? b.n : 1, b_step = g->trans_b ? 1 : b.n;
    double *x = widened(&a), *y = widened(&b);
    for (int64_t i = 0; x && y && i < c.rows; i++)
        for (int64_t j = 0; j < c.n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += x[i * a_row + p * a_step] * y[j * b_column + p * b_step];
            sum *= g->alpha;
            if (g->beta != 0)
                sum += g->beta * toy_get(&c, i, j);
            toy_set(&c, i, j, sum);
        }
    free(x);
    free(y);
}

static double times_factor(double scale, const tg_tensor *factor)
{
    const tg_rows f = tg_rows_of(factor);
    return f.data ? scale * toy_get(&f, 0, 0) : scale;
}

static void sum_rows(toy_call *call)
{
    const tg_sum_rows_forward_args *a = (const void *)call->slot;
    const tg_rows x = tg_rows_of(a->x), y = tg_rows_of(a->y);
    const double scale = times_factor(a->scale, a->factor);
    for (int64_t i = 0; i < y.rows; i++)
        for (int64_t j = 0; j < y.n; j++) {
            double sum = 0;
            for (int64_t r = 0; r < a->x->shape[0]; r++)
                sum += toy_get(&x, r * y.rows + i, j);
            toy_set(&y, i, j, scale * sum + (a->accumulate ? toy_get(&y, i, j) : 0));
        }
}

static void same_in_every_row(toy_call *call)
{
    const tg_sum_rows_backward_args *a = (const void *)call->slot;
    const tg_rows dy = tg_rows_of(a->dy), dx = tg_rows_of(a->dx);
    const double scale = times_factor(a->scale, a->factor);
    for (int64_t i = 0; i < dx.rows; i++)
        for (int64_t j = 0; j < dx.n; j++)
            toy_set(&dx, i, j, scale * toy_get(&dy, i % dy.rows, j));
}

TOY_FUNCTION(embedding_forward, embedding, 0)
TOY_FUNCTION(embedding_backward, embedding_gradient,
             (size_t)tg_numel(args->dweight) * sizeof(double))
TOY_FUNCTION(gemm, gemm, 0)
TOY_FUNCTION(sum_rows_forward, sum_rows, 0)
TOY_FUNCTION(sum_rows_backward, same_in_every_row, 0)

const tg_impl toy_table_impls[] = {
    TG_IMPL(embedding_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_embedding_forward),
    TG_IMPL(embedding_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_embedding_backward),
    TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, NULL, toy_gemm),
    TG_IMPL(sum_rows_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_sum_rows_forward),
    TG_IMPL(sum_rows_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_sum_rows_backward),
    TG_IMPLS_END,
};
