/* cross_entropy and fused_linear_cross_entropy: slices of a vocabulary together are the whole, in
 * what they compute; and what a slice cannot compute is refused by name. */
#include <math.h>

#include "slices.h"

enum { ROWS = 7, HIDDEN = 5 };

static float x[ROWS * HIDDEN], weight[VOCAB * HIDDEN], logits[ROWS * VOCAB];
static int64_t target[ROWS] = {0, 12, 13, 14, 39, -100, 20};

static tg_tensor matrix(float *data, int64_t *shape, int64_t rows, int64_t cols)
{
    shape[0] = rows;
    shape[1] = cols;
    return tg_tensor_of(data, TG_F32, 2, shape);
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

/* What the slices of a call give, and their sums. */
typedef struct slices {
    tg_ctx *ctx;
    int64_t reduction;
    double smoothing, z, softcap;
    int64_t chunk_bytes;
    float loss_s[SLICES][ROWS], lse_s[SLICES][ROWS], loss[ROWS], lse[ROWS];
    float gradient[VOCAB * (ROWS > HIDDEN ? ROWS : HIDDEN)]; /* of the logits, or of the weight */
    float dx[ROWS * HIDDEN];                                 /* summed over slices */
} slices;

/* One slice in one direction: classes first to first + n. loss and lse are forward's, all is
 * backward's: lse of all slices. */
typedef struct slice {
    int backward;
    int64_t first, n;
    const tg_tensor *target, *all;
    tg_tensor *loss, *lse;
} slice;

static void run_slices(slices *of, tg_status (*run)(slices *of, const slice *s))
{
    int64_t rows = ROWS;
    const tg_tensor y = tg_tensor_of(target, TG_I64, 1, &rows);
    const tg_tensor all = tg_tensor_of(of->lse, TG_F32, 1, &rows);
    for (int backward = 0; backward < 2; backward++) {
        for (int s = 0; s < SLICES; s++) {
            tg_tensor loss = tg_tensor_of(of->loss_s[s], TG_F32, 1, &rows),
                      lse = tg_tensor_of(of->lse_s[s], TG_F32, 1, &rows);
            const slice one = {backward, bounds[s], bounds[s + 1] - bounds[s], &y, &all,
                               &loss,    &lse};
            EXPECT(!run(of, &one), "%s", tg_last_error());
        }
        if (!backward)
            combine(of->lse_s, of->loss_s, of->z, of->lse, of->loss);
    }
}

static tg_status logits_slice(slices *of, const slice *s)
{
    int64_t shape[2], strides[2] = {VOCAB, 1};
    tg_tensor part = matrix(logits + s->first, shape, ROWS, s->n);
    tg_tensor dpart = matrix(of->gradient + s->first, shape, ROWS, s->n);
    part.strides = dpart.strides = strides;
    if (s->backward)
        return tg_cross_entropy_backward(
            of->ctx, &(tg_cross_entropy_backward_args){.logits = &part,
                                                       .target = s->target,
                                                       .lse = s->all,
                                                       .dlogits = &dpart,
                                                       .reduction = TG_NONE,
                                                       .label_smoothing = of->smoothing,
                                                       .lse_square_scale = of->z,
                                                       .softcap = of->softcap,
                                                       .vocab_start = s->first,
                                                       .vocab_size = VOCAB});
    return tg_cross_entropy_forward(
        of->ctx, &(tg_cross_entropy_forward_args){.logits = &part,
                                                  .target = s->target,
                                                  .loss = s->loss,
                                                  .lse = s->lse,
                                                  .reduction = TG_NONE,
                                                  .label_smoothing = of->smoothing,
                                                  .lse_square_scale = of->z,
                                                  .softcap = of->softcap,
                                                  .vocab_start = s->first,
                                                  .vocab_size = VOCAB});
}

static void check_logits(tg_ctx *ctx, const char *impl, double smoothing, double z, double softcap)
{
    int64_t shape[2], rows = ROWS;
    float loss[ROWS], lse[ROWS], dlogits[ROWS * VOCAB];
    tg_tensor t = matrix(logits, shape, ROWS, VOCAB), d = matrix(dlogits, shape, ROWS, VOCAB);
    tg_tensor l = tg_tensor_of(loss, TG_F32, 1, &rows), e = tg_tensor_of(lse, TG_F32, 1, &rows);
    const tg_tensor y = tg_tensor_of(target, TG_I64, 1, &rows);
    slices of = {.ctx = ctx, .smoothing = smoothing, .z = z, .softcap = softcap};
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
    run_slices(&of, logits_slice);
    near_to(impl, "lse", of.lse, lse, ROWS, 2e-6f);
    near_to(impl, "loss", of.loss, loss, ROWS, 2e-6f);
    near_to(impl, "dlogits", of.gradient, dlogits, ROWS * VOCAB, 2e-6f);
}

static tg_status linear_slice(slices *of, const slice *s)
{
    int64_t x_shape[2], shape[2];
    float dx[ROWS * HIDDEN] = {0};
    const tg_tensor tx = matrix(x, x_shape, ROWS, HIDDEN);
    const tg_tensor part = matrix(weight + s->first * HIDDEN, shape, s->n, HIDDEN);
    tg_tensor tdx = matrix(dx, x_shape, ROWS, HIDDEN);
    tg_tensor dpart = matrix(of->gradient + s->first * HIDDEN, shape, s->n, HIDDEN);
    const tg_fused_linear_cross_entropy_forward_args f = {.x = &tx,
                                                          .weight = &part,
                                                          .target = s->target,
                                                          .loss = s->loss,
                                                          .lse = s->lse,
                                                          .reduction = TG_NONE,
                                                          .label_smoothing = of->smoothing,
                                                          .chunk_bytes = of->chunk_bytes,
                                                          .vocab_start = s->first,
                                                          .vocab_size = VOCAB};
    const tg_fused_linear_cross_entropy_backward_args b = {.x = &tx,
                                                           .weight = &part,
                                                           .target = s->target,
                                                           .lse = s->all,
                                                           .dx = &tdx,
                                                           .dweight = &dpart,
                                                           .reduction = of->reduction,
                                                           .label_smoothing = of->smoothing,
                                                           .chunk_bytes = of->chunk_bytes,
                                                           .vocab_start = s->first,
                                                           .vocab_size = VOCAB};
    const tg_status status = s->backward ? tg_fused_linear_cross_entropy_backward(of->ctx, &b)
                                         : tg_fused_linear_cross_entropy_forward(of->ctx, &f);
    for (int i = 0; i < ROWS * HIDDEN; i++)
        of->dx[i] += dx[i];
    return status;
}

static void check_linear(tg_ctx *ctx, const char *impl, int64_t reduction, int64_t chunk_bytes)
{
    int64_t x_shape[2], w_shape[2], rows = ROWS, one = 1;
    float loss[ROWS], lse[ROWS], dx[ROWS * HIDDEN], dweight[VOCAB * HIDDEN];
    tg_tensor tx = matrix(x, x_shape, ROWS, HIDDEN), tw = matrix(weight, w_shape, VOCAB, HIDDEN);
    tg_tensor tdx = matrix(dx, x_shape, ROWS, HIDDEN),
              tdw = matrix(dweight, w_shape, VOCAB, HIDDEN);
    tg_tensor l = tg_tensor_of(loss, TG_F32, 1, reduction == TG_NONE ? &rows : &one);
    tg_tensor e = tg_tensor_of(lse, TG_F32, 1, &rows);
    const tg_tensor y = tg_tensor_of(target, TG_I64, 1, &rows);
    slices of = {.ctx = ctx, .reduction = reduction, .smoothing = 0.1, .chunk_bytes = chunk_bytes};
    const tg_fused_linear_cross_entropy_forward_args whole = {.x = &tx,
                                                              .weight = &tw,
                                                              .target = &y,
                                                              .loss = &l,
                                                              .lse = &e,
                                                              .dx = &tdx,
                                                              .dweight = &tdw,
                                                              .reduction = reduction,
                                                              .label_smoothing = of.smoothing};
    EXPECT(!tg_fused_linear_cross_entropy_forward(ctx, &whole), "%s", tg_last_error());
    run_slices(&of, linear_slice);
    near_to(impl, "lse", of.lse, lse, ROWS, 2e-6f);
    if (reduction == TG_NONE)
        near_to(impl, "loss", of.loss, loss, ROWS, 2e-6f);
    near_to(impl, "dx", of.dx, dx, ROWS * HIDDEN, 2e-6f);
    near_to(impl, "dweight", of.gradient, dweight, VOCAB * HIDDEN, 2e-6f);
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
