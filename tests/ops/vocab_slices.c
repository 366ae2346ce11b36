/* cross_entropy and fused_linear_cross_entropy: slices of a vocabulary together are the whole, in what they compute; and what a slice
 * cannot compute is refused by name. */
#include <math.h>

#include "../common/test.h"

enum { ROWS = 7, HIDDEN = 5, VOCAB = 40, SLICES = 3 };
static const int64_t bounds[SLICES + 1] = {0, 13, 14, VOCAB};

static float x[ROWS * HIDDEN], weight[VOCAB * HIDDEN], logits[ROWS * VOCAB];
static int64_t target[ROWS] = {0, 12, 13, 14, 39, -100, 20};

static tg_tensor matrix(float *data, int64_t *shape, int64_t rows, int64_t cols)
{
    shape[0] = rows;
    shape[1] = cols;
    return tg_tensor_of(data, TG_F32, 2, shape);
}

static void near_to(const char *impl, const char *what, const float *got, const float *expected,
                    int n)
{
    for (int i = 0; i < n; i++)
        EXPECT(fabsf(got[i] - expected[i]) <= 2e-6f * (1 + fabsf(expected[i])),
               "%s: %s[%d] is %g, expected %g", impl, what, i, (double)got[i], (double)expected[i]);
}

/* The slices' lse and losses, as their sum tells the whole's. */
static void combine(const float (*lse_s)[ROWS], const float (*loss_s)[ROWS], double z, float *lse,
                    float *loss)
{
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, rest = 0;
        for (int s = 0; s < SLICES; s++) {
            sum += exp((double)lse_s[s][r]);
            rest += (double)loss_s[s][r];
        }
        lse[r] = target[r] == -100 ? 0 : (float)log(sum);
        loss[r] = target[r] == -100 ? 0 : (float)(log(sum) + rest + z * log(sum) * log(sum));
    }
}

static void check_logits(tg_ctx *ctx, const char *impl, double smoothing, double z, double softcap)
{
    int64_t shape[2], part_shape[2], rows = ROWS, vocab_stride[2] = {VOCAB, 1};
    float loss[ROWS], lse[ROWS], dlogits[ROWS * VOCAB], sum_loss[ROWS], sum_lse[ROWS];
    float loss_s[SLICES][ROWS], lse_s[SLICES][ROWS], slices[ROWS * VOCAB];
    tg_tensor t = matrix(logits, shape, ROWS, VOCAB), d = matrix(dlogits, shape, ROWS, VOCAB);
    tg_tensor l = tg_tensor_of(loss, TG_F32, 1, &rows), e = tg_tensor_of(lse, TG_F32, 1, &rows);
    tg_tensor y = tg_tensor_of(target, TG_I64, 1, &rows);
    EXPECT(!tg_cross_entropy_forward(ctx,
                                     &(tg_cross_entropy_forward_args){.logits = &t,
                                                                      .target = &y,
                                                                      .loss = &l,
                                                                      .lse = &e,
                                                                      .dlogits = &d,
                                                                      .reduction = TG_NONE,
                                                                      .label_smoothing = smoothing,
                                                                      .lse_square_scale = z,
                                                                      .softcap = softcap}),
           "%s", tg_last_error());
    for (int backward = 0; backward < 2; backward++) {
        for (int s = 0; s < SLICES; s++) {
            const int64_t first = bounds[s], n = bounds[s + 1] - first;
            tg_tensor part = matrix(logits + first, part_shape, ROWS, n);
            tg_tensor dpart = matrix(slices + first, part_shape, ROWS, n);
            part.strides = dpart.strides = vocab_stride;
            tg_tensor ls = tg_tensor_of(loss_s[s], TG_F32, 1, &rows),
                      es = tg_tensor_of(lse_s[s], TG_F32, 1, &rows);
            const tg_tensor all = tg_tensor_of(sum_lse, TG_F32, 1, &rows);
            const tg_cross_entropy_forward_args f = {.logits = &part,
                                                     .target = &y,
                                                     .loss = &ls,
                                                     .lse = &es,
                                                     .reduction = TG_NONE,
                                                     .label_smoothing = smoothing,
                                                     .lse_square_scale = z,
                                                     .softcap = softcap,
                                                     .vocab_start = first,
                                                     .vocab_size = VOCAB};
            const tg_cross_entropy_backward_args b = {.logits = &part,
                                                      .target = &y,
                                                      .lse = &all,
                                                      .dlogits = &dpart,
                                                      .reduction = TG_NONE,
                                                      .label_smoothing = smoothing,
                                                      .lse_square_scale = z,
                                                      .softcap = softcap,
                                                      .vocab_start = first,
                                                      .vocab_size = VOCAB};
            EXPECT(!(backward ? tg_cross_entropy_backward(ctx, &b)
                              : tg_cross_entropy_forward(ctx, &f)),
                   "%s", tg_last_error());
        }
        if (!backward)
            combine(lse_s, loss_s, z, sum_lse, sum_loss);
    }
    near_to(impl, "lse", sum_lse, lse, ROWS);
    near_to(impl, "loss", sum_loss, loss, ROWS);
    near_to(impl, "dlogits", slices, dlogits, ROWS * VOCAB);
}

static void check_linear(tg_ctx *ctx, const char *impl, int64_t reduction, int64_t chunk_bytes)
{
    int64_t x_shape[2], w_shape[2], part_shape[2], rows = ROWS, one = 1;
    const double smoothing = 0.1;
    float loss[ROWS], lse[ROWS], dx[ROWS * HIDDEN], dweight[VOCAB * HIDDEN];
    float loss_s[SLICES][ROWS], lse_s[SLICES][ROWS], dx_s[ROWS * HIDDEN], slices[VOCAB * HIDDEN];
    float sum_loss[ROWS], sum_lse[ROWS], sum_dx[ROWS * HIDDEN] = {0};
    tg_tensor tx = matrix(x, x_shape, ROWS, HIDDEN), tw = matrix(weight, w_shape, VOCAB, HIDDEN);
    tg_tensor tdx = matrix(dx, x_shape, ROWS, HIDDEN),
              tdw = matrix(dweight, w_shape, VOCAB, HIDDEN);
    tg_tensor tdx_s = matrix(dx_s, x_shape, ROWS, HIDDEN),
              y = tg_tensor_of(target, TG_I64, 1, &rows);
    tg_tensor l = tg_tensor_of(loss, TG_F32, 1, reduction == TG_NONE ? &rows : &one);
    tg_tensor e = tg_tensor_of(lse, TG_F32, 1, &rows);
    const tg_fused_linear_cross_entropy_forward_args whole = {.x = &tx,
                                                              .weight = &tw,
                                                              .target = &y,
                                                              .loss = &l,
                                                              .lse = &e,
                                                              .dx = &tdx,
                                                              .dweight = &tdw,
                                                              .reduction = reduction,
                                                              .label_smoothing = smoothing};
    EXPECT(!tg_fused_linear_cross_entropy_forward(ctx, &whole), "%s", tg_last_error());
    for (int backward = 0; backward < 2; backward++) {
        for (int s = 0; s < SLICES; s++) {
            const int64_t first = bounds[s], n = bounds[s + 1] - first;
            tg_tensor part = matrix(weight + first * HIDDEN, part_shape, n, HIDDEN);
            tg_tensor dpart = matrix(slices + first * HIDDEN, part_shape, n, HIDDEN);
            tg_tensor ls = tg_tensor_of(loss_s[s], TG_F32, 1, &rows),
                      es = tg_tensor_of(lse_s[s], TG_F32, 1, &rows);
            const tg_tensor all = tg_tensor_of(sum_lse, TG_F32, 1, &rows);
            const tg_fused_linear_cross_entropy_forward_args f = {.x = &tx,
                                                                  .weight = &part,
                                                                  .target = &y,
                                                                  .loss = &ls,
                                                                  .lse = &es,
                                                                  .reduction = TG_NONE,
                                                                  .label_smoothing = smoothing,
                                                                  .chunk_bytes = chunk_bytes,
                                                                  .vocab_start = first,
                                                                  .vocab_size = VOCAB};
            const tg_fused_linear_cross_entropy_backward_args b = {.x = &tx,
                                                                   .weight = &part,
                                                                   .target = &y,
                                                                   .lse = &all,
                                                                   .dx = &tdx_s,
                                                                   .dweight = &dpart,
                                                                   .reduction = reduction,
                                                                   .label_smoothing = smoothing,
                                                                   .chunk_bytes = chunk_bytes,
                                                                   .vocab_start = first,
                                                                   .vocab_size = VOCAB};
            EXPECT(!(backward ? tg_fused_linear_cross_entropy_backward(ctx, &b)
                              : tg_fused_linear_cross_entropy_forward(ctx, &f)),
                   "%s", tg_last_error());
            for (int i = 0; backward && i < ROWS * HIDDEN; i++)
                sum_dx[i] += dx_s[i];
        }
        if (!backward)
            combine(lse_s, loss_s, 0, sum_lse, sum_loss);
    }
    near_to(impl, "lse", sum_lse, lse, ROWS);
    if (reduction == TG_NONE)
        near_to(impl, "loss", sum_loss, loss, ROWS);
    near_to(impl, "dx", sum_dx, dx, ROWS * HIDDEN);
    near_to(impl, "dweight", slices, dweight, VOCAB * HIDDEN);
}

static void expect_error(tg_status status, const char *expected)
{
    EXPECT(status == TG_EINVAL && strstr(tg_last_error(), expected), "%d: %s", (int)status,
           tg_last_error());
}

static void check_errors(tg_ctx *ctx)
{
    int64_t shape[2], rows = ROWS;
    float out[ROWS], d[ROWS * VOCAB];
    tg_tensor t = matrix(logits, shape, ROWS, VOCAB), td = matrix(d, shape, ROWS, VOCAB);
    tg_tensor l = tg_tensor_of(out, TG_F32, 1, &rows), y = tg_tensor_of(target, TG_I64, 1, &rows);
    const tg_cross_entropy_forward_args good = {.logits = &t,
                                                .target = &y,
                                                .loss = &l,
                                                .reduction = TG_NONE,
                                                .vocab_start = 8,
                                                .vocab_size = 2 * VOCAB};
    tg_cross_entropy_forward_args a = good;
    EXPECT(!tg_cross_entropy_forward(ctx, &a), "%s", tg_last_error());
    a.dlogits = &td;
    expect_error(tg_cross_entropy_forward(ctx, &a),
                 "dlogits is given, expected none beside vocab_size");
    a = good;
    a.token_scaling = 1;
    expect_error(tg_cross_entropy_forward(ctx, &a),
                 "token_scaling is given, expected none beside vocab_size");
    a = good;
    a.vocab_size = VOCAB - 1;
    expect_error(tg_cross_entropy_forward(ctx, &a), "vocab_size is 39, expected");
    a = good;
    a.vocab_start = VOCAB + 1;
    expect_error(tg_cross_entropy_forward(ctx, &a), "vocab_start is 41, expected 0 to 40");
    a = good;
    a.vocab_size = 0;
    expect_error(tg_cross_entropy_forward(ctx, &a), "vocab_start is 8, expected 0 to 0");
    target[6] = 2 * VOCAB;
    a = good;
    expect_error(tg_cross_entropy_forward(ctx, &a), "target[6] is 80");
    target[6] = 20;
}

static void fill(float *data, int n, double scale)
{
    static uint32_t state = 1;
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(scale * ((double)(state >> 8) / (1 << 23) - 1));
    }
}

int main(void)
{
    const char *const impls[] = {"ref", "cpu"};
    fill(x, ROWS * HIDDEN, 1);
    fill(weight, VOCAB * HIDDEN, 1);
    fill(logits, ROWS * VOCAB, 6);
    for (int i = 0; i < 2; i++) {
        tg_ctx *ctx = new_context();
        EXPECT(!tg_ctx_set_impl(ctx, impls[i]), "%s", tg_last_error());
        check_logits(ctx, impls[i], 0, 0, 0);
        check_logits(ctx, impls[i], 0.1, 1e-2, 4);
        check_linear(ctx, impls[i], TG_NONE, 0);
        check_linear(ctx, impls[i], TG_MEAN, 2 * VOCAB * 4);
        check_linear(ctx, impls[i], TG_SUM, 1);
        check_errors(ctx);
        tg_ctx_destroy(ctx);
    }
    return report();
}
