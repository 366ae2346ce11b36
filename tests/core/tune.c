/* Settings of memory: what is refused, and that results are the same with any. */
#include "../common/test.h"

enum { ROWS = 67, COLUMNS = 5003, ELEMENTS = ROWS * COLUMNS };

static const int64_t shape[] = {ROWS, COLUMNS};

static tg_tensor matrix(void *data, tg_type type)
{
    return tg_tensor_of(data, type, 2, shape);
}

/* A walk, one with exponentials, and rows that are asked for ahead: all into y,
 * one after the other. */
static void compute(tg_ctx *ctx, tg_type type, void *x, char *y, size_t bytes)
{
    float rstd[ROWS];
    const int64_t rows[] = {ROWS};
    for (int i = 0; i < ROWS; i++)
        rstd[i] = 0.5f;
    tg_tensor in = matrix(x, type), out = matrix(y, type);
    tg_tensor r = tg_tensor_of(rstd, TG_F32, 1, rows);
    EXPECT(tg_swiglu_forward(ctx, &(tg_swiglu_forward_args){.gate = &in, .up = &in, .y = &out}) ==
               TG_OK,
           "%s", tg_last_error());
    out = matrix(y + bytes, type);
    EXPECT(tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &in, .y = &out}) == TG_OK, "%s",
           tg_last_error());
    out = matrix(y + 2 * bytes, type);
    EXPECT(tg_rms_norm_backward(
               ctx, &(tg_rms_norm_backward_args){.dy = &in, .x = &in, .rstd = &r, .dx = &out}) ==
               TG_OK,
           "%s", tg_last_error());
}

/* However far ahead memory is asked for; whether outputs go past the caches or not may
 * round sums otherwise. */
static void same_bits(tg_ctx *ctx, tg_type type)
{
    static const char *const settings[][2] = {
        {"stream=0", "pass=0,exps=0,rows=0"},
        {"stream=1000000000", "pass=65536,exps=65536,rows=1000000"}};
    const size_t bytes = ELEMENTS * tg_type_size(type);
    uint16_t *x = malloc(ELEMENTS * sizeof(float));
    char *y = malloc(6 * bytes);
    EXPECT(x && y, "no memory");
    for (int i = 0; i < 2 * ELEMENTS; i++) /* numbers about 1, as f32 and as bf16 */
        x[i] = (uint16_t)(0x3f00 + i * 37 % 256);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            EXPECT(!tg_tune(settings[i][k]), "%s", tg_last_error());
            compute(ctx, type, x, y + k * 3 * bytes, bytes);
        }
        for (int part = 0; part < 3; part++)
            EXPECT(!memcmp(y + part * bytes, y + (3 + part) * bytes, bytes), "%s: operator %d",
                   settings[i][1], part);
    }
    free(x);
    free(y);
}

static void refused(const char *settings, tg_status status, const char *word)
{
    const int64_t before = tg_tuned("pass");
    EXPECT(tg_tune(settings) == status, "%s", tg_last_error());
    EXPECT(strstr(tg_last_error(), word) != NULL, "%s", tg_last_error());
    EXPECT(tg_tuned("pass") == before, "%s", tg_last_error());
}

int main(void)
{
    tg_ctx *ctx = new_context();
    EXPECT(tg_tuned("stream") > 0 && tg_tuned("pass") > 0 && tg_tuned("exps") > 0, "%s",
           tg_last_error());
    EXPECT(tg_tuned("passes") == -1 && tg_tuned("") == -1, "%s", tg_last_error());
    EXPECT(tg_tune("rows=12345") == TG_OK && tg_tuned("rows") == 12345, "%s", tg_last_error());
    EXPECT(tg_tune("") == TG_OK && tg_tune(NULL) == TG_OK && tg_tuned("rows") == 12345, "%s",
           tg_last_error());
    refused("pass=1,passes=2", TG_ENOTFOUND, "passes");
    refused("pass=1,rows=-2", TG_EINVAL, "rows=-2");
    refused("pass=12k", TG_EINVAL, "pass=12k");
    refused("pass=", TG_EINVAL, "pass=");
    refused("pass", TG_EINVAL, "pass");
    refused("=4", TG_ENOTFOUND, "setting");
    same_bits(ctx, TG_F32);
    same_bits(ctx, TG_BF16);
    tg_ctx_destroy(ctx);
    return report();
}
