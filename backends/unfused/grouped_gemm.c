/* grouped_gemm as an eager framework runs it: a loop over groups, with a product of each. */
#include "groups.h"

static mat group_rows(eager *e, const tg_tensor *a, const tg_tensor *gather, int64_t top_k,
                      int64_t first, int64_t count)
{
    return gather ? gathered(e, eager_rows(a), tg_data(gather), top_k, first, count)
                  : rows_of(eager_rows(a), first, count);
}

static void clear(eager *e, const tg_tensor *t, int64_t first)
{
    const mat m = eager_rows(t);
    eager_fill(e, rows_of(m, first, m.rows - first), 0);
}

static tg_status forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t *offset = tg_data(args->offset), groups = args->b->shape[0];
    for (int64_t g = 0; g < groups; g++) {
        const int64_t first = offset[g], count = offset[g + 1] - first;
        const mat a = group_rows(&e, args->a, args->gather, args->top_k, first, count);
        const mat c = rows_of(eager_rows(args->c), first, count);
        eager_multiply(&e, c, a, 0, matrix_of(args->b, g), !args->transposed, 0);
        if (args->bias)
            eager_binary(&e, EAGER_ADD, c, c, vector_of(args->bias, g));
        if (args->gather)
            eager_free(&e, a);
    }
    clear(&e, args->c, offset[groups]);
    return eager_end(&e);
}

static void group_gradients(eager *e, const tg_grouped_gemm_backward_args *args, int64_t g)
{
    const int64_t *offset = tg_data(args->offset);
    const int64_t first = offset[g], count = offset[g + 1] - first;
    const mat dc = rows_of(eager_rows(args->dc), first, count);
    if (args->da)
        eager_multiply(e, rows_of(eager_rows(args->da), first, count), dc, 0, matrix_of(args->b, g),
                       args->transposed != 0, 0);
    if (args->db) {
        const mat a = group_rows(e, args->a, args->gather, args->top_k, first, count);
        const int turned = args->transposed != 0;
        put_product(e, matrix_of(args->db, g), turned ? a : dc, 1, turned ? dc : a, 0,
                    args->accumulate);
        if (args->gather)
            eager_free(e, a);
    }
    if (args->dbias)
        eager_gradient(e, vector_of(args->dbias, g), dc, args->accumulate);
}

static tg_status backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t *offset = tg_data(args->offset), groups = args->b->shape[0];
    for (int64_t g = 0; g < groups; g++)
        group_gradients(&e, args, g);
    if (args->da)
        clear(&e, args->da, offset[groups]);
    return eager_end(&e);
}

UNFUSED_IMPLS(grouped_gemm) = {UNFUSED_IMPL(grouped_gemm_forward, forward),
                               UNFUSED_IMPL(grouped_gemm_backward, backward), TG_IMPLS_END};
