/* The gradients of causal_conv1d on the CPU: one pass. What convolutions behind a block of rows
 * need of it is computed for both blocks.
 */
#include "causal_conv1d_cpu.h"

enum { MOST_ROWS = CONV_REST + CONV_ROWS + CONV_REST, WORTH = 2 * ROWS_WORTH };

/* Rows [begin, end); their sums read from row `first` on, and are read up to row `last`. */
typedef struct block {
    int64_t first, begin, end, last;
} block;

static inline block block_of(const conv_job *job, int64_t begin, int64_t end)
{
    return (block){begin - job->reach[begin], begin, end, end + job->behind[end - 1]};
}

/* silu of v, and its derivative, which dv is multiplied by. */
SIMD_INLINE void through_silu(vf *v, vf *dv)
{
    const v_logistic s = v_logistic_of(*v);
    *dv *= s.value * (v_set(1.0f) + *v * s.rest);
    *v *= s.value;
}

/* dv, the gradient at a row's convolution, whose own input is *u; in passing dout_gate. */
SIMD_INLINE vf2 gradient(el e, int stream, int width, int reach, int whole, const conv_job *job,
                         const block *b, int64_t row, conv_place at, const vf2 *taps, vf2 bias,
                         const vf2 *u)
{
    const vf2 dy = conv_get(e, whole, &job->dy, row, at);
    vf2 dv = conv_times(e, whole, dy, &job->out_gate, row, at);
    if (!job->silu && !job->dout_gate.data)
        return dv;
    vf2 v = conv_sum(width, reach, taps, bias, u);
    if (job->silu) {
        through_silu(&v.a, &dv.a);
        through_silu(&v.b, &dv.b);
    }
    if (job->dout_gate.data && row < b->end)
        conv_store(e, stream, whole, row_at(&job->dout_gate, row), at,
                   (vf2){dy.a * v.a, dy.b * v.b});
    return dv;
}

/* dx and din_gate of a row, whose own gradient is *dv. */
SIMD_INLINE void write_row(el e, int stream, int width, int behind, int whole, const conv_job *job,
                           int64_t row, conv_place at, const vf2 *taps, const vf2 *dv)
{
    vf2 du = {v_set(0), v_set(0)};
    for (int k = 0; k <= behind; k++) {
        const vf2 tap = taps[width - 1 - k];
        du = (vf2){du.a + tap.a * dv[k].a, du.b + tap.b * dv[k].b};
    }
    conv_store(e, stream, whole, row_at(&job->out, row), at,
               conv_times(e, whole, du, &job->in_gate, row, at));
    if (job->din_gate.data)
        conv_store(e, stream, whole, row_at(&job->din_gate, row), at,
                   conv_times(e, whole, du, &job->x, row, at));
}

/* Adds what a block's rows add to the sums of one place: of each tap, then of the bias. */
SIMD_INLINE void add_sums(int width, int inner, int whole, const conv_job *job, const block *b,
                          conv_place at, float *sums, const vf2 *u, const vf2 *dv)
{
    vf2 s[CONV_MOST + 1];
    for (int k = 0; k <= width; k++)
        s[k] = conv_column(whole, sums + k * job->n, at);
    for (int64_t row = b->begin; row < b->end; row++) {
        const vf2 d = dv[row - b->begin], *x = u + (row - b->first);
        const int reach = inner ? width - 1 : job->reach[row];
        for (int back = 0; back <= reach; back++) {
            vf2 *to = &s[width - 1 - back];
            *to = (vf2){to->a + d.a * x[-back].a, to->b + d.b * x[-back].b};
        }
        s[width] = (vf2){s[width].a + d.a, s[width].b + d.b};
    }
    for (int k = 0; k <= width; k++)
        conv_store(EL_F32, 0, whole, sums + k * job->n, at, s[k]);
}

/* inner: all rows that the block reads are read by, or read, as many as there are taps. */
SIMD_INLINE void backward_place(el e, int stream, int width, int inner, int whole,
                                const conv_job *job, const block *b, float *sums, conv_place at)
{
    vf2 u[MOST_ROWS], dv[CONV_ROWS + CONV_REST], taps[CONV_MOST];
    const vf2 bias = conv_column(whole, job->bias, at);
    conv_taps(whole, width, job, at, taps);
    conv_inputs(e, whole, job, b->first, b->last, at, u);
    for (int64_t row = b->begin; row < b->last; row++)
        dv[row - b->begin] = gradient(e, stream, width, inner ? width - 1 : job->reach[row], whole,
                                      job, b, row, at, taps, bias, u + (row - b->first));
    for (int64_t row = b->begin; row < b->end; row++)
        write_row(e, stream, width, inner ? width - 1 : job->behind[row], whole, job, row, at, taps,
                  dv + (row - b->begin));
    if (sums)
        add_sums(width, inner, whole, job, b, at, sums, u, dv);
}

SIMD_INLINE void backward_block(el e, int stream, int width, int inner, const conv_job *job,
                                const block *b, float *sums)
{
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR)
        backward_place(e, stream, width, inner, 1, job, b, sums, (conv_place){j, V_PAIR});
    for (; j < job->n; j += VL)
        backward_place(e, stream, width, inner, 0, job, b, sums,
                       (conv_place){j, v_tail(job->n, j)});
}

SIMD_INLINE void backward_rows(el e, int stream, const conv_job *job, int64_t begin, int64_t end,
                               int worker)
{
    (void)worker;
    float *sums = columns_begin(&job->sums, begin);
    for (int64_t row = begin; row < end; row += CONV_ROWS) {
        const block b = block_of(job, row, row + CONV_ROWS < end ? row + CONV_ROWS : end);
        const int inner = b.last == b.end + job->width - 1 && conv_inner(job, row, b.last);
        CONV_BY_WIDTH(backward_block, e, stream, job->width, inner, job, &b, sums);
    }
}

ROWS_CHUNK(backward_chunk, conv_job, backward_rows);

/* dweight is [C,K], the sums are [K,C]. sum: scratch, a vector. */
static void write_weight(tg_ctx *ctx, const conv_job *job, float *sum, const tg_tensor *dweight,
                         int64_t accumulate)
{
    char *to = tg_data(dweight);
    for (int k = 0; dweight && k < job->width; k++) {
        const tg_tensor t = tg_tensor_of(sum, TG_F32, 1, &job->n);
        columns_reduce(ctx, &job->sums, k, job->type, &t, 0);
        for (int64_t j = 0; j < job->n; j++) {
            const int64_t i = j * job->width + k;
            const float before = accumulate ? el_get(el_of(dweight), to, i) : 0;
            el_set(el_of(dweight), to, i, before + sum[j]);
        }
    }
}

/* 1 if a result may be written past the cache; also if it is not wanted. */
static int streams(const tg_tensor *out, const tg_tensor *in)
{
    return !out || rows_stream_aligned(out, in);
}

static tg_status backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *args)
{
    const conv_shape s = conv_shape_of(args->x, args->weight, args->segments);
    conv_job job = {.silu = args->silu != 0,
                    .in_gate = operand_of(args->in_gate),
                    .out_gate = operand_of(args->out_gate),
                    .out = operand_of(args->dx),
                    .dy = operand_of(args->dy),
                    .din_gate = operand_of(args->din_gate),
                    .dout_gate = operand_of(args->dout_gate),
                    .stream = streams(args->dx, args->x) && streams(args->din_gate, args->x) &&
                              streams(args->dout_gate, args->x)};
    TG_TRY(conv_begin(ctx, &s, args->x, args->weight, args->bias, &job));
    int64_t grain = rows_grain(s.rows, s.channels, CONV_ROWS);
    float *sum = tg_workspace(ctx, (size_t)s.channels * sizeof *sum);
    if (!sum)
        return TG_ENOMEM;
    if (args->dweight || args->dbias) {
        grain = columns_grain(s.rows, rows_worth(s.channels, WORTH), CONV_ROWS);
        TG_TRY(columns_sums(ctx, s.rows, s.channels, s.width + 1, grain, &job.sums));
    }
    tg_parallel_for(ctx, s.rows, grain, backward_chunk, &job);
    columns_reduce(ctx, &job.sums, s.width, job.type, args->dbias, args->accumulate);
    write_weight(ctx, &job, sum, args->dweight, args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(causal_conv1d_backward) = {TG_CPU_IMPL(causal_conv1d_backward, backward),
                                        TG_IMPLS_END};
