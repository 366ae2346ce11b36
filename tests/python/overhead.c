/* How long tg_call() takes for a problem so small that the kernel hardly counts: nanoseconds, the
 * least of some runs. */
#include <stdio.h>
#include <time.h>

#include <tigon/tigon.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    enum { CALLS = 10000, RUNS = 40 };
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, weight[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8], rstd[1];
    const int64_t matrix[] = {1, 8}, columns[] = {8}, rows[] = {1};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, matrix),
              tw = tg_tensor_of(weight, TG_F32, 1, columns);
    tg_tensor ty = tg_tensor_of(y, TG_F32, 2, matrix), tr = tg_tensor_of(rstd, TG_F32, 1, rows);
    const tg_rms_norm_forward_args args = {
        .x = &tx, .weight = &tw, .y = &ty, .rstd = &tr, .eps = 1e-6};
    const int op = tg_op_by_name("rms_norm_forward");
    double best = 1e18;
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx) || tg_ctx_set_device(ctx, "cpu"))
        return fprintf(stderr, "%s\n", tg_last_error()), 1;
    for (int run = 0; run < RUNS; run++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++)
            if (tg_call(ctx, op, &args))
                return fprintf(stderr, "%s\n", tg_last_error()), 1;
        const double each = (now() - start) / CALLS;
        best = each < best ? each : best;
    }
    printf("%.0f\n", best);
    tg_ctx_destroy(ctx);
    return 0;
}
