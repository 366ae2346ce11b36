/* gemm_block_scaled, plainly: the definition in double precision. */
#include "core/services.h"

enum { BLOCK = 128 };

static tg_status run(tg_ctx *ctx, const tg_gemm_block_scaled_args *args)
{
    (void)ctx;
    const tg_rows a = tg_rows_of(args->a), b = tg_rows_of(args->b), c = tg_rows_of(args->c);
    const tg_rows scale_a = tg_rows_of(args->scale_a), scale_b = tg_rows_of(args->scale_b);
    const int64_t per_scale = scale_b.n == b.rows ? 1 : BLOCK;
    const tg_rows addend = args->addend ? tg_rows_of(args->addend) : c;
    for (int64_t i = 0; i < c.rows; i++)
        for (int64_t j = 0; j < c.n; j++) {
            double sum = args->addend ? tg_row_get(&addend, i, j) : 0;
            for (int64_t first = 0; first < a.n; first += BLOCK) {
                const int64_t end = first + BLOCK < a.n ? first + BLOCK : a.n;
                double block = 0;
                for (int64_t k = first; k < end; k++)
                    block += tg_row_get(&a, i, k) * tg_row_get(&b, j, k);
                sum += tg_row_get(&scale_a, first / BLOCK, i) *
                       tg_row_get(&scale_b, first / BLOCK, j / per_scale) * block;
            }
            tg_set(c.data, c.type, i * c.stride + j, sum);
        }
    return TG_OK;
}

TG_REF_IMPLS(gemm_block_scaled) = {TG_REF_IMPL(gemm_block_scaled, run), TG_IMPLS_END};
