/* sum_squares on the CPU: one pass, at the speed of memory. */
#include "rows/map.h"

enum { RUN = 2048 }; /* elements whose squares are summed in f32: 128 in a lane at most */

/* ---- forward ---- */

typedef struct job {
    el type;
    operand x;
    pieces all;
    double *sums; /* of items */
} job;

SIMD_INLINE float sum_run(el e, const char *x, int64_t n)
{
    vf2 sum[2] = {{v_set(0.0f), v_set(0.0f)}, {v_set(0.0f), v_set(0.0f)}};
    int64_t i = 0;
    for (; i + 2 * V_PAIR <= n; i += 2 * V_PAIR)
        for (int k = 0; k < 2; k++) {
            const vf2 a = v_load2(e, e, x, i + k * V_PAIR);
            v_ahead2(e, x, i + k * V_PAIR);
            sum[k] = (vf2){sum[k].a + a.a * a.a, sum[k].b + a.b * a.b};
        }
    vf rest = v_set(0.0f);
    for (; i < n; i += VL) {
        const vf a = v_load_n(e, x, i, v_tail(n, i), 0);
        rest += a * a;
    }
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b) + rest);
}

SIMD_INLINE void sum_items(el e, const job *j, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const piece p = piece_at(&j->all, item);
        double sum = 0;
        for (int64_t row = p.row; row < p.end; row++) {
            const char *x = row_at(&j->x, row) + p.first * el_size(e);
            for (int64_t i = 0; i < p.n; i += RUN)
                sum += (double)sum_run(e, x + i * el_size(e), p.n - i < RUN ? p.n - i : RUN);
        }
        j->sums[item] = sum;
    }
}

static void sum_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job copy = *(const job *)arg;
    EL_SPECIALIZE(copy.type, sum_items, &copy, begin, end);
}

static tg_status forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args)
{
    const tg_rows x = tg_rows_of(args->x);
    job j = {.type = el_of(args->x),
             .x = operand_of(args->x),
             .all = {.rows = x.rows, .n = x.n, .size = ROWS_WORTH}};
    const int64_t items = pieces_cut(&j.all, x.stride == x.n);
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums)
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, sum_chunk, &j);
    float *y = tg_data(args->y);
    *y = (float)((args->accumulate ? *y : 0) + pieces_sum(j.sums, items));
    return TG_OK;
}

/* ---- backward ---- */

/* by: 2 dy */
SIMD_INLINE void backward_kernel(const void *by, const vf *in, vf *out)
{
    out[0] = in[0] * *(const vf *)by;
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const map_job *j = arg;
    const vf factor = v_set(*(const float *)j->options);
    map_chunk(backward_kernel, 1, 1, &factor, j, begin, end);
}

static tg_status backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->x, args->dx};
    const float factor = 2 * *(const float *)tg_data(args->dy);
    return map_run(ctx, 1, 1, tensors, backward_chunk, &factor);
}

TG_CPU_IMPLS(sum_squares) = {TG_CPU_IMPL(sum_squares_forward, forward),
                             TG_CPU_IMPL(sum_squares_backward, backward), TG_IMPLS_END};
