/* sum_rows as an eager framework runs it: a pass for each elementary step, for each row of y. */
#include "eager/eager.h"

/* Rows r, r + m, r + 2 m ... of t, which are m apart. */
static mat every(const tg_tensor *t, int64_t r, int64_t m)
{
    const tg_rows rows = tg_rows_of(t);
    return eager_view(rows.data + r * rows.stride * (int64_t)tg_type_size(rows.type), rows.type,
                      rows.rows / m, rows.n, rows.stride * m);
}

static tg_status forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t m = tg_rows_of(args->y).rows;
    const double scale = tg_times_factor(args->scale, args->factor);
    for (int64_t r = 0; r < m; r++) {
        const mat x = every(args->x, r, m), y = every(args->y, r, m);
        const mat sum = eager_new(&e, TG_F32, 1, x.cols);
        eager_sum_columns(&e, sum, x);
        if (scale != 1)
            eager_scalar(&e, EAGER_MUL, sum, sum, scale);
        if (args->accumulate)
            eager_binary(&e, EAGER_ADD, y, y, sum);
        else
            eager_unary(&e, EAGER_COPY, y, sum);
        eager_free(&e, sum);
    }
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t m = tg_rows_of(args->dy).rows;
    for (int64_t r = 0; r < m; r++) {
        const mat dx = every(args->dx, r, m);
        eager_fill(&e, dx, tg_times_factor(args->scale, args->factor));
        eager_binary(&e, EAGER_MUL, dx, dx, every(args->dy, r, m));
    }
    return eager_end(&e);
}

TG_UNFUSED_IMPLS(sum_rows) = {TG_UNFUSED_IMPL(sum_rows_forward, forward),
                              TG_UNFUSED_IMPL(sum_rows_backward, backward), TG_IMPLS_END};
