/* grouped_gemm on the CPU: which products its directions are; src/grouped has the products. */
#include "grouped/grouped_cpu.h"

static tg_status forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    const grouped_matrices b = grouped_matrices_of(args->b);
    grouped_output o = grouped_output_of(args->c);
    TG_TRY(grouped_floats(ctx, args->bias, &o.bias));
    const grouped_product p = {
        .groups = args->b->shape[0],
        .offset = tg_data(args->offset),
        .left = grouped_factor_of(args->a, tg_data(args->gather), args->top_k),
        .right = grouped_factor_of(args->b, NULL, 1),
        .terms_are_rows = args->transposed != 0,
        .right_rows = b.rows,
        .cols = args->c->shape[1],
        .terms = args->a->shape[1],
        .write = grouped_write,
        .arg = &o,
    };
    grouped_memory memory;
    TG_TRY(grouped_reserve(ctx, p.groups, &memory));
    grouped_run(ctx, &memory, &p);
    grouped_clear(ctx, args->c, p.offset[p.groups]);
    return TG_OK;
}

static void row_gradients(tg_ctx *ctx, const grouped_memory *memory,
                          const tg_grouped_gemm_backward_args *args)
{
    if (!args->da)
        return;
    const grouped_matrices b = grouped_matrices_of(args->b);
    const grouped_output o = grouped_output_of(args->da);
    const grouped_product p = {
        .groups = args->b->shape[0],
        .offset = tg_data(args->offset),
        .left = grouped_factor_of(args->dc, NULL, 1),
        .right = grouped_factor_of(args->b, NULL, 1),
        .terms_are_rows = args->transposed == 0,
        .right_rows = b.rows,
        .cols = args->da->shape[1],
        .terms = args->dc->shape[1],
        .write = grouped_write,
        .arg = &o,
    };
    grouped_run(ctx, memory, &p);
    grouped_clear(ctx, args->da, p.offset[p.groups]);
}

static void matrix_gradients(tg_ctx *ctx, const grouped_memory *memory,
                             const tg_grouped_gemm_backward_args *args)
{
    if (!args->db)
        return;
    const grouped_matrices db = grouped_matrices_of(args->db);
    const grouped_factor a = grouped_factor_of(args->a, tg_data(args->gather), args->top_k);
    const grouped_factor dc = grouped_factor_of(args->dc, NULL, 1);
    const grouped_output o = grouped_gradient_of(args->db, args->accumulate);
    const grouped_product p = {
        .by_group = 1,
        .groups = args->b->shape[0],
        .offset = tg_data(args->offset),
        .left = args->transposed ? a : dc,
        .right = args->transposed ? dc : a,
        .rows = db.rows,
        .cols = db.cols,
        .write = grouped_write,
        .arg = &o,
    };
    grouped_run(ctx, memory, &p);
}

static tg_status backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    const grouped_factor dc = grouped_factor_of(args->dc, NULL, 1);
    grouped_memory memory;
    TG_TRY(grouped_reserve(ctx, args->b->shape[0], &memory));
    row_gradients(ctx, &memory, args);
    matrix_gradients(ctx, &memory, args);
    grouped_sum_rows(ctx, &dc, NULL, args->b->shape[0], tg_data(args->offset), args->dbias,
                     args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(grouped_gemm) = {
    TG_CPU_IMPL_IF(grouped_gemm_forward, GROUPED_TAKES, NULL, forward),
    TG_CPU_IMPL_IF(grouped_gemm_backward, GROUPED_TAKES, NULL, backward),
    TG_IMPLS_END,
};
