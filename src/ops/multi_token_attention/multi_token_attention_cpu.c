/* multi_token_attention on the CPU: probabilities row by row, then their convolution. */
#include "multi_token_attention_cpu.h"

typedef struct job {
    el type;
    int stream, sparse;
    mta_shape shape;
    operand scores, probs, y;
    mta_window window;
    const float *weights, *bias;
    float *scratch; /* of each worker */
    int64_t size;
} job;

/* ---- probabilities ---- */

/* x, a multiple of VL numbers, becomes exp(x - max) / sum. */
SIMD_INLINE void softmax(float *x, int64_t n, float most)
{
    vf sum = v_set(0);
    for (int64_t j = 0; j < n; j += VL) {
        const vf p = v_exp(v_load(EL_F32, x, j) - v_set(most));
        v_store(EL_F32, x, j, p);
        sum += p;
    }
    const vf scale = v_set(1 / v_sum(sum));
    for (int64_t j = 0; j < n; j += VL)
        v_store(EL_F32, x, j, v_load(EL_F32, x, j) * scale);
}

/* x becomes max(x - tau, 0). tau is counted from the largest element, and so is between -1 and 0:
 * elements at or below the mean excess of those that are left fall out, until none does. With a NaN
 * all are. */
SIMD_INLINE void sparsemax(float *x, int64_t n, float most)
{
    float tau = -1;
    for (float before = -1, kept = 0; kept != before;) {
        vf sum = v_set(0), count = v_set(0);
        for (int64_t j = 0; j < n; j += VL) {
            const vf z = v_load(EL_F32, x, j) - v_set(most);
            const vi in = z > v_set(tau);
            sum += v_select(in, z, v_select(z == z, v_set(0), z));
            count += v_select(in, v_set(1), v_set(0));
        }
        before = kept;
        kept = v_sum(count);
        tau = kept > 0 ? (v_sum(sum) - 1) / kept : tau;
    }
    for (int64_t j = 0; j < n; j += VL)
        v_store(EL_F32, x, j, v_max(v_set(0), v_load(EL_F32, x, j) - v_set(most) - v_set(tau)));
}

SIMD_INLINE void probability_rows(el e, int stream, const job *job, int64_t begin, int64_t end,
                                  int worker)
{
    float *x = job->scratch + worker * job->size;
    (void)stream;
    for (int64_t row = begin; row < end; row++) {
        const int64_t length = job->shape.length, n = row % length + 1;
        vf most = v_set(-HUGE_VALF);
        mta_widen(e, row_at(&job->scores, row), n, x);
        for (int64_t j = n; j % VL != 0; j++)
            x[j] = -HUGE_VALF;
        const int64_t whole = (n + VL - 1) / VL * VL;
        for (int64_t j = 0; j < whole; j += VL)
            most = v_max(most, v_load(EL_F32, x, j));
        if (job->sparse)
            sparsemax(x, whole, v_hmax(most));
        else
            softmax(x, whole, v_hmax(most));
        mta_write(e, x, n, row_at(&job->probs, row), length);
    }
}

ROWS_CHUNK(probability_chunk, job, probability_rows);

/* ---- the convolution ---- */

/* Items: blocks of rows of a group of an entry of the batch. */
SIMD_INLINE void convolution_items(el e, int stream, const job *job, int64_t begin, int64_t end,
                                   int worker)
{
    const mta_shape *s = &job->shape;
    const int64_t blocks = mta_blocks(s), ins = s->in / s->groups, outs = s->out / s->groups;
    float *window = job->scratch + worker * job->size, *sum = window;
    sum += ins * job->window.rows * job->window.pitch;
    (void)stream;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % blocks * MTA_ROWS, which = item / blocks;
        const int64_t group = which % s->groups, entry = which / s->groups;
        mta_load_window(e, &job->window, which * ins, ins, first, window);
        for (int64_t o = group * outs; o < (group + 1) * outs; o++) {
            const float *weights = job->weights + o * ins * s->width * s->width;
            const vf bias = v_set(job->bias[o]);
            for (int64_t i = first; i < first + MTA_ROWS && i < s->length; i++) {
                mta_convolve(s, &job->window, ins, weights, window, i - first, i + 1, sum);
                for (int64_t j = 0; j <= i; j += VL)
                    v_store(EL_F32, sum, j, v_load(EL_F32, sum, j) + bias);
                mta_write(e, sum, i + 1, row_at(&job->y, (entry * s->out + o) * s->length + i),
                          s->length);
            }
        }
    }
}

ROWS_CHUNK(convolution_chunk, job, convolution_items);

static tg_status forward(tg_ctx *ctx, const tg_multi_token_attention_forward_args *args)
{
    const mta_shape s = mta_shape_of(args->probs, args->weight, args->groups, args->dilation,
                                     args->padding, args->causal_queries);
    job job = {.type = el_of(args->scores),
               .sparse = args->sparse != 0,
               .shape = s,
               .scores = operand_of(args->scores),
               .probs = operand_of(args->probs),
               .y = operand_of(args->y),
               .window = mta_window_of(args->probs, &s, s.above, s.before),
               .weights = mta_floats(ctx, args->weight, tg_numel(args->weight)),
               .bias = mta_floats(ctx, args->bias, s.out)};
    job.size = (s.in / s.groups * job.window.rows + 1) * job.window.pitch;
    job.scratch = tg_workspace(ctx, (size_t)(job.size * tg_ctx_threads(ctx)) * sizeof(float));
    if (!job.scratch || !job.weights || !job.bias)
        return TG_ENOMEM;
    const int64_t rows = s.batch * s.in * s.length;
    tg_parallel_for(ctx, rows, rows_grain(rows, s.length, 1), probability_chunk, &job);
    tg_parallel_for(ctx, s.batch * s.groups * mta_blocks(&s), 1, convolution_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(multi_token_attention) = {TG_CPU_IMPL(multi_token_attention_forward, forward),
                                       TG_IMPLS_END};
