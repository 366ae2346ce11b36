/* grouped_gemm.cu - grouped_gemm on any card (grouped_any.cuh). */
#include "grouped_any.cuh"

static const int64_t *numbers(const tg_tensor *t)
{
    return (const int64_t *)data_of(t);
}

/* Steps in elements of matrices [experts, n, k], or [experts, k, n]. */
struct matrix_steps {
    int64_t matrix, n, k;
};

static matrix_steps steps_of(const tg_tensor *t, int64_t transposed)
{
    const int64_t stride = stride_of(t);
    const matrix_steps s = {t->shape[1] * stride, transposed ? 1 : stride, transposed ? stride : 1};
    return s;
}

static any_operand operand_of(const tg_tensor *a, const tg_tensor *gather, int64_t top_k)
{
    const any_operand o = {span_of(a), numbers(gather), gather ? top_k : 1, a->shape[0], {}};
    return o;
}

static bool is_possible(int64_t rows, int64_t experts)
{
    return rows <= INT32_MAX / 4 && experts <= MOST_EXPERTS;
}

/* NULL, with the error set: there is no memory. */
static int4 *list_of(const cuda_call &call, const int64_t *offset, int64_t experts, int64_t rows)
{
    int4 *const list = (int4 *)cuda_host->device_workspace(
        call.ctx, (size_t)bytes_of_jobs(rows, experts, ANY_TILE));
    if (list)
        launch_jobs(call.stream, offset, (int)experts, (int)rows, list, ANY_TILE, 1);
    return list;
}

static void check(const cuda_call &call, const tg_tensor *a, const tg_tensor *offset,
                  const tg_tensor *gather, int64_t top_k, int64_t rows)
{
    const int64_t experts = offset->shape[0] - 1;
    check_offsets(call, numbers(offset), experts, rows);
    if (gather)
        check_numbers(call, "gather", numbers(gather), numbers(offset) + experts, rows,
                      a->shape[0] * top_k);
}

CUDA_OPERATOR(grouped_gemm_forward, TG_TAKES_FLOATS);

tg_status cuda_grouped_gemm_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    cuda_call call;
    const int64_t experts = args->b->shape[0], rows = args->c->shape[0];
    const int64_t *const offset = numbers(args->offset);
    if (!is_possible(rows, experts))
        return TG_EUNSUPPORTED;
    const tg_status status = cuda_begin(&call, ctx, "grouped_gemm_forward", args->c);
    if (status != TG_OK)
        return status;
    const matrix_steps b = steps_of(args->b, args->transposed);
    any_rows p = {};
    p.list = list_of(call, offset, experts, rows);
    if (!p.list)
        return cuda_end(&call, TG_ENOMEM);
    check(call, args->a, args->offset, args->gather, args->top_k, rows);
    p.a = operand_of(args->a, args->gather, args->top_k);
    p.b = data_of(args->b);
    p.step = b.matrix;
    p.n_step = b.n;
    p.k_step = b.k;
    p.bias = vector_of(args->bias);
    p.c = span_of(args->c);
    p.n = args->c->shape[1];
    p.k = args->a->shape[1];
    by_type(args->a, [&](auto t) {
        using T = decltype(t);
        launch_any_rows<T, T>(call, p, most_jobs(rows, experts, ANY_TILE));
        launch_rest<T>(call, p.c, offset + experts, rows, p.n);
    });
    return cuda_end(&call, TG_OK);
}

static tg_status row_gradients(const cuda_call &call, const tg_grouped_gemm_backward_args *args)
{
    const int64_t experts = args->b->shape[0], rows = args->dc->shape[0];
    const int64_t *const offset = numbers(args->offset);
    const matrix_steps b = steps_of(args->b, args->transposed);
    any_rows p = {};
    p.list = list_of(call, offset, experts, rows);
    if (!p.list)
        return TG_ENOMEM;
    p.a = operand_of(args->dc, NULL, 1);
    p.b = data_of(args->b);
    p.step = b.matrix;
    p.n_step = b.k;
    p.k_step = b.n;
    p.c = span_of(args->da);
    p.n = args->da->shape[1];
    p.k = args->dc->shape[1];
    by_type(args->dc, [&](auto t) {
        using T = decltype(t);
        launch_any_rows<T, T>(call, p, most_jobs(rows, experts, ANY_TILE));
        launch_rest<T>(call, p.c, offset + experts, rows, p.n);
    });
    return TG_OK;
}

static void matrix_gradients(const cuda_call &call, const tg_grouped_gemm_backward_args *args)
{
    const matrix_steps db = steps_of(args->db, args->transposed);
    any_weights p = {};
    p.offset = numbers(args->offset);
    p.a = operand_of(args->dc, NULL, 1);
    p.b = operand_of(args->a, args->gather, args->top_k);
    p.c = data_of(args->db);
    p.step = db.matrix;
    p.m_step = db.n;
    p.n_step = db.k;
    p.m = args->dc->shape[1];
    p.n = args->a->shape[1];
    p.rows = args->dc->shape[0];
    p.accumulate = args->accumulate != 0;
    by_type(args->dc, [&](auto t) {
        launch_any_weights<decltype(t)>(call, p, args->db->shape[0], tg_type_of(args->db));
    });
}

CUDA_OPERATOR(grouped_gemm_backward, TG_TAKES_FLOATS);

tg_status cuda_grouped_gemm_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    cuda_call call;
    const int64_t rows = args->dc->shape[0];
    if (!is_possible(rows, args->b->shape[0]))
        return TG_EUNSUPPORTED;
    tg_status status = cuda_begin(&call, ctx, "grouped_gemm_backward", args->dc);
    if (status != TG_OK)
        return status;
    check(call, args->a, args->offset, args->gather, args->top_k, rows);
    if (args->da)
        status = row_gradients(call, args);
    if (status == TG_OK && args->db)
        matrix_gradients(call, args);
    if (status == TG_OK && args->dbias)
        by_type(args->dc, [&](auto t) {
            launch_any_bias<decltype(t)>(call, numbers(args->offset), operand_of(args->dc, NULL, 1),
                                         args->dbias, rows, args->accumulate);
        });
    return cuda_end(&call, status);
}
