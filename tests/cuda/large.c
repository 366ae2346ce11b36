/* On a card: tensors of more than 2^31 elements. Some rows of the results, those around element
 * 2^31 among them, are compared with sums in double on the host. Without a card, or with less than
 * 24 GiB free there, the test is skipped.
 *   cuda_large */
#include <math.h>

#include "../common/test.h"

/* Rows of data repeat with a prime period, so that a row that is looked for 2^31 or 2^32 elements
 * away is another one. */
enum { PERIOD = 1009 };
static const int64_t BEYOND = (INT64_C(1) << 31) + (INT64_C(1) << 24);

static tg_ctx *ctx;
static int there;

static float value(int64_t i, int seed)
{
    uint64_t h = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)seed * 0xd1342543de82ef95u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (float)((int)(h >> 40 & 0xff) - 128) / 64; /* exact in bf16 */
}

static uint16_t narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double wide(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* ---- matrices of bf16 on the card ---- */

typedef struct matrix {
    tg_tensor t;
    int64_t shape[2];
} matrix;

static void copy(void *dst, int dst_type, const void *src, int src_type, int64_t bytes)
{
    EXPECT(tg_copy(ctx, dst, dst_type, src, src_type, (size_t)bytes) == TG_OK, "%s",
           tg_last_error());
}

static void take(matrix *m, tg_type type, int64_t rows, int64_t n)
{
    m->shape[0] = rows;
    m->shape[1] = n;
    m->t = tg_tensor_of(NULL, type, 2, m->shape);
    m->t.device.device_type = there;
    m->t.data = tg_alloc(ctx, (size_t)(rows * n) * tg_type_size(type));
    EXPECT(m->t.data, "%s", tg_last_error());
}

/* The first rows come from the host, the others from those before them. */
static void fill(matrix *m, int seed)
{
    const int64_t n = m->shape[1], all = m->shape[0] * n * 2;
    const int64_t some = m->shape[0] < PERIOD ? m->shape[0] : PERIOD;
    int64_t done = some * n * 2;
    uint16_t *first = malloc((size_t)done);
    for (int64_t i = 0; i < some * n; i++)
        first[i] = narrow(value(i, seed));
    copy(m->t.data, there, first, TG_DEVICE_CPU, done);
    for (int64_t more; done < all; done += more) {
        more = all - done < done ? all - done : done;
        copy((char *)m->t.data + done, there, m->t.data, there, more);
    }
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
    free(first);
}

static double at(const matrix *m, int64_t row, int64_t j, int seed)
{
    return (double)value(row % PERIOD * m->shape[1] + j, seed);
}

static void give(matrix *m)
{
    tg_free(ctx, m->t.data);
}

/* ---- rows that are looked at ---- */

enum { LOOKED_AT = 7 };

/* The first and the last one, and those around elements 2^31 and 2^30. */
static int64_t row_of(const matrix *m, int k)
{
    const int64_t rows = m->shape[0], middle = (INT64_C(1) << 31) / m->shape[1];
    const int64_t at[LOOKED_AT] = {0, 1, middle / 2, middle - 1, middle + 1, rows - 2, rows - 1};
    return at[k] < 0 || at[k] >= rows ? 0 : at[k];
}

static void expect_rows(const char *what, const matrix *y,
                        double (*expected)(int64_t row, int64_t j))
{
    const int64_t n = y->shape[1];
    uint16_t *found = malloc((size_t)n * 2);
    EXPECT(tg_sync(ctx) == TG_OK, "%s: %s", what, tg_last_error());
    for (int k = 0; k < LOOKED_AT; k++) {
        const int64_t row = row_of(y, k);
        copy(found, TG_DEVICE_CPU, (char *)y->t.data + row * n * 2, there, n * 2);
        EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
        for (int64_t j = 0; j < n; j += 1 + n / 500) {
            const double want = expected(row, j), is = wide(found[j]);
            EXPECT(fabs(is - want) <= 1e-2 * fabs(want) + 1e-6,
                   "%s: [%lld, %lld] is %g, expected %g", what, (long long)row, (long long)j, is,
                   want);
        }
    }
    free(found);
}

/* ---- operators ---- */

static matrix a, b, c;

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double swiglu_at(int64_t row, int64_t j)
{
    return silu(at(&a, row, j, 1)) * at(&b, row, j, 2);
}

static void check_swiglu(int64_t n)
{
    take(&a, TG_BF16, BEYOND / n, n);
    take(&b, TG_BF16, BEYOND / n, n);
    take(&c, TG_BF16, BEYOND / n, n);
    fill(&a, 1);
    fill(&b, 2);
    EXPECT(tg_swiglu_forward(ctx, &(tg_swiglu_forward_args){.gate = &a.t, .up = &b.t, .y = &c.t}) ==
               TG_OK,
           "%s", tg_last_error());
    expect_rows("swiglu_forward", &c, swiglu_at);
    give(&a);
    give(&b);
    give(&c);
}

static double row_sum(const matrix *m, int64_t row, double (*term)(double x, double by), double by)
{
    double sum = 0;
    for (int64_t j = 0; j < m->shape[1]; j++)
        sum += term(at(m, row, j, 1), by);
    return sum;
}

static double square(double x, double by)
{
    return x * x * by;
}

static double exponential(double x, double by)
{
    return exp(x - by);
}

/* Of the row that was asked for last. */
static double kept_sum(const matrix *m, int64_t row, double (*term)(double x, double by), double by)
{
    static int64_t of = -1;
    static double sum, (*of_term)(double x, double by);
    if (of != row || of_term != term)
        sum = row_sum(m, row, term, by);
    of = row;
    of_term = term;
    return sum;
}

static double norm_at(int64_t row, int64_t j)
{
    return at(&a, row, j, 1) / sqrt(kept_sum(&a, row, square, 1.0 / (double)a.shape[1]) + 1e-6);
}

static double softmax_at(int64_t row, int64_t j)
{
    return exp(at(&a, row, j, 1)) / kept_sum(&a, row, exponential, 0);
}

static double cross_entropy_at(int64_t row, int64_t j)
{
    const double hit = j == row % a.shape[1];
    return (softmax_at(row, j) - hit) * 16; /* grad_scale */
}

static void check_rows(int64_t n)
{
    take(&a, TG_BF16, BEYOND / n, n);
    take(&c, TG_BF16, BEYOND / n, n);
    fill(&a, 1);
    EXPECT(tg_rms_norm_forward(ctx, &(tg_rms_norm_forward_args){.x = &a.t, .y = &c.t}) == TG_OK,
           "%s", tg_last_error());
    expect_rows("rms_norm_forward", &c, norm_at);
    EXPECT(tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &a.t, .y = &c.t}) == TG_OK, "%s",
           tg_last_error());
    expect_rows("softmax_forward", &c, softmax_at);
    give(&a);
    give(&c);
}

/* The gradient of each row's own loss. */
static void check_cross_entropy(int64_t n)
{
    matrix target, loss;
    take(&a, TG_BF16, BEYOND / n, n);
    take(&c, TG_BF16, BEYOND / n, n);
    take(&target, TG_I64, BEYOND / n, 1);
    take(&loss, TG_F32, BEYOND / n, 1);
    fill(&a, 1);
    int64_t *targets = malloc((size_t)a.shape[0] * sizeof *targets);
    for (int64_t i = 0; i < a.shape[0]; i++)
        targets[i] = i % n;
    copy(target.t.data, there, targets, TG_DEVICE_CPU, a.shape[0] * 8);
    EXPECT(tg_cross_entropy_forward(ctx, &(tg_cross_entropy_forward_args){.logits = &a.t,
                                                                          .target = &target.t,
                                                                          .loss = &loss.t,
                                                                          .dlogits = &c.t,
                                                                          .reduction = TG_NONE,
                                                                          .grad_scale = 16}) ==
               TG_OK,
           "%s", tg_last_error());
    expect_rows("cross_entropy_forward", &c, cross_entropy_at);
    free(targets);
    give(&a);
    give(&c);
    give(&target);
    give(&loss);
}

static double gemm_at(int64_t row, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < a.shape[1]; k++)
        sum += at(&a, row, k, 1) * at(&b, j, k, 2);
    return sum;
}

static void check_gemm(int64_t n, int64_t k, const char *impl)
{
    EXPECT(tg_ctx_set_op_impl(ctx, "gemm", impl) == TG_OK, "%s", tg_last_error());
    take(&a, TG_BF16, BEYOND / n, k);
    take(&b, TG_BF16, n, k);
    take(&c, TG_BF16, BEYOND / n, n);
    fill(&a, 1);
    fill(&b, 2);
    EXPECT(tg_gemm(ctx, &(tg_gemm_args){.a = &a.t, .b = &b.t, .c = &c.t, .trans_b = 1}) == TG_OK,
           "%s", tg_last_error());
    expect_rows(impl ? impl : "gemm", &c, gemm_at);
    give(&a);
    give(&b);
    give(&c);
    EXPECT(tg_ctx_set_op_impl(ctx, "gemm", NULL) == TG_OK, "%s", tg_last_error());
}

int main(void)
{
    ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    there = tg_ctx_device_type(ctx);
    void *enough = tg_alloc(ctx, (size_t)24 << 30);
    if (!enough) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_free(ctx, enough);
    check_swiglu(14336);
    check_rows(4096);
    check_cross_entropy(128256);
    check_gemm(32768, 64, NULL);
    check_gemm(32768, 64, "cuda/gemm");
    tg_ctx_destroy(ctx);
    return report();
}
