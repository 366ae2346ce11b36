/* Sums whose order is promised: of an index's rows in the order of the positions, of parts
 * in the order of the rows that they are made of. A number so large that it swallows all
 * others comes first, its opposite later, and 1 at the end: in order the sum is 1, and in
 * nearly any other it is 0. */
#include "../common/test.h"

#define HUGE_NUMBER 0x1p100f /* of f32, and in f64 as well */

enum { MOST = 1 << 17, WIDEST = 65 };

static const int64_t widths[] = {1, 3, 8, 16, 17, 33, 40, WIDEST};
enum { WIDTHS = sizeof widths / sizeof *widths };

static float rows_data[MOST], other[MOST], gradient[MOST], sums[WIDEST], ones[WIDEST],
    per_row[MOST];
static int64_t index_data[MOST];

/* rows x n, 0 but for the three numbers of each column: in the first row, in the
 * middle, in the last. */
static void fill(int64_t rows, int64_t n)
{
    memset(rows_data, 0, (size_t)(rows * n) * sizeof *rows_data);
    for (int64_t c = 0; c < n; c++) {
        rows_data[c] = HUGE_NUMBER;
        rows_data[rows / 2 * n + c] = -HUGE_NUMBER;
        rows_data[(rows - 1) * n + c] = 1;
    }
}

static void expect_ones(int impl, const float *found, int64_t rows, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        EXPECT(found[c] == 1, "%s, %lld rows of %lld: column %lld adds up to %g, in order it is 1",
               tg_impl_at(impl)->full_name, (long long)rows, (long long)n, (long long)c,
               (double)found[c]);
}

/* ---- one operator after the other: sums[n] of rows_data [rows, n] ---- */

static tg_status embedding(tg_ctx *ctx, int impl, int64_t rows, int64_t n)
{
    int64_t shape[] = {rows, n}, table[] = {1, n};
    const tg_tensor dy = tg_tensor_of(rows_data, TG_F32, 2, shape),
                    indices = tg_tensor_of(index_data, TG_I64, 1, &rows);
    tg_tensor dweight = tg_tensor_of(sums, TG_F32, 2, table);
    return tg_impl_run(ctx, impl, &(tg_embedding_backward_args){&dy, &indices, &dweight, 0});
}

static tg_status layer_norm(tg_ctx *ctx, int impl, int64_t rows, int64_t n)
{
    int64_t shape[] = {rows, n};
    const tg_tensor dy = tg_tensor_of(rows_data, TG_F32, 2, shape),
                    x = tg_tensor_of(other, TG_F32, 2, shape),
                    mean = tg_tensor_of(per_row, TG_F32, 1, &rows),
                    rstd = tg_tensor_of(per_row, TG_F32, 1, &rows);
    tg_tensor dx = tg_tensor_of(gradient, TG_F32, 2, shape),
              dbias = tg_tensor_of(sums, TG_F32, 1, &n);
    return tg_impl_run(
        ctx, impl,
        &(tg_layer_norm_backward_args){
            .dy = &dy, .x = &x, .mean = &mean, .rstd = &rstd, .dx = &dx, .dbias = &dbias});
}

static tg_status rms_norm(tg_ctx *ctx, int impl, int64_t rows, int64_t n)
{
    int64_t shape[] = {rows, n};
    const tg_tensor dy = tg_tensor_of(rows_data, TG_F32, 2, shape),
                    x = tg_tensor_of(other, TG_F32, 2, shape),
                    weight = tg_tensor_of(ones, TG_F32, 1, &n),
                    rstd = tg_tensor_of(per_row, TG_F32, 1, &rows);
    tg_tensor dx = tg_tensor_of(gradient, TG_F32, 2, shape),
              dweight = tg_tensor_of(sums, TG_F32, 1, &n);
    return tg_impl_run(
        ctx, impl,
        &(tg_rms_norm_backward_args){
            .dy = &dy, .x = &x, .weight = &weight, .rstd = &rstd, .dx = &dx, .dweight = &dweight});
}

static tg_status dyt(tg_ctx *ctx, int impl, int64_t rows, int64_t n)
{
    int64_t shape[] = {rows, n}, one = 1;
    const tg_tensor dy = tg_tensor_of(rows_data, TG_F32, 2, shape),
                    x = tg_tensor_of(other, TG_F32, 2, shape),
                    alpha = tg_tensor_of(ones, TG_F32, 1, &one),
                    gamma = tg_tensor_of(ones, TG_F32, 1, &n);
    tg_tensor dx = tg_tensor_of(gradient, TG_F32, 2, shape),
              dbeta = tg_tensor_of(sums, TG_F32, 1, &n);
    return tg_impl_run(
        ctx, impl,
        &(tg_dyt_backward_args){
            .dy = &dy, .x = &x, .alpha = &alpha, .gamma = &gamma, .dx = &dx, .dbeta = &dbeta});
}

/* [rows, n channels, 1] in one group */
static tg_status group_norm(tg_ctx *ctx, int impl, int64_t rows, int64_t n)
{
    int64_t shape[] = {rows, n, 1}, groups[] = {rows, 1};
    const tg_tensor dy = tg_tensor_of(rows_data, TG_F32, 3, shape),
                    x = tg_tensor_of(other, TG_F32, 3, shape),
                    mean = tg_tensor_of(per_row, TG_F32, 2, groups),
                    rstd = tg_tensor_of(per_row, TG_F32, 2, groups);
    tg_tensor dx = tg_tensor_of(gradient, TG_F32, 3, shape),
              dbias = tg_tensor_of(sums, TG_F32, 1, &n);
    return tg_impl_run(ctx, impl,
                       &(tg_group_norm_backward_args){.dy = &dy,
                                                      .x = &x,
                                                      .mean = &mean,
                                                      .rstd = &rstd,
                                                      .dx = &dx,
                                                      .dbias = &dbias,
                                                      .num_groups = 1});
}

static const struct {
    const char *op;
    tg_status (*run)(tg_ctx *ctx, int impl, int64_t rows, int64_t n);
} operators[] = {{"embedding_backward", embedding},
                 {"layer_norm_backward", layer_norm},
                 {"rms_norm_backward", rms_norm},
                 {"dyt_backward", dyt},
                 {"group_norm_backward", group_norm}};

/* A loss summed over long rows, in pieces: log-probabilities whose terms are the three numbers, in
 * the first row, the middle, the last. */
static void loss(tg_ctx *ctx, int impl)
{
    int64_t shape[] = {3, 20001}, one = 1;
    const int64_t n = shape[0] * shape[1];
    memset(other, 0, (size_t)n * sizeof *other);
    memset(gradient, 0, (size_t)n * sizeof *gradient);
    other[0] = other[n / 2] = other[n - 1] = 1; /* probabilities of the target: t (log t - y) */
    gradient[0] = -0x1p60f, gradient[n / 2] = 0x1p60f, gradient[n - 1] = -1;
    const tg_tensor y = tg_tensor_of(gradient, TG_F32, 2, shape),
                    t = tg_tensor_of(other, TG_F32, 2, shape);
    tg_tensor tloss = tg_tensor_of(sums, TG_F32, 1, &one);
    const tg_kl_div_forward_args args = {
        .y_pred = &y, .y_true = &t, .loss = &tloss, .reduction = TG_SUM};
    EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
    expect_ones(impl, sums, shape[0], 1);
}

/* Losses of rows whose logits are all 0: by their weights they are the three numbers times
 * the logarithm of 3. */
static void row_losses(tg_ctx *ctx, int impl)
{
    static float weights[] = {HUGE_NUMBER, -HUGE_NUMBER, 1};
    int64_t shape[] = {1001, 3}, classes = 3, one = 1;
    memset(other, 0, (size_t)(shape[0] * shape[1]) * sizeof *other);
    for (int64_t i = 0; i < shape[0]; i++)
        index_data[i] = -100; /* ignored */
    index_data[0] = 0, index_data[shape[0] / 2] = 1, index_data[shape[0] - 1] = 2;
    const tg_tensor logits = tg_tensor_of(other, TG_F32, 2, shape),
                    target = tg_tensor_of(index_data, TG_I64, 1, shape),
                    weight = tg_tensor_of(weights, TG_F32, 1, &classes);
    tg_tensor tloss = tg_tensor_of(sums, TG_F32, 1, &one);
    const tg_cross_entropy_forward_args args = {.logits = &logits,
                                                .target = &target,
                                                .class_weight = &weight,
                                                .loss = &tloss,
                                                .reduction = TG_SUM};
    EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(sums[0] > 1.09f && sums[0] < 1.11f, "%s: rows' losses add up to %g, in order to log 3",
           tg_impl_at(impl)->full_name, (double)sums[0]);
}

static int is_of_the_library(int impl)
{
    return !strncmp(tg_impl_at(impl)->full_name, "cpu/", 4) ||
           !strncmp(tg_impl_at(impl)->full_name, "ref/", 4);
}

static int every_impl(tg_ctx *ctx, int k)
{
    int found = 0;
    for (int impl = 0; impl < tg_impl_count(); impl++) {
        if (tg_impl_at(impl)->op != tg_op_by_name(operators[k].op) || !runs_on_cpu(ctx, impl) ||
            !is_of_the_library(impl))
            continue;
        found++;
        for (int w = 0; w < WIDTHS; w++)
            for (int many = 0; many < 2; many++) {
                const int64_t n = widths[w], rows = many ? MOST / n : 7;
                fill(rows, n);
                const tg_status status = operators[k].run(ctx, impl, rows, n);
                EXPECT(status == TG_OK, "%s", tg_last_error());
                expect_ones(impl, sums, rows, n);
            }
    }
    return found;
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int i = 0; i < WIDEST; i++)
        ones[i] = 1;
    for (int i = 0; i < MOST; i++)
        other[i] = per_row[i] = 1;
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++)
        EXPECT(every_impl(ctx, (int)k) >= 2, "%s: too few implementations", operators[k].op);
    for (int impl = 0; impl < tg_impl_count(); impl++) {
        if (!runs_on_cpu(ctx, impl) || !is_of_the_library(impl))
            continue;
        if (tg_impl_at(impl)->op == tg_op_by_name("kl_div_forward"))
            loss(ctx, impl);
        if (tg_impl_at(impl)->op == tg_op_by_name("cross_entropy_forward"))
            row_losses(ctx, impl);
    }
    tg_ctx_destroy(ctx);
    return report();
}
