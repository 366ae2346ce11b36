/* gemm, plainly: the definition in double precision. */
#include "core/services.h"

/* A matrix, or its transpose. */
typedef struct matrix {
    const void *data;
    int type;
    int64_t down, right; /* from an element to its neighbours */
} matrix;

static matrix matrix_of(const tg_tensor *t, int64_t trans)
{
    const int64_t stride = tg_stride(t, 0);
    return (matrix){tg_data(t), tg_type_of(t), trans ? 1 : stride, trans ? stride : 1};
}

static double get(const matrix *x, int64_t i, int64_t j)
{
    return tg_get(x->data, x->type, i * x->down + j * x->right);
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)ctx;
    const matrix a = matrix_of(args->a, args->trans_a), b = matrix_of(args->b, args->trans_b);
    const matrix c = matrix_of(args->c, 0);
    const int64_t m = args->c->shape[0], n = args->c->shape[1];
    const int64_t k = args->alpha == 0 ? 0 : args->a->shape[!args->trans_a];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += get(&a, i, p) * get(&b, p, j);
            sum *= args->alpha;
            if (args->beta != 0)
                sum += get(&c, i, j);
            tg_set(tg_data(args->c), c.type, i * c.down + j, sum);
        }
    return TG_OK;
}

TG_REF_IMPLS(gemm) = {TG_REF_IMPL(gemm, run), TG_IMPLS_END};
