/* batched_gemm on heads that lie side by side in rows, as views: q k^T of grouped queries, where
 * several take one key head, into a part of a larger tensor, by every implementation of the CPU,
 * for any number of threads. And its messages. */
#include <tigon/registry.h>

#include "../common/test.h"

enum {
    BATCH = 2,
    ROWS = 37, /* queries and keys */
    HEADS = 6,
    GROUP = 3, /* queries' heads of a key head */
    KEYS = HEADS / GROUP,
    WIDTH = 40,
    PITCH = 48 /* of a row of scores */
};
enum { Q = BATCH * ROWS * HEADS * WIDTH, K = BATCH * ROWS * KEYS * WIDTH };
enum { SCORES = BATCH * HEADS * ROWS * PITCH };

static float q[Q], k[K], scores[SCORES];
static uint16_t q16[Q], k16[K];

/* Upper halves of small integers are exact. */
static void fill(float *x, uint16_t *x16, int n, int period)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        x[i] = (float)(i * 5 % period - period / 2);
        memcpy(&bits, &x[i], sizeof bits);
        x16[i] = (uint16_t)(bits >> 16);
    }
}

/* [B, KEYS, GROUP, rows, columns] of [B, rows, KEYS or HEADS, WIDTH]. */
static const int64_t shape[] = {BATCH, KEYS, GROUP, ROWS, WIDTH};
static const int64_t q_strides[] = {(int64_t)ROWS * HEADS * WIDTH, (int64_t)GROUP *WIDTH, WIDTH,
                                    (int64_t)HEADS *WIDTH, 1};
static const int64_t k_strides[] = {(int64_t)ROWS * KEYS * WIDTH, WIDTH, 0, (int64_t)KEYS *WIDTH,
                                    1};
static const int64_t scores_shape[] = {BATCH, KEYS, GROUP, ROWS, ROWS};
static const int64_t scores_strides[] = {(int64_t)HEADS * ROWS * PITCH, (int64_t)GROUP *ROWS *PITCH,
                                         (int64_t)ROWS *PITCH, PITCH, 1};

static tg_tensor view(void *data, tg_type type, const int64_t *sizes, const int64_t *strides)
{
    tg_tensor t = tg_tensor_of(data, type, 5, (int64_t *)sizes);
    t.strides = (int64_t *)strides;
    return t;
}

/* Results of all scores, and -1 where there are none. */
static int wrong(void)
{
    int count = 0;
    for (int at = 0; at < SCORES; at++) {
        const int j = at % PITCH, i = at / PITCH % ROWS, h = at / PITCH / ROWS % HEADS;
        const int b = at / PITCH / ROWS / HEADS;
        float sum = 0;
        for (int p = 0; p < WIDTH; p++)
            if (j < ROWS)
                sum += q[((b * ROWS + i) * HEADS + h) * WIDTH + p] *
                       k[((b * ROWS + j) * KEYS + h / GROUP) * WIDTH + p];
        count += scores[at] != (j < ROWS ? sum : -1);
    }
    return count;
}

static void check_row(tg_ctx *ctx, int row, tg_type type)
{
    const char *name = tg_impl_at(row)->full_name;
    tg_tensor a = view(type == TG_F32 ? (void *)q : q16, type, shape, q_strides);
    tg_tensor b = view(type == TG_F32 ? (void *)k : k16, type, shape, k_strides);
    tg_tensor c = view(scores, TG_F32, scores_shape, scores_strides);
    const tg_batched_gemm_args args = {.a = &a, .b = &b, .c = &c, .trans_b = 1};
    for (int threads = 1; threads <= 5; threads += 2) {
        if (!tg_impl_accepts(ctx, row, &args))
            continue;
        EXPECT(tg_ctx_set_threads(ctx, threads) == TG_OK, "%s", tg_last_error());
        for (int i = 0; i < SCORES; i++)
            scores[i] = -1;
        EXPECT(tg_impl_run(ctx, row, &args) == TG_OK, "%s: %s", name, tg_last_error());
        EXPECT(wrong() == 0, "%s, %d threads: %d of %d are wrong", name, threads, wrong(), SCORES);
    }
}

static void check_message(tg_ctx *ctx, const tg_batched_gemm_args *args, const char *expected)
{
    EXPECT(tg_batched_gemm(ctx, args) == TG_EINVAL && !strcmp(tg_last_error(), expected), "%s",
           tg_last_error());
}

static void check_messages(tg_ctx *ctx)
{
    static float x[128];
    tg_tensor flat = tg_tensor_of(x, TG_F32, 2, (int64_t[]){4, 4});
    tg_tensor a = tg_tensor_of(x, TG_F32, 3, (int64_t[]){2, 3, 4});
    tg_tensor b = tg_tensor_of(x, TG_F32, 3, (int64_t[]){2, 5, 4});
    tg_tensor three = tg_tensor_of(x, TG_F32, 3, (int64_t[]){3, 4, 5});
    tg_tensor c = tg_tensor_of(x + 64, TG_F32, 3, (int64_t[]){2, 3, 4});
    tg_tensor fits = tg_tensor_of(x + 64, TG_F32, 3, (int64_t[]){2, 3, 5});
    check_message(ctx, &(tg_batched_gemm_args){.a = &flat, .b = &flat, .c = &c},
                  "batched_gemm: a is [4,4], of 2 dimensions, expected 3 or more");
    check_message(ctx, &(tg_batched_gemm_args){.a = &a, .b = &flat, .c = &c},
                  "batched_gemm: b is [4,4], of 2 dimensions, expected 3 or more");
    check_message(
        ctx, &(tg_batched_gemm_args){.a = &a, .b = &three, .c = &c},
        "batched_gemm: b is [3,4,5], expected [2,4,N]: 2 is the first dimension of a, since "
        "trans_b is 0 (no)");
    check_message(
        ctx, &(tg_batched_gemm_args){.a = &a, .b = &b, .c = &c},
        "batched_gemm: b is [2,5,4], expected [2,4,N]: 4 is the last dimension of a, since "
        "trans_b is 0 (no)");
    check_message(ctx, &(tg_batched_gemm_args){.a = &a, .b = &b, .c = &c, .trans_b = 1},
                  "batched_gemm: c is [2,3,4], expected [2,3,5]: 5 is dimension 1 of b");
    check_message(ctx,
                  &(tg_batched_gemm_args){.a = &a, .b = &b, .c = &fits, .trans_b = 1, .beta = 2},
                  "batched_gemm: beta is 2, expected 0 or 1 without addend");
    check_message(
        ctx, &(tg_batched_gemm_args){.a = &a, .b = &b, .c = &fits, .trans_b = 1, .symmetric = 1},
        "batched_gemm: symmetric is 1 but c has 3 rows and 5 columns, expected as many");
}

int main(void)
{
    tg_ctx *ctx = new_context();
    int rows = 0;
    fill(q, q16, Q, 17);
    fill(k, k16, K, 11);
    for (int row = 0; row < tg_impl_count(); row++)
        if (tg_impl_at(row)->op == tg_op_by_name("batched_gemm") && runs_on_cpu(ctx, row)) {
            check_row(ctx, row, TG_F32);
            check_row(ctx, row, TG_BF16);
            rows++;
        }
    EXPECT(rows >= 4, "%d implementations", rows);
    check_messages(ctx);
    tg_ctx_destroy(ctx);
    return report();
}
