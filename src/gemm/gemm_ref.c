/* gemm, plainly: the definition in double precision. */
#include "core/services.h"

/* Element (i, j) of a matrix, or of its transpose. */
static double get(const tg_tensor *t, int64_t i, int64_t j, int64_t trans)
{
    const int64_t stride = tg_stride(t, 0);
    return tg_get(tg_data(t), tg_type_of(t), trans ? j * stride + i : i * stride + j);
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)ctx;
    tg_tensor *c = args->c;
    const int64_t m = c->shape[0], n = c->shape[1], k = args->a->shape[!args->trans_a];
    const double alpha = args->alpha == 0 ? 1 : args->alpha;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += get(args->a, i, p, args->trans_a) * get(args->b, p, j, args->trans_b);
            sum *= alpha;
            if (args->beta != 0)
                sum += get(c, i, j, 0);
            tg_set(tg_data(c), tg_type_of(c), i * tg_stride(c, 0) + j, sum);
        }
    return TG_OK;
}

TG_REF_ROWS(gemm) = {TG_REF_ROW(gemm, run), TG_ROWS_END};
