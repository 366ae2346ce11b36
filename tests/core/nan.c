/* Every NaN that bf16 has stays NaN, whichever operand holds it: an implementation that rounds what
 * it computed may add to it, and there are two to which 1 cannot be added. */
#include <math.h>

#include "../common/test.h"

enum { N = 254, ROWS = 3 };

static uint16_t nan_data[ROWS * N], one_data[ROWS * N], out_data[2][ROWS * N];

static void expect_nan(const char *what, const uint16_t *x)
{
    for (int i = 0; i < ROWS * N; i++)
        EXPECT((x[i] & 0x7fff) > 0x7f80, "%s: element %d, of %04x, is %04x", what, i, nan_data[i],
               x[i]);
}

static void check(tg_ctx *ctx)
{
    static int64_t shape[] = {ROWS, N};
    tg_tensor nan = tg_tensor_of(nan_data, TG_BF16, 2, shape),
              one = tg_tensor_of(one_data, TG_BF16, 2, shape),
              a = tg_tensor_of(out_data[0], TG_BF16, 2, shape),
              b = tg_tensor_of(out_data[1], TG_BF16, 2, shape);
    const struct {
        const char *name;
        tg_tensor *dy, *gate, *up;
    } gated[] = {{"dy", &nan, &one, &one}, {"gate", &one, &nan, &one}, {"up", &one, &one, &nan}};
    for (int i = 0; i < 3; i++) {
        tg_tensor *const dy = gated[i].dy, *const gate = gated[i].gate, *const up = gated[i].up;
        for (int exact = 0; exact < 2; exact++) {
            EXPECT(!tg_geglu_backward(
                       ctx, &(tg_geglu_backward_args){dy, gate, up, &a, &b, .exact = exact}),
                   "%s", tg_last_error());
            expect_nan(gated[i].name, out_data[0]);
            if (i < 2)
                expect_nan(gated[i].name, out_data[1]);
            EXPECT(!tg_geglu_forward(ctx, &(tg_geglu_forward_args){gate, up, &a, .exact = exact}),
                   "%s", tg_last_error());
            if (i)
                expect_nan(gated[i].name, out_data[0]);
        }
        EXPECT(
            !tg_swiglu_backward(ctx, &(tg_swiglu_backward_args){dy, gate, up, &a, &b, .alpha = 1}),
            "%s", tg_last_error());
        expect_nan(gated[i].name, out_data[0]);
        if (i < 2)
            expect_nan(gated[i].name, out_data[1]);
        EXPECT(!tg_swiglu_forward(ctx, &(tg_swiglu_forward_args){gate, up, &a, .alpha = 1}), "%s",
               tg_last_error());
        if (i)
            expect_nan(gated[i].name, out_data[0]);
    }
    EXPECT(!tg_softmax_forward(ctx, &(tg_softmax_forward_args){&nan, &a}), "%s", tg_last_error());
    expect_nan("x", out_data[0]);
    EXPECT(!tg_softmax_backward(ctx, &(tg_softmax_backward_args){&nan, &one, &a}), "%s",
           tg_last_error());
    expect_nan("dy", out_data[0]);
    EXPECT(!tg_softmax_backward(ctx, &(tg_softmax_backward_args){&one, &nan, &a}), "%s",
           tg_last_error());
    expect_nan("y", out_data[0]);
}

/* The target's -inf is the largest logit beside NaN alone, whichever side that is. */
static void argmax_beside_nan(tg_ctx *ctx)
{
    int64_t shape[] = {2, 2}, rows[] = {2}, one[] = {1}, target_data[] = {1, 0}, predicted_data[2];
    float logits_data[] = {NAN, -INFINITY, -INFINITY, NAN}, loss_data, accuracy_data;
    tg_tensor logits = tg_tensor_of(logits_data, TG_F32, 2, shape),
              target = tg_tensor_of(target_data, TG_I64, 1, rows),
              predicted = tg_tensor_of(predicted_data, TG_I64, 1, rows),
              loss = tg_tensor_of(&loss_data, TG_F32, 1, one),
              accuracy = tg_tensor_of(&accuracy_data, TG_F32, 1, one);
    const tg_cross_entropy_forward_args args = {.logits = &logits,
                                                .target = &target,
                                                .loss = &loss,
                                                .accuracy = &accuracy,
                                                .predicted = &predicted,
                                                .ignore_index = -100};
    EXPECT(!tg_cross_entropy_forward(ctx, &args), "%s", tg_last_error());
    for (int i = 0; i < 2; i++)
        EXPECT(predicted_data[i] == target_data[i], "row %d: class %d", i, (int)predicted_data[i]);
    EXPECT(accuracy_data == 1, "accuracy %g", (double)accuracy_data);
}

int main(void)
{
    for (int i = 0; i < ROWS * N; i++) {
        const int k = i % N;
        nan_data[i] = (uint16_t)(k < 127 ? 0x7f81 + k : 0xff81 + k - 127);
        one_data[i] = 0x3f80;
    }
    static const char *const levels[] = {"v2", "v3", "v4", NULL};
    for (int i = 0; i < 4; i++) {
        tg_ctx *ctx = new_context();
        if (!tg_ctx_set_cpu_max(ctx, levels[i])) {
            check(ctx);
            argmax_beside_nan(ctx);
        }
        tg_ctx_destroy(ctx);
    }
    return report();
}
