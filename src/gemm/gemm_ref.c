/* gemm, batched_gemm, plainly: the definition in double precision. */
#include "gemm_batch.h"

/* A matrix, or its transpose. */
typedef struct matrix {
    const void *data;
    int type;
    int64_t down, right; /* from an element to its neighbours */
} matrix;

static matrix matrix_of(const tg_tensor *t, int64_t trans, int64_t index)
{
    const int64_t stride = gemm_stride(t);
    return (matrix){gemm_data(t, index), tg_type_of(t), trans ? 1 : stride, trans ? stride : 1};
}

static double get(const matrix *x, int64_t i, int64_t j)
{
    return tg_get(x->data, x->type, i * x->down + j * x->right);
}

/* symmetric: below the diagonal and on it; the rest is the same. */
static void multiply(const tg_gemm_args *args, int64_t index, int64_t symmetric)
{
    const matrix a = matrix_of(args->a, args->trans_a, index);
    const matrix b = matrix_of(args->b, args->trans_b, index);
    const matrix c = matrix_of(args->c, 0, index);
    const matrix addend = matrix_of(gemm_addend(args), 0, index);
    const int64_t m = gemm_rows(args->c), n = gemm_cols(args->c), k = gemm_inner(args);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < (symmetric ? i + 1 : n); j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += get(&a, i, p) * get(&b, p, j);
            sum *= args->alpha;
            if (args->beta != 0)
                sum += args->beta * get(&addend, i, j);
            tg_set((void *)c.data, c.type, i * c.down + j, sum);
            if (symmetric)
                tg_set((void *)c.data, c.type, j * c.down + i, sum);
        }
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)ctx;
    multiply(args, 0, 0);
    return TG_OK;
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    (void)ctx;
    const tg_gemm_args all = gemm_of_batch(args);
    for (int64_t i = 0; i < gemm_products(&all); i++)
        multiply(&all, i, args->symmetric);
    return TG_OK;
}

TG_REF_IMPLS(gemm) = {TG_REF_IMPL(gemm, run), TG_REF_IMPL(batched_gemm, run_batch), TG_IMPLS_END};
