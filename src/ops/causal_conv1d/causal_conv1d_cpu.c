/* causal_conv1d on the CPU: one pass, a block of rows at a time. */
#include "causal_conv1d_cpu.h"

/* inner: all rows read as many before them as there are taps. */
SIMD_INLINE void forward_place(el e, int stream, int width, int inner, int whole,
                               const conv_job *job, int64_t begin, int64_t end, conv_place at)
{
    const int64_t first = begin - job->reach[begin];
    vf2 u[CONV_REST + CONV_ROWS], taps[CONV_MOST];
    const vf2 bias = conv_column(whole, job->bias, at);
    conv_taps(whole, width, job, at, taps);
    conv_inputs(e, whole, job, first, end, at, u);
    for (int64_t row = begin; row < end; row++) {
        const int reach = inner ? width - 1 : job->reach[row];
        vf2 y = conv_sum(width, reach, taps, bias, u + (row - first));
        if (job->silu)
            y = (vf2){v_silu(y.a), v_silu(y.b)};
        y = conv_times(e, whole, y, &job->out_gate, row, at);
        conv_store(e, stream, whole, row_at(&job->out, row), at, y);
    }
}

SIMD_INLINE void forward_block(el e, int stream, int width, int inner, const conv_job *job,
                               int64_t begin, int64_t end)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR)
        forward_place(e, stream, width, inner, 1, job, begin, end, (conv_place){j, V_PAIR});
    for (; j < job->n; j += VL)
        forward_place(e, stream, width, inner, 0, job, begin, end,
                      (conv_place){j, v_tail(job->n, j)});
}

SIMD_INLINE void forward_rows(el e, int stream, const conv_job *job, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    for (int64_t row = begin; row < end; row += CONV_ROWS) {
        const int64_t last = row + CONV_ROWS < end ? row + CONV_ROWS : end;
        CONV_BY_WIDTH(forward_block, e, stream, job->width, conv_inner(job, row, last), job, row,
                      last);
    }
}

ROWS_CHUNK(forward_chunk, conv_job, forward_rows);

static tg_status forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *args)
{
    const conv_shape s = conv_shape_of(args->x, args->weight, args->segments);
    conv_job job = {.silu = args->silu != 0,
                    .in_gate = operand_of(args->in_gate),
                    .out_gate = operand_of(args->out_gate),
                    .out = operand_of(args->y),
                    .stream = rows_stream_aligned(args->y, args->x)};
    TG_TRY(conv_begin(ctx, &s, args->x, args->weight, args->bias, &job));
    tg_parallel_for(ctx, s.rows, rows_grain(s.rows, s.channels, CONV_ROWS), forward_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(causal_conv1d) = {TG_CPU_IMPL(causal_conv1d_forward, forward), TG_IMPLS_END};
