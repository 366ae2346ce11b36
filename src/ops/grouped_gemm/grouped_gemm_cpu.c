/* grouped_gemm on the CPU: what its products write; src/grouped has the products. */
#include "grouped/grouped_cpu.h"

typedef struct output {
    char *data;
    el type;
    int64_t stride;
    int64_t matrix_rows; /* of a group's matrix; 0: rows are those of all groups */
    const float *bias;   /* of each group, or NULL */
    int64_t accumulate;
} output;

static output output_of(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    return (output){.data = rows.data, .type = (el)tg_el(rows.type), .stride = rows.stride};
}

SIMD_INLINE void write_rows(el e, const output *o, const grouped_product *p, const grouped_block *b)
{
    const float *bias = o->bias ? o->bias + b->group * p->cols + b->col : NULL;
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t row = b->group * o->matrix_rows + b->row + i;
        char *to = o->data + (row * o->stride + b->col) * el_size(e);
        const float *sums = b->sums + i * b->stride;
        if (o->accumulate)
            grouped_add_row(e, to, sums, b->cols);
        else
            grouped_write_row(e, to, sums, bias, b->cols);
    }
}

static void write_block(const grouped_product *p, const grouped_block *b)
{
    const output *o = p->arg;
    EL_SPECIALIZE(o->type, write_rows, o, p, b);
}

static tg_status forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    const grouped_matrices b = grouped_matrices_of(args->b);
    output o = output_of(args->c);
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
        .write = write_block,
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
    const output o = output_of(args->da);
    const grouped_product p = {
        .groups = args->b->shape[0],
        .offset = tg_data(args->offset),
        .left = grouped_factor_of(args->dc, NULL, 1),
        .right = grouped_factor_of(args->b, NULL, 1),
        .terms_are_rows = args->transposed == 0,
        .right_rows = b.rows,
        .cols = args->da->shape[1],
        .terms = args->dc->shape[1],
        .write = write_block,
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
    output o = output_of(args->db);
    o.matrix_rows = db.rows;
    o.accumulate = args->accumulate;
    const grouped_product p = {
        .by_group = 1,
        .groups = args->b->shape[0],
        .offset = tg_data(args->offset),
        .left = args->transposed ? a : dc,
        .right = args->transposed ? dc : a,
        .rows = db.rows,
        .cols = db.cols,
        .write = write_block,
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
