/* sum_rows as an eager framework runs it: a pass for each elementary step, for each row of y. */
#include "eager.h"

/* Rows r, r + m, r + 2 m ... of t, which are m apart. */
static mat every(const tg_tensor *t, int64_t r, int64_t m)
{
    const mat all = eager_rows(t);
    return eager_view(element_at(all.data, all.type, r * all.stride), all.type, all.rows / m,
                      all.cols, all.stride * m);
}

static double scale_of(double scale, const tg_tensor *factor)
{
    return factor ? scale * element_of(tg_data(factor), tg_type_of(factor), 0) : scale;
}

static tg_status forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t m = eager_rows(args->y).rows;
    const double scale = scale_of(args->scale, args->factor);
    for (int64_t r = 0; r < m; r++) {
        const mat x = every(args->x, r, m), y = every(args->y, r, m);
        const mat sum = eager_new(&e, TG_F32, 1, x.cols);
        eager_sum_columns(&e, sum, x);
        if (scale != 1)
            eager_scalar(&e, EAGER_MUL, sum, sum, scale);
        eager_put(&e, y, sum, args->accumulate);
        eager_free(&e, sum);
    }
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t m = eager_rows(args->dy).rows;
    for (int64_t r = 0; r < m; r++) {
        const mat dx = every(args->dx, r, m);
        eager_fill(&e, dx, scale_of(args->scale, args->factor));
        eager_binary(&e, EAGER_MUL, dx, dx, every(args->dy, r, m));
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(sum_rows) = {UNFUSED_IMPL(sum_rows_forward, forward),
                           UNFUSED_IMPL(sum_rows_backward, backward), TG_IMPLS_END};
