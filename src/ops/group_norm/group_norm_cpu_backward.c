/* group_norm on the CPU: backward. The sums of dy and of dy normal over each channel of each batch
 * entry serve both dx and, added up over the batch, dweight and dbias.
 */
#include "group_norm_cpu.h"

typedef struct backward_job {
    group_shape s;
    group_view dy, x, dx; /* strides in bytes */
    const float *weight, *mean, *rstd;
    float *sums, *products; /* [batch, channels]: of dy, and of dy normal */
    int64_t dy_ahead, x_ahead;
    int stream;
    el type;
} backward_job;

/* Sums over a channel. */
typedef struct line_sums {
    vf2 sum[2], product[2];
} line_sums;

SIMD_INLINE void add_pair(el e, const char *dy, const char *x, int64_t j, vf m, vf2 *sum,
                          vf2 *product)
{
    const vf2 g = v_load2(e, e, dy, j), v = v_load2(e, e, x, j);
    *sum = (vf2){sum->a + g.a, sum->b + g.b};
    product->a += g.a * (v.a - m);
    product->b += g.b * (v.b - m);
}

SIMD_INLINE void add_line(el e, const char *dy, const char *x, int64_t n, float mean, line_sums *t)
{
    const vf m = v_set(mean);
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_pair(e, dy, x, j + k * V_PAIR, m, &t->sum[k], &t->product[k]);
    for (; j + V_PAIR <= n; j += V_PAIR)
        add_pair(e, dy, x, j, m, &t->sum[0], &t->product[0]);
    for (; j < n; j += VL) {
        const vf g = v_load_n(e, dy, j, v_tail(n, j), 0);
        t->sum[0].a += g;
        t->product[0].a += g * (v_load_n(e, x, j, v_tail(n, j), mean) - m);
    }
}

SIMD_INLINE float total(const vf2 *sum)
{
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

/* dx = dy a - ((x - mean) b + c): what multiplies is the same for a whole channel */
typedef struct channel_terms {
    float mean, a, b, c;
} channel_terms;

SIMD_INLINE vf gradient(const channel_terms *t, vf dy, vf x)
{
    return dy * v_set(t->a) - ((x - v_set(t->mean)) * v_set(t->b) + v_set(t->c));
}

SIMD_INLINE void gradient_line(el e, int stream, const backward_job *job, const char *dy,
                               const char *x, char *dx, const channel_terms *t)
{
    const int64_t n = job->s.n;
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 g = v_load2(e, e, dy, j), v = v_load2(e, e, x, j);
        v_write2(e, stream, dx, j, (vf2){gradient(t, g.a, v.a), gradient(t, g.b, v.b)});
        next_pair(e, dy + job->dy_ahead, j);
        next_pair(e, x + job->x_ahead, j);
    }
    for (; j < n; j += VL) {
        const vf g = v_load_n(e, dy, j, v_tail(n, j), 0), v = v_load_n(e, x, j, v_tail(n, j), 0);
        v_store_n(e, dx, j, v_tail(n, j), gradient(t, g, v));
    }
}

SIMD_INLINE void backward_group(el e, int stream, const backward_job *job, int64_t i)
{
    const group_shape *s = &job->s;
    const int64_t b = i / s->groups, first = i % s->groups * s->width;
    const char *dy = job->dy.data + b * job->dy.batch + first * job->dy.channel,
               *x = job->x.data + b * job->x.batch + first * job->x.channel;
    char *dx = job->dx.data + b * job->dx.batch + first * job->dx.channel;
    /* none for one element, which has no gradient where rounding would leave one, and for no
     * elements, whose rstd is NaN */
    const double r = group_size(s) > 1 ? job->rstd[i] : 0;
    double sum = 0, product = 0; /* of m = dy weight, and of m normal, over the group */
    for (int64_t c = 0; c < s->width; c++) {
        line_sums t = {{{{0}, {0}}, {{0}, {0}}}, {{{0}, {0}}, {{0}, {0}}}};
        for (int64_t l = 0; l < s->lines; l++)
            add_line(e, dy + c * job->dy.channel + l * job->dy.line,
                     x + c * job->x.channel + l * job->x.line, s->n, job->mean[i], &t);
        const float each = total(t.sum), along = total(t.product) * (float)r;
        job->sums[i * s->width + c] = each;
        job->products[i * s->width + c] = along;
        sum += (double)each * job->weight[first + c];
        product += (double)along * job->weight[first + c];
    }
    const double share = r / (double)group_size(s);
    for (int64_t c = 0; c < s->width; c++) {
        const channel_terms t = {job->mean[i], (float)(r * job->weight[first + c]),
                                 (float)(product * r * share), (float)(sum * share)};
        for (int64_t l = 0; l < s->lines; l++)
            gradient_line(e, stream, job, dy + c * job->dy.channel + l * job->dy.line,
                          x + c * job->x.channel + l * job->x.line,
                          dx + c * job->dx.channel + l * job->dx.line, &t);
    }
}

SIMD_INLINE void backward_groups(el e, int stream, const backward_job *job, int64_t begin,
                                 int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        backward_group(e, stream, job, i);
}

ROWS_CHUNK(backward_chunk, backward_job, backward_groups);

/* out = the sums of each channel, added up over the batch in its order */
static void reduce(const tg_tensor *out, const float *each, int64_t batch, int64_t channels,
                   int accumulate)
{
    if (!out)
        return;
    const el type = (el)tg_el(tg_type_of(out));
    for (int64_t c = 0; c < channels; c += VL) {
        const int64_t left = v_tail(channels, c);
        vf sum = accumulate ? v_load_n(type, tg_data(out), c, left, 0) : v_set(0);
        for (int64_t b = 0; b < batch; b++)
            sum += v_load_n(EL_F32, each + b * channels, c, left, 0);
        v_store_n(type, tg_data(out), c, left, sum);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_group_norm_backward_args *a)
{
    backward_job job = {.s = group_shape_of(a->x, a->num_groups),
                        .mean = tg_data(a->mean),
                        .rstd = tg_data(a->rstd),
                        .type = (el)tg_el(tg_type_of(a->x))};
    const int64_t channels = job.s.groups * job.s.width;
    job.dy = group_view_of(a->dy, &job.s);
    job.x = group_view_of(a->x, &job.s);
    job.dx = group_view_of(a->dx, &job.s);
    job.stream = job.dx.data != job.dy.data && streams(&job.s, &job.dx);
    group_view *views[] = {&job.dy, &job.x, &job.dx, NULL};
    join_lines(&job.s, views);
    job.dy_ahead = next_group(&job.s, &job.dy);
    job.x_ahead = next_group(&job.s, &job.x);
    TG_TRY(columns_load(ctx, EL_F32, a->weight, channels, 1, &job.weight));
    job.sums = tg_workspace(ctx, (size_t)(2 * job.s.batch * channels) * sizeof(float));
    if (!job.sums)
        return TG_ENOMEM;
    job.products = job.sums + job.s.batch * channels;
    run_groups(ctx, &job.s, backward_chunk, &job);
    reduce(a->dweight, job.products, job.s.batch, channels, (int)a->accumulate);
    reduce(a->dbias, job.sums, job.s.batch, channels, (int)a->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(group_norm_backward) = {TG_CPU_IMPL(group_norm_backward, backward), TG_IMPLS_END};
