/* What several families make of elementary steps. */
#include <math.h>
#include <string.h>

#include "eager.h"

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

mat eager_then(eager *e, eager_op op, mat x)
{
    const mat y = eager_like(e, x);
    eager_unary(e, op, y, x);
    eager_free(e, x);
    return y;
}

mat eager_then_by(eager *e, eager_op op, mat x, mat operand)
{
    const mat y = eager_like(e, x);
    eager_binary(e, op, y, x, operand);
    eager_free(e, x);
    return y;
}

mat eager_then_scalar(eager *e, eager_op op, mat x, double value)
{
    const mat y = eager_like(e, x);
    eager_scalar(e, op, y, x, value);
    eager_free(e, x);
    return y;
}

mat eager_then_type(eager *e, int type, mat x)
{
    if (x.type == type)
        return x;
    const mat y = eager_copy(e, type, x);
    eager_free(e, x);
    return y;
}

mat eager_softmax(eager *e, mat x, mat sum)
{
    const mat max = eager_new(e, TG_F32, x.rows, 1);
    eager_reduce_rows(e, EAGER_MAX, max, x);
    x = eager_then_by(e, EAGER_SUB, x, max);
    x = eager_then(e, EAGER_EXP, x);
    eager_reduce_rows(e, EAGER_SUM, sum, x);
    x = eager_then_by(e, EAGER_DIV, x, sum);
    eager_unary(e, EAGER_LOG, sum, sum);
    eager_binary(e, EAGER_ADD, sum, sum, max);
    eager_free(e, max);
    return x;
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

/* A class with more than half of a row's probability: d - p sum(d) is a difference of nearly equal
 * numbers there, which is q d - p times the sum of the others' d, q = 1 - p. */
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

void eager_drop_rows(const eager *e, row_labels labels, mat m)
{
    const int64_t size = (int64_t)tg_type_size(m.type);
    for (int64_t r = 0; !e->status && m.cols && r < m.rows; r++)
        if (row_ignored(labels, r))
            memset((char *)m.data + r * m.stride * size, 0, (size_t)(m.cols * size));
}

int eager_all_minus_inf(mat m, int64_t row)
{
    const float *x = (const float *)m.data + row * m.stride;
    int64_t i = 0;
    while (i < m.cols && x[i] == -INFINITY)
        i++;
    return i == m.cols;
}

mat eager_columns(mat m, int64_t begin, int64_t count)
{
    m.data = element_at(m.data, m.type, begin);
    m.cols = count;
    return m;
}

typedef struct permutation {
    mat out, a;
    int to_halves;
} permutation;

static void permute_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const permutation *p = arg;
    const size_t size = tg_type_size(p->a.type);
    const int64_t half = p->a.cols / 2;
    (void)worker;
    for (int64_t r = begin; r < end; r++)
        for (int64_t d = 0; d < p->a.cols; d++) {
            const int64_t i = d < half ? 2 * d : 2 * (d - half) + 1; /* among neighbours */
            memcpy(element_at(p->out.data, p->a.type, r * p->out.stride + (p->to_halves ? d : i)),
                   element_at(p->a.data, p->a.type, r * p->a.stride + (p->to_halves ? i : d)),
                   size);
        }
}

void eager_permute(eager *e, mat out, mat a, int to_halves)
{
    permutation p = {out, a, to_halves};
    if (e->status == TG_OK)
        unfused_host->parallel_for(e->ctx, a.rows, 1 + 16384 / (1 + a.cols), permute_rows, &p);
}
