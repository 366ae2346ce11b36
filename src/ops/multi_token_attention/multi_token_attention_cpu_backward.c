/* The gradients of multi_token_attention on the CPU: that of the scores block by block, by the
 * convolution with the taps turned round; those of the parameters by products of rows.
 */
#include "multi_token_attention_cpu.h"

enum { MOST_PARTS = 64 };

typedef struct job {
    el type;
    int stream, sparse;
    mta_shape shape;
    operand dy, probs, dscores;
    mta_window window; /* of dy, or of probs for the gradients of the parameters */
    const float *weights;
    float *scratch; /* of each worker */
    int64_t size;
    float *parts; /* [chunks, O I K K + O]: sums of the parameters' gradients */
    int64_t part, grain;
} job;

/* ---- scores ---- */

/* [O,I,K,K] of weight as [groups,I,outs,K,K], turned round. */
static float *turned_weights(tg_ctx *ctx, const mta_shape *s, const tg_tensor *weight)
{
    const int64_t taps = s->width * s->width, ins = s->in / s->groups, outs = s->out / s->groups;
    const int64_t count = s->out * ins * taps;
    float *weights = tg_workspace(ctx, (size_t)(count + 1) * sizeof *weights);
    for (int64_t i = 0; weights && i < count; i++) {
        const int64_t tap = i % taps, c = i / taps % ins, o = i / taps / ins;
        const int64_t at = ((o / outs * ins + c) * outs + o % outs) * taps + taps - 1 - tap;
        weights[at] = el_get(el_of(weight), tg_data(weight), i);
    }
    return weights;
}

/* dp, n gradients of the probabilities p, become those of the scores. p is zero behind
 * n. */
SIMD_INLINE void score_gradients(int sparse, const float *p, float *dp, int64_t n)
{
    vf sum = v_set(0), count = v_set(0);
    for (int64_t j = 0; j < n; j += VL) {
        const vf x = v_load(EL_F32, p, j);
        const vf part = sparse ? v_select(x > v_set(0), v_set(1), x) : x;
        sum += part * v_load(EL_F32, dp, j);
        count += part;
    }
    const vf mean = v_set(sparse ? v_sum(sum) / v_sum(count) : v_sum(sum));
    for (int64_t j = 0; j < n; j += VL) {
        const vf x = v_load(EL_F32, p, j);
        const vf part = sparse ? v_select(x > v_set(0), v_set(1), x) : x;
        v_store(EL_F32, dp, j, part * (v_load(EL_F32, dp, j) - mean));
    }
}

/* Items: blocks of rows of a group of an entry of the batch. */
SIMD_INLINE void score_items(el e, int stream, const job *job, int64_t begin, int64_t end,
                             int worker)
{
    const mta_shape *s = &job->shape;
    const int64_t blocks = mta_blocks(s), ins = s->in / s->groups, outs = s->out / s->groups;
    float *window = job->scratch + worker * job->size;
    float *dp = window + outs * job->window.rows * job->window.pitch, *p = dp + job->window.pitch;
    (void)stream;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % blocks * MTA_ROWS, which = item / blocks;
        mta_load_window(e, &job->window, which * outs, outs, first, window);
        for (int64_t c = which * ins; c < (which + 1) * ins; c++) {
            const int64_t channel = c % s->in;
            const float *weights = job->weights + channel * outs * s->width * s->width;
            for (int64_t i = first; i < first + MTA_ROWS && i < s->length; i++) {
                mta_convolve(s, &job->window, outs, weights, window, i - first, i + 1, dp);
                mta_widen(e, row_at(&job->probs, c * s->length + i), i + 1, p);
                score_gradients(job->sparse, p, dp, i + 1);
                mta_write(e, dp, i + 1, row_at(&job->dscores, c * s->length + i), s->length);
            }
        }
    }
}

ROWS_CHUNK(score_chunk, job, score_items);

/* ---- parameters ---- */

/* The sum of products of a row of dy with the window, for one output channel. */
SIMD_INLINE void add_row(const job *job, const float *g, int64_t n, const float *window,
                         int64_t row, float *dweight)
{
    const mta_shape *s = &job->shape;
    for (int64_t c = 0; c < s->in / s->groups; c++)
        for (int64_t a = 0; a < s->width; a++) {
            const float *from =
                window + (c * job->window.rows + row + a * s->dilation) * job->window.pitch;
            for (int64_t b = 0; b < s->width; b++, from += s->dilation) {
                vf sum[4] = {{0}, {0}, {0}, {0}};
                for (int64_t j = 0; j < n; j += MTA_TILE)
                    for (int k = 0; k < 4; k++)
                        sum[k] += v_load(EL_F32, g, j + k * VL) * v_load(EL_F32, from, j + k * VL);
                *dweight++ += v_sum(sum[0] + sum[1] + (sum[2] + sum[3]));
            }
        }
}

SIMD_INLINE void parameter_items(el e, int stream, const job *job, int64_t begin, int64_t end,
                                 int worker)
{
    const mta_shape *s = &job->shape;
    const int64_t blocks = mta_blocks(s), ins = s->in / s->groups, outs = s->out / s->groups;
    const int64_t taps = ins * s->width * s->width;
    float *window = job->scratch + worker * job->size;
    float *g = window + ins * job->window.rows * job->window.pitch;
    float *dweight = job->parts + begin / job->grain * job->part, *dbias = dweight + s->out * taps;
    (void)stream;
    mta_fill_zeros(dweight, job->part);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % blocks * MTA_ROWS, which = item / blocks;
        mta_load_window(e, &job->window, which * ins, ins, first, window);
        for (int64_t o = which * outs; o < (which + 1) * outs; o++)
            for (int64_t i = first; i < first + MTA_ROWS && i < s->length; i++) {
                vf sum = v_set(0);
                mta_widen(e, row_at(&job->dy, o * s->length + i), i + 1, g);
                for (int64_t j = 0; j <= i; j += VL)
                    sum += v_load(EL_F32, g, j);
                dbias[o % s->out] += v_sum(sum);
                add_row(job, g, i + 1, window, i - first, dweight + o % s->out * taps);
            }
    }
}

ROWS_CHUNK(parameter_chunk, job, parameter_items);

/* Element i of a gradient becomes, or grows by, the sum of element `first` + i of all parts. */
static void add_parts(const job *job, int64_t chunks, int64_t first, const tg_tensor *out,
                      int64_t accumulate)
{
    for (int64_t i = 0; out && i < tg_numel(out); i++) {
        double sum = accumulate ? el_get(el_of(out), tg_data(out), i) : 0;
        for (int64_t k = 0; k < chunks; k++)
            sum += job->parts[k * job->part + first + i];
        el_set(el_of(out), tg_data(out), i, (float)sum);
    }
}

/* ---- the call ---- */

static tg_status backward(tg_ctx *ctx, const tg_multi_token_attention_backward_args *args)
{
    const mta_shape s = mta_shape_of(args->probs, args->weight, args->groups, args->dilation,
                                     args->padding, args->causal_queries);
    const int64_t span = (s.width - 1) * s.dilation, items = s.batch * s.groups * mta_blocks(&s);
    const int64_t widest = s.in > s.out ? s.in / s.groups : s.out / s.groups;
    job job = {.type = el_of(args->probs),
               .sparse = args->sparse != 0,
               .shape = s,
               .dy = operand_of(args->dy),
               .probs = operand_of(args->probs),
               .dscores = operand_of(args->dscores),
               .window = mta_window_of(args->dy, &s, span - s.above, span - s.before),
               .weights = turned_weights(ctx, &s, args->weight),
               .part = tg_numel(args->weight) + s.out,
               .grain = items / MOST_PARTS + 1};
    const int64_t chunks = (items + job.grain - 1) / job.grain;
    job.size = (widest * job.window.rows + 2) * job.window.pitch;
    job.scratch = tg_workspace(ctx, (size_t)(job.size * tg_ctx_threads(ctx)) * sizeof(float));
    job.parts = tg_workspace(ctx, (size_t)(chunks * job.part + 1) * sizeof(float));
    if (!job.scratch || !job.weights || !job.parts)
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, score_chunk, &job);
    if (!args->dweight && !args->dbias)
        return TG_OK;
    job.window = mta_window_of(args->probs, &s, s.above, s.before);
    tg_parallel_for(ctx, items, job.grain, parameter_chunk, &job);
    add_parts(&job, chunks, 0, args->dweight, args->accumulate);
    add_parts(&job, chunks, tg_numel(args->weight), args->dbias, args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(multi_token_attention_backward) = {
    TG_CPU_IMPL(multi_token_attention_backward, backward), TG_IMPLS_END};
