/* Elementary steps: choice of the level, broadcasting checks left to the caller, work cut by size.
 */
#include <math.h>

#include "core/core.h"
#include "eager/eager_steps.h"

#define TG_EAGER_LEVEL(level, needs) extern const eager_steps tg_eager_steps_##level;
#include "eager_levels.inc"
#undef TG_EAGER_LEVEL

static const struct {
    uint64_t needs;
    const eager_steps *steps;
} levels[] = {
#define TG_EAGER_LEVEL(level, needs) {needs, &tg_eager_steps_##level},
#include "eager_levels.inc"
#undef TG_EAGER_LEVEL
};

enum { CHUNK = 32768 }; /* elements */

eager eager_begin(tg_ctx *ctx)
{
    eager e = {ctx, TG_OK, NULL};
    for (size_t i = 0; i < sizeof levels / sizeof *levels && !e.steps; i++)
        if ((levels[i].needs & ~ctx->cpu_features) == 0)
            e.steps = levels[i].steps;
    if (!e.steps)
        e.status = tg_fail(TG_EUNSUPPORTED,
                           "the unfused implementations need a processor with %s at least",
                           tg_cpu_needs(levels[sizeof levels / sizeof *levels - 1].needs));
    return e;
}

tg_status eager_end(eager *e)
{
    return e->status;
}

mat eager_view(void *data, int type, int64_t rows, int64_t cols, int64_t stride)
{
    return (mat){data, type, rows, cols, stride, 0};
}

mat eager_rows(const tg_tensor *t)
{
    const tg_rows r = tg_rows_of(t);
    return (mat){r.data, r.type, r.rows, r.n, r.stride, 0};
}

mat eager_vector(const tg_tensor *t)
{
    const int64_t n = t ? tg_numel(t) : 0;
    return (mat){tg_data(t), t ? tg_type_of(t) : 0, 1, n, n, 0};
}

mat eager_column(const tg_tensor *t)
{
    return (mat){tg_data(t), t ? tg_type_of(t) : 0, t ? tg_numel(t) : 0, 1, 1, 0};
}

mat eager_new(eager *e, int type, int64_t rows, int64_t cols)
{
    mat m = {NULL, type, rows, cols, cols, 0};
    if (e->status == TG_OK)
        m.data = tg_workspace(e->ctx, (size_t)(rows * cols) * tg_type_size(type));
    if (e->status == TG_OK && !m.data)
        e->status = TG_ENOMEM;
    return m;
}

void eager_free(eager *e, mat m)
{
    tg_workspace_free(e->ctx, m.data);
}

/* ---- running a step ---- */

typedef struct eager_job {
    eager_step step;
    void (*run)(const eager_step *step, int64_t begin, int64_t end);
} eager_job;

static void run_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const eager_job *job = arg;
    job->run(&job->step, begin, end);
}

static int64_t rows_per_chunk(int64_t cols)
{
    return cols > 0 && CHUNK / cols > 1 ? CHUNK / cols : 1;
}

/* A compact matrix that needs no broadcasting, as one of long rows: short rows are no reason to be
 * slow. */
static int flat(const eager_step *s)
{
    const int64_t rows = s->out.rows, cols = s->out.cols;
    const mat *all[] = {&s->out, &s->a, &s->b};
    for (int i = 0; i < 3; i++)
        if (all[i]->data &&
            (all[i]->rows != rows || all[i]->cols != cols || all[i]->stride != cols))
            return 0;
    return rows > 1 && cols > 0 && cols < CHUNK && rows * cols % CHUNK == 0;
}

static void map(eager *e, eager_step s)
{
    if (e->status != TG_OK)
        return;
    if (flat(&s)) {
        const int64_t rows = s.out.rows * s.out.cols / CHUNK;
        mat *all[] = {&s.out, &s.a, &s.b};
        for (int i = 0; i < 3; i++)
            if (all[i]->data)
                *all[i] = (mat){all[i]->data, all[i]->type, rows, CHUNK, CHUNK, 0};
    }
    eager_job job = {s, e->steps->map};
    tg_parallel_for(e->ctx, s.out.rows, rows_per_chunk(s.out.cols), run_chunk, &job);
}

void eager_unary(eager *e, eager_op op, mat out, mat a)
{
    map(e, (eager_step){op, out, a, {0}, 0});
}

void eager_binary(eager *e, eager_op op, mat out, mat a, mat b)
{
    map(e, (eager_step){op, out, a, b, 0});
}

void eager_scalar(eager *e, eager_op op, mat out, mat a, double b)
{
    map(e, (eager_step){op, out, a, {0}, (float)b});
}

void eager_fill(eager *e, mat out, double value)
{
    /* 0 * 0 + value: there is no operand to read */
    static const float zero = 0;
    const mat a = {(void *)&zero, TG_F32, 1, 1, 1, 0};
    map(e, (eager_step){EAGER_ADD, out, a, {0}, (float)value});
}

void eager_reduce_rows(eager *e, eager_op op, mat out, mat a)
{
    if (e->status != TG_OK)
        return;
    eager_job job = {{op, out, a, {0}, 0}, e->steps->reduce};
    tg_parallel_for(e->ctx, a.rows, rows_per_chunk(a.cols), run_chunk, &job);
}

void eager_sum_columns(eager *e, mat out, mat a)
{
    if (e->status != TG_OK)
        return;
    eager_job job = {{EAGER_SUM, out, a, {0}, 0}, e->steps->sum_columns};
    const int64_t strip = 64, least = a.rows > 0 ? CHUNK / a.rows : a.cols;
    tg_parallel_for(e->ctx, a.cols, (least + strip) / strip * strip, run_chunk, &job);
}

mat eager_less(eager *e, mat a, mat b)
{
    const mat difference = eager_new(e, TG_F32, a.rows, a.cols);
    eager_binary(e, EAGER_SUB, difference, a, b);
    return difference;
}

mat eager_row_mean(eager *e, mat a)
{
    const mat mean = eager_new(e, TG_F32, a.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, mean, a);
    eager_scalar(e, EAGER_DIV, mean, mean, (double)a.cols);
    return mean;
}

mat eager_row_rstd(eager *e, mat centred, double eps)
{
    const mat square = eager_new(e, TG_F32, centred.rows, centred.cols);
    eager_binary(e, EAGER_MUL, square, centred, centred);
    const mat rstd = eager_row_mean(e, square);
    eager_free(e, square);
    eager_scalar(e, EAGER_ADD, rstd, rstd, eps);
    eager_unary(e, EAGER_RSQRT, rstd, rstd);
    return rstd;
}

mat eager_log_softmax(eager *e, mat x, double temperature, mat *sums)
{
    const mat log_p = eager_new(e, TG_F32, x.rows, x.cols);
    const mat shifted = eager_new(e, TG_F32, x.rows, x.cols);
    const mat max = eager_new(e, TG_F32, x.rows, 1), sum = eager_new(e, TG_F32, x.rows, 1);
    eager_scalar(e, EAGER_DIV, log_p, x, temperature);
    eager_reduce_rows(e, EAGER_MAX, max, log_p);
    eager_binary(e, EAGER_SUB, shifted, log_p, max);
    eager_unary(e, EAGER_EXP, log_p, shifted);
    eager_reduce_rows(e, EAGER_SUM, sum, log_p);
    eager_unary(e, EAGER_LOG, max, sum);
    eager_binary(e, EAGER_SUB, log_p, shifted, max);
    if (sums)
        *sums = sum;
    else
        eager_free(e, sum);
    eager_free(e, max);
    eager_free(e, shifted);
    return log_p;
}

/* A class with more than half of a row's probability: d - p sum(d) is a difference of nearly equal numbers there, which is
 * q d - p times the sum of the others' d, q = 1 - p. */
static void settle_likely(mat log_p, mat sum, mat d, mat dx, int64_t row)
{
    const float *l = (const float *)log_p.data + row * log_p.stride;
    const float *from = (const float *)d.data + row * d.stride;
    int64_t top = 0;
    double q = 0, others = 0;
    if (!(((const float *)sum.data)[row] < 2))
        return;
    for (int64_t i = 1; i < log_p.cols; i++)
        top = l[i] > l[top] ? i : top;
    for (int64_t i = 0; i < log_p.cols; i++) {
        q += i == top ? 0 : exp(l[i]);
        others += i == top ? 0 : from[i];
    }
    ((float *)dx.data)[row * dx.stride + top] = (float)(q * from[top] - (1 - q) * others);
}

mat eager_log_softmax_backward(eager *e, mat log_p, mat sums, mat d)
{
    const mat dx = eager_new(e, TG_F32, d.rows, d.cols);
    const mat product = eager_new(e, TG_F32, d.rows, d.cols);
    const mat sum = eager_new(e, TG_F32, d.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sum, d);
    eager_unary(e, EAGER_EXP, dx, log_p);
    eager_binary(e, EAGER_MUL, product, dx, sum);
    eager_binary(e, EAGER_SUB, dx, d, product);
    for (int64_t row = 0; e->status == TG_OK && d.cols && row < d.rows; row++)
        settle_likely(log_p, sums, d, dx, row);
    eager_free(e, sum);
    eager_free(e, product);
    return dx;
}

int eager_all_minus_inf(mat m, int64_t row)
{
    const float *x = (const float *)m.data + row * m.stride;
    int64_t i = 0;
    while (i < m.cols && x[i] == -INFINITY)
        i++;
    return i == m.cols;
}
