/* grouped_gemm, plainly: the definition, group by group, in double. */
#include "grouped/grouped.h"

static double at(const grouped_matrices *m, int64_t transposed, int64_t e, int64_t i, int64_t j)
{
    return tg_get(m->data, m->type, grouped_at(m, transposed, e, i, j));
}

/* The row of a that row j of the product is. */
static int64_t row_of(const tg_tensor *gather, int64_t top_k, int64_t j)
{
    return gather ? ((const int64_t *)tg_data(gather))[j] / top_k : j;
}

static void set_zero(const tg_rows *t, int64_t first)
{
    for (int64_t row = first; row < t->rows; row++)
        for (int64_t i = 0; i < t->n; i++)
            tg_set(t->data, t->type, row * t->stride + i, 0);
}

static tg_status forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    (void)ctx;
    const tg_rows a = tg_rows_of(args->a), c = tg_rows_of(args->c);
    const grouped_matrices b = grouped_matrices_of(args->b);
    const int64_t *offset = tg_data(args->offset), groups = args->b->shape[0];
    for (int64_t e = 0; e < groups; e++)
        for (int64_t j = offset[e]; j < offset[e + 1]; j++)
            for (int64_t n = 0; n < c.n; n++) {
                double sum = 0;
                if (args->bias)
                    sum = tg_get(tg_data(args->bias), tg_type_of(args->bias), e * c.n + n);
                for (int64_t k = 0; k < a.n; k++)
                    sum += tg_row_get(&a, row_of(args->gather, args->top_k, j), k) *
                           at(&b, args->transposed, e, n, k);
                tg_set(c.data, c.type, j * c.stride + n, sum);
            }
    set_zero(&c, offset[groups]);
    return TG_OK;
}

static void row_gradients(const tg_grouped_gemm_backward_args *args)
{
    const tg_rows dc = tg_rows_of(args->dc), da = tg_rows_of(args->da);
    const grouped_matrices b = grouped_matrices_of(args->b);
    const int64_t *offset = tg_data(args->offset), groups = args->b->shape[0];
    for (int64_t e = 0; e < groups; e++)
        for (int64_t j = offset[e]; j < offset[e + 1]; j++)
            for (int64_t k = 0; k < da.n; k++) {
                double sum = 0;
                for (int64_t n = 0; n < dc.n; n++)
                    sum += tg_row_get(&dc, j, n) * at(&b, args->transposed, e, n, k);
                tg_set(da.data, da.type, j * da.stride + k, sum);
            }
    set_zero(&da, offset[groups]);
}

static void put(void *data, int type, int64_t i, double value, int64_t accumulate)
{
    tg_set(data, type, i, value + (accumulate ? tg_get(data, type, i) : 0));
}

/* The gradient of row n of a group's matrix, and of its bias. */
static void matrix_gradients(const tg_grouped_gemm_backward_args *args, int64_t e, int64_t n)
{
    const tg_rows dc = tg_rows_of(args->dc), a = tg_rows_of(args->a);
    const grouped_matrices db = grouped_matrices_of(args->db);
    const int64_t *offset = tg_data(args->offset);
    for (int64_t k = 0; args->db && k < a.n; k++) {
        double sum = 0;
        for (int64_t j = offset[e]; j < offset[e + 1]; j++)
            sum += tg_row_get(&dc, j, n) * tg_row_get(&a, row_of(args->gather, args->top_k, j), k);
        put(db.data, db.type, grouped_at(&db, args->transposed, e, n, k), sum, args->accumulate);
    }
    double dbias = 0;
    for (int64_t j = offset[e]; j < offset[e + 1]; j++)
        dbias += tg_row_get(&dc, j, n);
    if (args->dbias)
        put(tg_data(args->dbias), tg_type_of(args->dbias), e * dc.n + n, dbias, args->accumulate);
}

static tg_status backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    (void)ctx;
    if (args->da)
        row_gradients(args);
    for (int64_t e = 0; e < args->b->shape[0]; e++)
        for (int64_t n = 0; n < args->dc->shape[1]; n++)
            matrix_gradients(args, e, n);
    return TG_OK;
}

TG_REF_IMPLS(grouped_gemm) = {TG_REF_IMPL(grouped_gemm_forward, forward),
                              TG_REF_IMPL(grouped_gemm_backward, backward), TG_IMPLS_END};
