/* layer_norm on the CPU: forward, and the table. A row is read from memory once: its moments and the second pass over it hit
 * the cache, and the latter asks for the next row meanwhile.
 */
#include "layer_norm_backward.h"
#include "layer_norm_common.h"
#include "moments.h"

typedef struct forward_job {
    const char *x;
    char *y;
    const float *weight, *bias;
    float *mean, *rstd;            /* NULL: not wanted */
    int64_t n, x_stride, y_stride; /* strides in bytes */
    double eps;
    int stream;
    el type;
} forward_job;

/* y = ((x - mean) r) weight + bias, the mean in two parts: f32 alone would be off by as much as the last bit of x. */
SIMD_INLINE void normalise_row(el e, int stream, const forward_job *job, const char *x, char *y,
                               double mean, float r)
{
    const vf high = v_set((float)mean), low = v_set((float)((float)mean - mean) * r);
    const vf scale = v_set(r);
    int64_t j = 0;
    for (; j < whole_pairs(job->n); j += PAIR) {
        const vf2 a = v_load2(e, e, x, j);
        const vf2 w = v_get2(job->weight + j), b = v_get2(job->bias + j);
        put2(e, stream, y, j,
             (vf2){((a.a - high) * scale + low) * w.a + b.a,
                   ((a.b - high) * scale + low) * w.b + b.b});
        ask2(e, x + job->x_stride, j);
    }
    for (; j < job->n; j += VL) {
        const int64_t left = tail(job->n, j);
        const vf normal = (v_load_n(e, x, j, left, 0) - high) * scale + low;
        v_store_n(e, y, j, left,
                  normal * v_load_n(EL_F32, job->weight, j, left, 0) +
                      v_load_n(EL_F32, job->bias, j, left, 0));
    }
}

SIMD_INLINE void forward_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const char *x = job->x + i * job->x_stride;
        moments m = {0, 0, 0};
        moments_add(e, &m, x, job->n);
        const double mean = m.sum / m.count;
        const float r = (float)(1 / sqrt(m.squares / m.count + job->eps));
        normalise_row(e, stream, job, x, job->y + i * job->y_stride, mean, r);
        if (job->mean)
            job->mean[i] = (float)mean;
        if (job->rstd)
            job->rstd[i] = r;
    }
    if (stream)
        v_fence();
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    /* a copy: no store through a pointer can change it */
    const forward_job job = *(const forward_job *)arg;
    if (job.stream)
        EL_SPECIALIZE(job.type, forward_rows, 1, &job, begin, end);
    else
        EL_SPECIALIZE(job.type, forward_rows, 0, &job, begin, end);
}

static int accepts_forward(const tg_layer_norm_forward_args *a)
{
    return tg_fast_type(a->x);
}

static tg_status forward(tg_ctx *ctx, const tg_layer_norm_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), y = tg_rows_of(a->y);
    const el e = (el)tg_el(x.type);
    forward_job job = {.x = x.data,
                       .y = y.data,
                       .mean = tg_data(a->mean),
                       .rstd = tg_data(a->rstd),
                       .n = x.n,
                       .x_stride = x.stride * el_size(e),
                       .y_stride = y.stride * el_size(e),
                       .eps = a->eps == 0 ? 1e-6 : a->eps,
                       .stream = streams(&y, x.data),
                       .type = e};
    TG_TRY(load_columns(ctx, e, a->weight, x.n, 1, &job.weight));
    TG_TRY(load_columns(ctx, e, a->bias, x.n, 0, &job.bias));
    tg_parallel_for(ctx, x.rows, rows_per_chunk(x.n), forward_chunk, &job);
    return TG_OK;
}

TG_CPU_ROWS(layer_norm) = {TG_CPU_ROW(layer_norm_forward, accepts_forward, forward),
                           TG_CPU_ROW(layer_norm_backward, accepts_backward, backward),
                           TG_ROWS_END};
