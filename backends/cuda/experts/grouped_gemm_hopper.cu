/* grouped_gemm_hopper.cu - grouped_gemm in 16 bits on GPUs of compute capability 9.0
 * (grouped_rows.cuh, grouped_weights.cuh); what is there is added to in f32 alone. */
#include "fused_moe.h"
#include "grouped_any.cuh"
#include "grouped_launch.cuh"

static const int64_t *numbers(const tg_tensor *t)
{
    return (const int64_t *)data_of(t);
}

static bool has_chunks(const tg_tensor *t)
{
    return !t || (has_tiles(t) && width_of(t) % 8 == 0 && width_of(t) > 0 &&
                  width_of(t) <= INT32_MAX / 8);
}

static bool has_sizes(const tg_tensor *rows, const tg_tensor *a, const tg_tensor *b)
{
    return rows->shape[0] > 0 && rows->shape[0] <= INT32_MAX / 4 && a->shape[0] > 0 &&
           b->shape[0] > 0 && b->shape[0] <= MOST_EXPERTS && has_chunks(rows) && has_chunks(a) &&
           has_chunks(b);
}

int cuda_grouped_gemm_forward_sm90_accepts(const tg_grouped_gemm_forward_args *a)
{
    return has_sizes(a->c, a->a, a->b);
}

int cuda_grouped_gemm_backward_sm90_accepts(const tg_grouped_gemm_backward_args *a)
{
    return has_results(a->db, (int)tg_type_of(a->a), a->accumulate) &&
           has_sizes(a->dc, a->a, a->b) && has_chunks(a->da) && has_chunks(a->db);
}

static gathered_rows rows_of_tensor(const tg_tensor *t, const tg_tensor *gather, int64_t top_k)
{
    const gathered_rows r = {data_of(t),      rows_of(t),         width_of(t), stride_of(t),
                             numbers(gather), gather ? top_k : 1, NULL};
    return r;
}

template <class T, int LAYOUT>
static bool multiply(const cuda_call &call, const int4 *list, const gathered_rows &a,
                     const tg_tensor *b, const tg_tensor *bias, const tg_tensor *c)
{
    const int type = tg_type_of(c);
    const int64_t rows = c->shape[0], jobs = most_jobs(rows, b->shape[0]);
    grouped_rows p = {};
    p.list = list;
    p.bias = vector_of(bias);
    p.bias_width = width_of(c);
    if (!map_out(&p.c[0], type, data_of(c), rows, width_of(c), stride_of(c)))
        return false;
    return a.gather ? launch_plain<T, LAYOUT, 1>(call, type, p, jobs, 0, a, expert_matrices_of(b))
                    : launch_plain<T, LAYOUT, 0>(call, type, p, jobs, 0, a, expert_matrices_of(b));
}

/* c = a b, where `across`: the rows of an expert's matrix are of k. Rows behind the last expert's
 * become 0. */
template <class T>
static tg_status rows_product(const cuda_call &call, const gathered_rows &a, const tg_tensor *b,
                              bool across, const tg_tensor *offset, const tg_tensor *bias,
                              const tg_tensor *c)
{
    const int64_t experts = b->shape[0], rows = c->shape[0];
    int4 *const list =
        (int4 *)cuda_host->device_workspace(call.ctx, (size_t)bytes_of_jobs(rows, experts));
    if (!list)
        return TG_ENOMEM;
    launch_jobs(call.stream, numbers(offset), (int)experts, (int)rows, list);
    if (!(across ? multiply<T, B_ACROSS_K>(call, list, a, b, bias, c)
                 : multiply<T, B_LINES>(call, list, a, b, bias, c)))
        return TG_EUNSUPPORTED;
    launch_rest<whole<T>>(call, span_of(c), numbers(offset) + experts, rows, width_of(c));
    return TG_OK;
}

/* run(T()), where the card is one of these. */
template <class F>
static tg_status on_hopper(tg_ctx *ctx, const char *op, const tg_tensor *on, F run)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, on);
    if (status != TG_OK)
        return status;
    if (call.capability != 90)
        return cuda_end(&call, TG_EUNSUPPORTED);
    return cuda_end(&call, tg_type_of(on) == TG_BF16 ? run(call, bf16()) : run(call, f16()));
}

static void check(const cuda_call &call, const tg_tensor *a, const tg_tensor *offset,
                  const tg_tensor *gather, int64_t top_k, int64_t rows, int *taken = NULL)
{
    const int64_t experts = offset->shape[0] - 1;
    check_offsets(call, numbers(offset), experts, rows);
    if (gather)
        check_numbers(call, "gather", numbers(gather), numbers(offset) + experts, rows,
                      a->shape[0] * top_k, taken_rows{taken, top_k, a->shape[0]});
}

tg_status cuda_grouped_gemm_forward_sm90(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    return on_hopper(ctx, "grouped_gemm_forward", args->c, [&](const cuda_call &call, auto t) {
        check(call, args->a, args->offset, args->gather, args->top_k, args->c->shape[0]);
        return rows_product<decltype(t)>(call, rows_of_tensor(args->a, args->gather, args->top_k),
                                         args->b, args->transposed, args->offset, args->bias,
                                         args->c);
    });
}

template <class T>
static tg_status backward(const cuda_call &call, const tg_grouped_gemm_backward_args *args)
{
    gathered_rows a = rows_of_tensor(args->a, args->gather, args->top_k);
    const gathered_rows dc = rows_of_tensor(args->dc, NULL, 1);
    const int64_t *const offset = numbers(args->offset), rows = args->dc->shape[0];
    const int type = tg_type_of(args->dc);
    int *const taken =
        a.gather ? (int *)cuda_host->device_workspace(call.ctx, (size_t)rows * 4) : NULL;
    if (a.gather && !taken)
        return TG_ENOMEM;
    a.taken = taken;
    check(call, args->a, args->offset, args->gather, args->top_k, rows, taken);
    tg_status status = TG_OK;
    if (args->da)
        status =
            rows_product<T>(call, dc, args->b, !args->transposed, args->offset, NULL, args->da);
    if (status == TG_OK && args->db) {
        const expert_matrices db = expert_matrices_of(args->db);
        char *const room = (char *)cuda_host->device_workspace(
            call.ctx, (size_t)bytes_of_weights(db.experts, a.width, dc.width));
        if (!room)
            return TG_ENOMEM;
        const bool add = args->accumulate != 0;
        if (!(args->transposed ? launch_weights<T, 0>(call, type, offset, a, dc, db, add, room)
                               : launch_weights<T, 1>(call, type, offset, a, dc, db, add, room)))
            status = TG_EUNSUPPORTED;
    }
    if (status == TG_OK && args->dbias)
        launch_any_bias<T>(call, offset, any_rows_in_order(span_of(args->dc), rows), args->dbias,
                           rows, args->accumulate);
    return status;
}

tg_status cuda_grouped_gemm_backward_sm90(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    return on_hopper(ctx, "grouped_gemm_backward", args->dc, [&](const cuda_call &call, auto t) {
        return backward<decltype(t)>(call, args);
    });
}
