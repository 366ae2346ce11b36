/* poly_norm on the CPU: a row is read from memory once; the second pass over it hits the cache, and
 * asks for the next row meanwhile. */
#include "rows/rows.h"

/* Elements of a chunk of rows with sums of its own. */
enum { WORTH = 2 * ROWS_WORTH };
/* Elements of a run: equal terms are all rounded the same way, so sums of many lose digits with
 * their number, and a lane adds up few before they join the row's. A multiple of V_PAIR. */
enum { RUN = 1024 };

/* What the rows of a chunk add to dweight and dbias. */
typedef struct sums {
    double weight[3], bias;
} sums;

typedef struct job {
    operand dy, x, out; /* dy: backward only; out: y or dx */
    float *rstd;        /* NULL: not wanted */
    float weight[3], bias;
    double eps;
    int64_t n;
    sums *sums; /* backward only: of each chunk of `grain` rows */
    int64_t grain;
    int stream;
    el type;
} job;

/* Asks for what the next row has in place of elements j to j + V_PAIR. */
SIMD_INLINE void ahead(el e, const char *next, int64_t j)
{
    for (int64_t byte = 0; byte < V_PAIR * el_size(e); byte += 64)
        __builtin_prefetch(next + j * el_size(e) + byte);
}

/* ---- forward ---- */

/* Sums of sixth, fourth and second powers. */
SIMD_INLINE void add_powers(vf x, vf sum[3])
{
    const vf square = x * x, fourth = square * square;
    sum[0] += fourth * square;
    sum[1] += fourth;
    sum[2] += square;
}

/* Adds the sums of the whole pairs of vectors from `begin` to `end`. */
SIMD_INLINE void power_run(el e, const char *x, int64_t begin, int64_t end, vf sum[3])
{
    vf a[3] = {{0}, {0}, {0}}, b[3] = {{0}, {0}, {0}};
    for (int64_t j = begin; j < end; j += V_PAIR) {
        const vf2 v = v_load2(e, e, x, j);
        add_powers(v.a, a);
        add_powers(v.b, b);
    }
    for (int k = 0; k < 3; k++)
        sum[k] += a[k] + b[k];
}

SIMD_INLINE void sum_powers(el e, const char *x, int64_t n, float out[3])
{
    const int64_t whole = v_whole_pairs(n);
    vf sum[3] = {{0}, {0}, {0}};
    for (int64_t j = 0; j < whole; j += RUN)
        power_run(e, x, j, whole - j < RUN ? whole : j + RUN, sum);
    for (int64_t j = whole; j < n; j += VL)
        add_powers(v_load_n(e, x, j, v_tail(n, j), 0), sum);
    for (int k = 0; k < 3; k++)
        out[k] = v_sum(sum[k]);
}

/* ((c0 x + c1) x + c2) x + c3 */
SIMD_INLINE vf polynomial(vf x, const float c[4])
{
    return ((x * v_set(c[0]) + v_set(c[1])) * x + v_set(c[2])) * x + v_set(c[3]);
}

SIMD_INLINE void forward_row(el e, int stream, const job *job, const char *x, char *y,
                             const float c[4])
{
    const int64_t n = job->n;
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 v = v_load2(e, e, x, j);
        v_write2(e, stream, y, j, (vf2){polynomial(v.a, c), polynomial(v.b, c)});
        ahead(e, x + job->x.stride, j);
    }
    for (; j < n; j += VL)
        v_store_n(e, y, j, v_tail(n, j), polynomial(v_load_n(e, x, j, v_tail(n, j), 0), c));
}

SIMD_INLINE void forward_rows(el e, int stream, const job *job, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const char *x = row_at(&job->x, i);
        float sum[3], c[4] = {0, 0, 0, job->bias};
        sum_powers(e, x, job->n, sum);
        for (int k = 0; k < 3; k++) {
            const float r = (float)(1 / sqrt(sum[k] / (double)job->n + job->eps));
            c[k] = job->weight[k] * r;
            if (job->rstd)
                job->rstd[3 * i + k] = r;
        }
        forward_row(e, stream, job, x, row_at(&job->out, i), c);
    }
}

ROWS_CHUNK(forward_chunk, job, forward_rows);

/* ---- backward ---- */

/* Sums of dy x^3, dy x^2, dy x, dy. */
SIMD_INLINE void add_products(vf dy, vf x, vf sum[4])
{
    const vf first = dy * x, second = first * x;
    sum[0] += second * x;
    sum[1] += second;
    sum[2] += first;
    sum[3] += dy;
}

SIMD_INLINE void product_run(el e, const char *dy, const char *x, int64_t begin, int64_t end,
                             vf sum[4])
{
    vf a[4] = {{0}, {0}, {0}, {0}}, b[4] = {{0}, {0}, {0}, {0}};
    for (int64_t j = begin; j < end; j += V_PAIR) {
        const vf2 g = v_load2(e, e, dy, j), v = v_load2(e, e, x, j);
        add_products(g.a, v.a, a);
        add_products(g.b, v.b, b);
    }
    for (int k = 0; k < 4; k++)
        sum[k] += a[k] + b[k];
}

SIMD_INLINE void sum_products(el e, const char *dy, const char *x, int64_t n, float out[4])
{
    const int64_t whole = v_whole_pairs(n);
    vf sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t j = 0; j < whole; j += RUN)
        product_run(e, dy, x, j, whole - j < RUN ? whole : j + RUN, sum);
    for (int64_t j = whole; j < n; j += VL)
        add_products(v_load_n(e, dy, j, v_tail(n, j), 0), v_load_n(e, x, j, v_tail(n, j), 0), sum);
    for (int k = 0; k < 4; k++)
        out[k] = v_sum(sum[k]);
}

/* dx = dy (along x^2 + ... ) - (back x^5 + ...): coefficients from the highest power on */
typedef struct slopes {
    float along[3], back[3];
} slopes;

SIMD_INLINE vf gradient(vf dy, vf x, const slopes *s)
{
    const vf square = x * x;
    const vf along = (x * v_set(s->along[0]) + v_set(s->along[1])) * x + v_set(s->along[2]);
    const vf back = (square * v_set(s->back[0]) + v_set(s->back[1])) * square + v_set(s->back[2]);
    return dy * along - x * back;
}

SIMD_INLINE void backward_row(el e, int stream, const job *job, const char *dy, const char *x,
                              char *dx, const slopes *s)
{
    const int64_t n = job->n;
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 g = v_load2(e, e, dy, j), v = v_load2(e, e, x, j);
        v_write2(e, stream, dx, j, (vf2){gradient(g.a, v.a, s), gradient(g.b, v.b, s)});
        ahead(e, x + job->x.stride, j);
        ahead(e, dy + job->dy.stride, j);
    }
    for (; j < n; j += VL)
        v_store_n(
            e, dx, j, v_tail(n, j),
            gradient(v_load_n(e, dy, j, v_tail(n, j), 0), v_load_n(e, x, j, v_tail(n, j), 0), s));
}

SIMD_INLINE void backward_rows(el e, int stream, const job *job, int64_t begin, int64_t end,
                               int worker)
{
    (void)worker;
    sums total = {{0}, 0};
    for (int64_t i = begin; i < end; i++) {
        const char *dy = row_at(&job->dy, i), *x = row_at(&job->x, i);
        float product[4];
        slopes s;
        sum_products(e, dy, x, job->n, product);
        for (int k = 0; k < 3; k++) {
            const double r = job->rstd[3 * i + k], along = (3 - k) * job->weight[k] * r;
            s.along[k] = (float)along;
            s.back[k] = (float)(along * r * r * product[k] / (double)job->n);
            total.weight[k] += r * product[k];
        }
        total.bias += product[3];
        backward_row(e, stream, job, dy, x, row_at(&job->out, i), &s);
    }
    job->sums[begin / job->grain] = total;
}

ROWS_CHUNK(backward_chunk, job, backward_rows);

/* ---- calls ---- */

static float element(const tg_tensor *t, int k)
{
    return el_get(el_of(t), tg_data(t), k);
}

static void put_element(const tg_tensor *t, int k, double value, int64_t accumulate)
{
    if (t)
        el_set(el_of(t), tg_data(t), k, (float)(value + (accumulate ? element(t, k) : 0)));
}

/* What both directions have; `over` is what the output may stand in place of. */
static job job_of(const tg_tensor *x, const tg_tensor *weight, const tg_tensor *rstd,
                  const tg_tensor *out, const tg_tensor *over)
{
    return (job){.x = operand_of(x),
                 .out = operand_of(out),
                 .rstd = tg_data(rstd),
                 .weight = {element(weight, 0), element(weight, 1), element(weight, 2)},
                 .n = tg_rows_of(x).n,
                 .stream = rows_stream_aligned(out, over),
                 .type = el_of(x)};
}

static tg_status forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args)
{
    job job = job_of(args->x, args->weight, args->rstd, args->y, args->x);
    job.bias = element(args->bias, 0);
    job.eps = args->eps;
    const int64_t rows = tg_rows_of(args->x).rows;
    tg_parallel_for(ctx, rows, rows_grain(rows, job.n, 1), forward_chunk, &job);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args)
{
    const int64_t rows = tg_rows_of(args->dy).rows;
    job job = job_of(args->x, args->weight, args->rstd, args->dx, args->dy);
    job.dy = operand_of(args->dy);
    job.grain = rows_worth(job.n, WORTH);
    const int64_t chunks = (rows + job.grain - 1) / job.grain;
    job.sums = tg_workspace(ctx, (size_t)chunks * sizeof *job.sums);
    if (!job.sums)
        return TG_ENOMEM;
    tg_parallel_for(ctx, rows, job.grain, backward_chunk, &job);
    sums total = {{0}, 0};
    for (int64_t c = 0; c < chunks; c++) {
        for (int k = 0; k < 3; k++)
            total.weight[k] += job.sums[c].weight[k];
        total.bias += job.sums[c].bias;
    }
    for (int k = 0; k < 3; k++)
        put_element(args->dweight, k, total.weight[k], args->accumulate);
    put_element(args->dbias, 0, total.bias, args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(poly_norm) = {
    TG_CPU_IMPL(poly_norm_forward, forward),
    TG_CPU_IMPL(poly_norm_backward, backward),
    TG_IMPLS_END,
};
