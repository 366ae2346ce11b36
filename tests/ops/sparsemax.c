/* sparsemax along each dimension of one tensor, by every implementation; which dimensions and
 * strides are refused, and how the message says so. */
#include <math.h>

#include "../common/test.h"

enum { A = 3, M = 37, C = 19, TOTAL = A * M * C };

static float x[2 * TOTAL], y[2 * TOTAL];

/* The threshold of one row, by trying each element as the smallest of the support. */
static double threshold(const float *row, int64_t n, int64_t step)
{
    double tau = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, count = 0;
        for (int64_t j = 0; j < n; j++)
            if (row[j * step] >= row[i * step]) {
                sum += row[j * step];
                count++;
            }
        if (1 + count * row[i * step] > sum && (sum - 1) / count > tau)
            tau = (sum - 1) / count;
    }
    return tau;
}

static void check_dimension(tg_ctx *ctx, int impl, int64_t dim)
{
    int64_t shape[] = {A, M, C}, strides[] = {M * C, C, 1};
    const int64_t at = dim < 0 ? dim + 3 : dim, n = shape[at], step = strides[at];
    tg_tensor tx = tg_tensor_of(x, TG_F32, 3, shape), ty = tg_tensor_of(y, TG_F32, 3, shape);
    const tg_sparsemax_forward_args args = {.x = &tx, .y = &ty, .dim = TG_VALUE(dim)};
    EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
    for (int64_t i = 0; i < TOTAL; i++) {
        const int64_t first = i - i / step % n * step;
        const double expected = fmax(x[i] - threshold(x + first, n, step), 0);
        EXPECT(fabs(y[i] - expected) < 1e-6, "%s, dim %lld: element %lld is %g, expected %g",
               tg_impl_at(impl)->full_name, (long long)dim, (long long)i, (double)y[i], expected);
    }
}

/* One element stands out, and the others still share what it leaves: their digits lie far below
 * those of the maximum, of which one in the last place moves tau by 5e-11. */
static void far_below_the_maximum(tg_ctx *ctx, int impl)
{
    int64_t n = TOTAL;
    for (int i = 0; i < TOTAL; i++)
        x[TOTAL + i] = i == 5 ? 0.999f : 1e-6f * (float)(i % 7);
    tg_tensor tx = tg_tensor_of(x + TOTAL, TG_F32, 1, &n), ty = tg_tensor_of(y, TG_F32, 1, &n);
    const tg_sparsemax_forward_args args = {.x = &tx, .y = &ty};
    EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
    const double tau = threshold(x + TOTAL, TOTAL, 1);
    for (int i = 0; i < TOTAL; i++) {
        const double expected = fmax(x[TOTAL + i] - tau, 0);
        EXPECT(fabs(y[i] - expected) <= 1e-10 + 2e-6 * expected,
               "%s: element %d is %g, expected %g", tg_impl_at(impl)->full_name, i, (double)y[i],
               expected);
    }
}

static void refused(tg_ctx *ctx, int ndim, int64_t *shape, int64_t *strides, int64_t dim,
                    const char *expected)
{
    tg_tensor tx = tg_tensor_of(x, TG_F32, ndim, shape), ty = tg_tensor_of(y, TG_F32, ndim, shape);
    tx.strides = strides;
    const tg_sparsemax_forward_args args = {.x = &tx, .y = &ty, .dim = dim};
    y[0] = 7.0f;
    EXPECT(tg_sparsemax_forward(ctx, &args) == TG_EINVAL, "expected \"%s\"", expected);
    EXPECT(strcmp(tg_last_error(), expected) == 0, "the message is\n  %s, expected\n  %s",
           tg_last_error(), expected);
    EXPECT(y[0] == 7.0f, "y is written");
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int i = 0; i < 2 * TOTAL; i++)
        x[i] = 2.0f * sinf((float)i * (float)i);
    int found = 0;
    for (int impl = 0; impl < tg_impl_count(); impl++)
        if (tg_impl_at(impl)->op == tg_op_by_name("sparsemax_forward") && runs_on_cpu(ctx, impl)) {
            found++;
            for (int64_t dim = -3; dim < 3; dim++)
                check_dimension(ctx, impl, dim);
            if (strncmp(tg_impl_at(impl)->full_name, "unfused", 7) != 0)
                far_below_the_maximum(ctx, impl);
        }
    EXPECT(found >= 2, "%d implementations", found);

    int64_t shape[] = {A, M, C}, gaps[] = {M * (C + 2), C + 2, 1}, loose[] = {M * C + 5, C, 1};
    refused(ctx, 3, shape, NULL, 3, "sparsemax_forward: dim is 3, expected -3 to 2");
    refused(ctx, 3, shape, NULL, -4, "sparsemax_forward: dim is -4, expected -3 to 2");
    refused(ctx, 3, shape, gaps, -3,
            "sparsemax_forward: the dimensions of x behind dim -3 have gaps, expected one "
            "contiguous run");
    refused(ctx, 3, shape, loose, 0,
            "sparsemax_forward: the dimensions of x before dim -1 have strides that do not "
            "collapse to one stride");
    refused(ctx, 0, shape, NULL, 0,
            "sparsemax_forward: x has no dimensions, expected at least one");
    tg_ctx_destroy(ctx);
    return report();
}
