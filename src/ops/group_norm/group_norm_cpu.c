/* group_norm on the CPU: forward. A group is read from memory once: its moments are taken, and the
 * second pass over it hits the cache and asks for the next group meanwhile.
 */
#include "group_norm_cpu.h"
#include "moments.h"

typedef struct forward_job {
    group_shape s;
    group_view x, y; /* strides in bytes */
    const float *weight, *bias;
    float *mean, *rstd; /* NULL: not wanted */
    int64_t ahead;
    double eps;
    int whole, stream;
    el type;
} forward_job;

SIMD_INLINE moments group_moments(el e, const forward_job *job, const char *x)
{
    moments m = {0, 0, 0};
    if (job->whole) {
        moments_add(e, &m, x, group_size(&job->s));
        return m;
    }
    for (int64_t c = 0; c < job->s.width; c++)
        for (int64_t l = 0; l < job->s.lines; l++)
            moments_add(e, &m, x + c * job->x.channel + l * job->x.line, job->s.n);
    return m;
}

/* y = (x - mean) scale + shift */
SIMD_INLINE void scale_line(el e, int stream, const char *x, char *y, int64_t n, float mean,
                            float scale, float shift, int64_t ahead)
{
    const vf m = v_set(mean), a = v_set(scale), b = v_set(shift);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 v = v_load2(e, e, x, j);
        v_write2(e, stream, y, j, (vf2){(v.a - m) * a + b, (v.b - m) * a + b});
        next_pair(e, x + ahead, j);
    }
    for (; j < n; j += VL)
        v_store_n(e, y, j, v_tail(n, j), (v_load_n(e, x, j, v_tail(n, j), 0) - m) * a + b);
}

SIMD_INLINE void normalise_group(el e, int stream, const forward_job *job, int64_t i)
{
    const group_shape *s = &job->s;
    const int64_t b = i / s->groups, first = i % s->groups * s->width;
    const char *x = job->x.data + b * job->x.batch + first * job->x.channel;
    char *y = job->y.data + b * job->y.batch + first * job->y.channel;
    const moments m = group_moments(e, job, x);
    const double mean = m.sum / m.count, r = 1 / sqrt(m.squares / m.count + job->eps);
    /* the mean in two parts: f32 alone would be off by as much as the last bit of x */
    const float high = (float)mean;
    for (int64_t c = 0; c < s->width; c++) {
        const double scale = r * job->weight[first + c];
        const float shift = (float)(job->bias[first + c] + (high - mean) * scale);
        for (int64_t l = 0; l < s->lines; l++)
            scale_line(e, stream, x + c * job->x.channel + l * job->x.line,
                       y + c * job->y.channel + l * job->y.line, s->n, high, (float)scale, shift,
                       job->ahead);
    }
    if (job->mean)
        job->mean[i] = high;
    if (job->rstd)
        job->rstd[i] = (float)r;
}

SIMD_INLINE void forward_groups(el e, int stream, const forward_job *job, int64_t begin,
                                int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        normalise_group(e, stream, job, i);
}

ROWS_CHUNK(forward_chunk, forward_job, forward_groups);

static tg_status forward(tg_ctx *ctx, const tg_group_norm_forward_args *a)
{
    forward_job job = {.s = group_shape_of(a->x, a->num_groups),
                       .mean = tg_data(a->mean),
                       .rstd = tg_data(a->rstd),
                       .eps = a->eps,
                       .type = (el)tg_el(tg_type_of(a->x))};
    const int64_t channels = job.s.groups * job.s.width;
    job.x = group_view_of(a->x, &job.s);
    job.y = group_view_of(a->y, &job.s);
    group_view *views[] = {&job.x, &job.y, NULL};
    job.stream = job.y.data != job.x.data && streams(&job.s, &job.y);
    job.whole = join_lines(&job.s, views);
    job.ahead = next_group(&job.s, &job.x);
    TG_TRY(columns_load(ctx, EL_F32, a->weight, channels, 1, &job.weight));
    TG_TRY(columns_load(ctx, EL_F32, a->bias, channels, 0, &job.bias));
    run_groups(ctx, &job.s, forward_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(group_norm) = {TG_CPU_IMPL(group_norm_forward, forward), TG_IMPLS_END};
