/* Results that are known exactly before they are rounded to 16 bits: to nearest, ties to even, by
 * every implementation of the CPU's, in whole vectors, their ends, and past the cache. The checker
 * allows either neighbour of a tie, since what it compares is not exact. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/test.h"

enum { MOST = 2100, GUARD = 0x5a5a };

static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1031};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- numbers ---- */

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Bits of the mantissa, and what the exponent has added to it. */
static int digits(int type)
{
    return type == TG_BF16 ? 7 : 10;
}

static int bias(int type)
{
    return type == TG_BF16 ? 127 : 15;
}

static double value_of(int type, uint16_t bits)
{
    const int exponent = (bits & 0x7fff) >> digits(type), one = 1 << digits(type);
    const double mantissa = (bits & (one - 1)) + (exponent ? one : 0);
    const double x = ldexp(mantissa, (exponent ? exponent : 1) - bias(type) - digits(type));
    return bits & 0x8000 ? -x : x;
}

/* To nearest even; what is too large becomes infinite by itself. */
static uint16_t rounded(int type, double x)
{
    const double a = fabs(x);
    const int exponent = a > 0 ? (int)fmax(ilogb(a), 1 - bias(type)) : 1 - bias(type);
    const double steps = nearbyint(ldexp(a, digits(type) - exponent));
    return (uint16_t)((signbit(x) ? 0x8000 : 0) + (int)steps +
                      ((exponent + bias(type) - 1) << digits(type)));
}

/* A finite number of the type but 0, subnormal ones too. */
static double any_number(int type)
{
    const uint16_t most = type == TG_BF16 ? 0x7f7e : 0x7bfe;
    const uint32_t r = next_random();
    const double x = value_of(type, (uint16_t)(1 + next_random() % most));
    return r & 1 ? x : -x;
}

/* An f32: half way between two neighbours of the type, the next to that, or a number
 * of the type itself. */
static float near_a_tie(int type)
{
    const uint16_t most = type == TG_BF16 ? 0x7f7d : 0x7bfd,
                   bits = (uint16_t)(1 + next_random() % most);
    const uint32_t r = next_random();
    const float half = (float)((value_of(type, bits) + value_of(type, (uint16_t)(bits + 1))) / 2);
    const float x = r % 8 < 5    ? half
                    : r % 8 == 5 ? nextafterf(half, INFINITY)
                    : r % 8 == 6 ? nextafterf(half, 0)
                                 : (float)value_of(type, bits);
    return r & 256 ? -x : x;
}

/* ---- the operators: each fills its inputs, and says what it must give before
 * it is rounded ---- */

static uint16_t a[2 * MOST], b[MOST], out[MOST + 2];
static float weight[MOST], expected[MOST];

static tg_tensor tensor(void *data, tg_type type, int ndim, int64_t *shape)
{
    return tg_tensor_of(data, type, ndim, shape);
}

/* 2 x dy: products of two numbers of the type */
static tg_status relu_squared(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = 1 + (double)(next_random() % 128) / 128,
                     dy = (1 + (double)(next_random() % 128) / 128) * (i % 2 ? 1 : -0x1p-8);
        a[i] = rounded(type, dy);
        b[i] = rounded(type, x);
        expected[i] = (float)(2 * x * dy);
    }
    tg_tensor tdy = tensor(a, type, 1, &n), tx = tensor(b, type, 1, &n),
              ty = tensor(y, type, 1, &n);
    return tg_impl_run(ctx, impl, &(tg_relu_squared_backward_args){&tdy, &tx, &ty});
}

/* The sum of two rows */
static tg_status embedding(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    static const int64_t both[2];
    int64_t rows[] = {2, n}, table[] = {1, n}, two = 2;
    for (int64_t i = 0; i < n; i++) {
        const double first = any_number(type) / 2,
                     second = value_of(type, rounded(type, first / 37));
        a[i] = rounded(type, first);
        a[n + i] = rounded(type, second);
        expected[i] = (float)(value_of(type, a[i]) + value_of(type, a[n + i]));
    }
    tg_tensor tdy = tensor(a, type, 2, rows), ti = tg_tensor_of(both, TG_I64, 1, &two),
              ty = tensor(y, type, 2, table);
    return tg_impl_run(ctx, impl, &(tg_embedding_backward_args){&tdy, &ti, &ty, 0});
}

/* The sum of two rows, as a product with ones and zeros; as many rows, and terms, as matrix units
 * ask for, and all rows the same. */
static tg_status gemm(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    enum { ROWS = 64, TERMS = 32 };
    static uint16_t ones[ROWS * TERMS], terms[TERMS * MOST], product[ROWS * MOST];
    int64_t left[] = {ROWS, TERMS}, right[] = {TERMS, n}, result[] = {ROWS, n};
    for (int i = 0; i < ROWS * TERMS; i++)
        ones[i] = rounded(type, i % TERMS < 2);
    memset(terms, 0, sizeof terms);
    for (int64_t i = 0; i < n; i++) {
        const double first = ldexp(128 + next_random() % 128, (int)(next_random() % 4)),
                     second = ldexp(128 + next_random() % 128, -(int)(next_random() % 4));
        terms[i] = rounded(type, first);
        terms[n + i] = rounded(type, second);
        expected[i] = (float)(first + second);
    }
    tg_tensor ta = tensor(ones, type, 2, left), tb = tensor(terms, type, 2, right),
              tc = tensor(product, type, 2, result);
    const tg_status status = tg_impl_run(ctx, impl, &(tg_gemm_args){.a = &ta, .b = &tb, .c = &tc});
    for (int64_t r = 1; status == TG_OK && r < ROWS; r++)
        EXPECT(!memcmp(product, product + r * n, (size_t)n * sizeof *y), "%s: row %lld differs",
               tg_impl_at(impl)->full_name, (long long)r);
    memcpy(y, product, (size_t)n * sizeof *y);
    return status;
}

static void fill_weight(int type, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        expected[i] = weight[i] = near_a_tie(type);
}

/* Rows of ones: y is the weight, an f32, rounded. */
static tg_status rms_norm(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    int64_t shape[] = {1, n};
    fill_weight(type, n);
    for (int64_t i = 0; i < n; i++)
        a[i] = rounded(type, 1);
    tg_tensor tx = tensor(a, type, 2, shape), tw = tg_tensor_of(weight, TG_F32, 1, &n),
              ty = tensor(y, type, 2, shape);
    const tg_rms_norm_forward_args args = {.x = &tx, .weight = &tw, .y = &ty, .eps = TG_ZERO};
    return tg_impl_run(ctx, impl, &args);
}

/* Rows of one number: y is the bias. */
static tg_status layer_norm(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    int64_t shape[] = {1, n};
    fill_weight(type, n);
    for (int64_t i = 0; i < n; i++)
        a[i] = rounded(type, 3);
    tg_tensor tx = tensor(a, type, 2, shape), tw = tg_tensor_of(weight, TG_F32, 1, &n),
              ty = tensor(y, type, 2, shape);
    const tg_layer_norm_forward_args args = {.x = &tx, .bias = &tw, .y = &ty};
    return tg_impl_run(ctx, impl, &args);
}

/* dbias, added to what is there: sums of a column */
static tg_status columns(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    int64_t shape[] = {1, n}, one = 1;
    static float mean, rstd = 1;
    static uint16_t dx[MOST];
    for (int64_t i = 0; i < n; i++) {
        const double first = any_number(type) / 2,
                     second = value_of(type, rounded(type, first / 37));
        a[i] = rounded(type, first);
        b[i] = rounded(type, 1);
        y[i] = rounded(type, second);
        expected[i] = (float)(value_of(type, a[i]) + value_of(type, y[i]));
    }
    tg_tensor tdy = tensor(a, type, 2, shape), tx = tensor(b, type, 2, shape),
              tm = tg_tensor_of(&mean, TG_F32, 1, &one), tr = tg_tensor_of(&rstd, TG_F32, 1, &one),
              td = tensor(dx, type, 2, shape), ty = tensor(y, type, 1, &n);
    const tg_layer_norm_backward_args args = {
        .dy = &tdy, .x = &tx, .mean = &tm, .rstd = &tr, .dx = &td, .dbias = &ty, .accumulate = 1};
    return tg_impl_run(ctx, impl, &args);
}

/* -y_true, an f32, rounded by what kernels of several types share */
static tg_status kl_div(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    int64_t shape[] = {1, n};
    fill_weight(type, n);
    for (int64_t i = 0; i < n; i++)
        expected[i] = -weight[i];
    const tg_tensor tt = tg_tensor_of(weight, TG_F32, 2, shape);
    tg_tensor ty = tensor(y, type, 2, shape);
    return tg_impl_run(
        ctx, impl, &(tg_kl_div_backward_args){.y_true = &tt, .dy_pred = &ty, .reduction = TG_SUM});
}

/* s = x + residual, which is rounded and goes on */
static tg_status add_norm(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    static uint16_t normal[MOST];
    int64_t shape[] = {1, n};
    for (int64_t i = 0; i < n; i++) {
        const double first = ldexp(128 + next_random() % 128, (int)(next_random() % 4)),
                     second = ldexp(128 + next_random() % 128, -(int)(next_random() % 4));
        a[i] = rounded(type, first);
        b[i] = rounded(type, i % 3 ? second : -second);
        expected[i] = (float)(value_of(type, a[i]) + value_of(type, b[i]));
        weight[i] = 1;
    }
    tg_tensor tx = tensor(a, type, 2, shape), tr = tensor(b, type, 2, shape),
              tw = tg_tensor_of(weight, TG_F32, 1, &n), ty = tensor(normal, type, 2, shape),
              ts = tensor(y, type, 2, shape);
    const tg_fused_add_rms_norm_forward_args args = {
        .x = &tx, .residual = &tr, .weight = &tw, .y = &ty, .s = &ts};
    return tg_impl_run(ctx, impl, &args);
}

/* dbias, the sum of all dy and of what is there: one element */
static tg_status poly_norm(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    static uint16_t dx[MOST], ones[3];
    static float rstd[3] = {1, 1, 1};
    int64_t shape[] = {1, n}, three = 3, one = 1, saved[] = {1, 3};
    const double first = any_number(type) / 2, second = value_of(type, rounded(type, first / 37));
    for (int64_t i = 0; i < n; i++) {
        a[i] = rounded(type, i ? 0 : first);
        b[i] = rounded(type, 1);
        expected[i] = 0; /* but for the first nothing is written */
    }
    for (int i = 0; i < 3; i++)
        ones[i] = rounded(type, 1);
    y[0] = rounded(type, second);
    expected[0] = (float)(value_of(type, a[0]) + value_of(type, y[0]));
    tg_tensor tdy = tensor(a, type, 2, shape), tx = tensor(b, type, 2, shape),
              tw = tensor(ones, type, 1, &three), tr = tg_tensor_of(rstd, TG_F32, 2, saved),
              td = tensor(dx, type, 2, shape), ty = tensor(y, type, 1, &one);
    const tg_poly_norm_backward_args args = {
        .dy = &tdy, .x = &tx, .weight = &tw, .rstd = &tr, .dx = &td, .dbias = &ty, .accumulate = 1};
    return tg_impl_run(ctx, impl, &args);
}

/* Two classes of the same probability: the gradient of the target's, the first, is half of the
 * upstream gradient, or minus that. */
static uint16_t *two_classes(int type, int64_t n, float sign)
{
    static uint16_t gradient[2 * MOST];
    for (int64_t i = 0; i < 2 * n; i++)
        a[i] = gradient[i] = 0;
    fill_weight(type, n);
    for (int64_t i = 0; i < n; i++) {
        expected[i] = fabsf(weight[i]) < 0x1p126f ? weight[i] : 1;
        weight[i] = sign * 2 * expected[i];
    }
    return gradient;
}

static const int64_t first_class[MOST];

static void take_first_class(const uint16_t *gradient, int64_t n, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = gradient[2 * i];
}

static tg_status cross_entropy(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    static float loss[MOST];
    int64_t shape[] = {n, 2};
    uint16_t *const gradient = two_classes(type, n, -1);
    tg_tensor tl = tensor(a, type, 2, shape), tt = tg_tensor_of(first_class, TG_I64, 1, &n),
              tu = tg_tensor_of(weight, TG_F32, 1, &n), to = tg_tensor_of(loss, TG_F32, 1, &n),
              td = tensor(gradient, type, 2, shape);
    const tg_cross_entropy_forward_args args = {.logits = &tl,
                                                .target = &tt,
                                                .dloss = &tu,
                                                .loss = &to,
                                                .dlogits = &td,
                                                .reduction = TG_NONE};
    const tg_status status = tg_impl_run(ctx, impl, &args);
    take_first_class(gradient, n, y);
    return status;
}

static tg_status log_softmax(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y)
{
    static float lse[MOST];
    int64_t shape[] = {1, n, 2};
    uint16_t *const gradient = two_classes(type, n, 1);
    for (int64_t i = 0; i < n; i++)
        lse[i] = logf(2);
    tg_tensor tl = tensor(a, type, 3, shape), tt = tg_tensor_of(first_class, TG_I64, 2, shape),
              tu = tg_tensor_of(weight, TG_F32, 2, shape), ts = tg_tensor_of(lse, TG_F32, 2, shape),
              td = tensor(gradient, type, 3, shape);
    const tg_selective_log_softmax_backward_args args = {
        .logits = &tl, .target = &tt, .lse = &ts, .dlogp = &tu, .dlogits = &td, .temperature = 1};
    const tg_status status = tg_impl_run(ctx, impl, &args);
    take_first_class(gradient, n, y);
    return status;
}

static const struct {
    const char *op;
    tg_status (*run)(tg_ctx *ctx, int impl, int type, int64_t n, uint16_t *y);
} operators[] = {{"relu_squared_backward", relu_squared},
                 {"embedding_backward", embedding},
                 {"gemm", gemm},
                 {"rms_norm_forward", rms_norm},
                 {"layer_norm_forward", layer_norm},
                 {"layer_norm_backward", columns},
                 {"kl_div_backward", kl_div},
                 {"fused_add_rms_norm_forward", add_norm},
                 {"poly_norm_backward", poly_norm},
                 {"cross_entropy_forward", cross_entropy},
                 {"selective_log_softmax_backward", log_softmax}};
enum { OPERATORS = sizeof operators / sizeof *operators };

static void check(tg_ctx *ctx, int k, int impl, int type, int64_t n, int offset)
{
    uint16_t *const y = out + offset;
    for (int64_t i = 0; i < MOST + 2; i++)
        out[i] = GUARD;
    const tg_status status = operators[k].run(ctx, impl, type, n, y);
    if (status == TG_EUNSUPPORTED)
        return;
    EXPECT(status == TG_OK, "%s", tg_last_error());
    for (int64_t i = 0; i < n; i++) {
        const uint16_t right = rounded(type, (double)expected[i]);
        EXPECT(y[i] == right || expected[i] == 0,
               "%s, %s, %lld elements, offset %d: element %lld of %a is %04x, expected %04x",
               tg_impl_at(impl)->full_name, tg_type_name(type), (long long)n, offset, (long long)i,
               (double)expected[i], y[i], right);
    }
    EXPECT(y[n] == GUARD && (!offset || out[0] == GUARD), "%s writes beside its output",
           tg_impl_at(impl)->full_name);
}

static int is_of_the_library(const char *name)
{
    return !strncmp(name, "cpu/", 4) || !strncmp(name, "ref/", 4);
}

static int check_all(void)
{
    static const int types[] = {TG_BF16, TG_F16};
    tg_ctx *ctx = new_context();
    int found = 0;
    tg_ctx_set_threads(ctx, 1);
    for (int k = 0; k < OPERATORS; k++)
        for (int impl = 0; impl < tg_impl_count(); impl++) {
            if (tg_impl_at(impl)->op != tg_op_by_name(operators[k].op) || !runs_on_cpu(ctx, impl) ||
                !is_of_the_library(tg_impl_at(impl)->full_name))
                continue;
            found++;
            for (int s = 0; s < SIZES; s++)
                for (int t = 0; t < 2; t++)
                    for (int offset = 0; offset < 2; offset++)
                        check(ctx, k, impl, types[t], sizes[s], offset);
        }
    EXPECT(found >= 2 * OPERATORS, "%d implementations", found);
    tg_ctx_destroy(ctx);
    return report();
}

/* Tuning is read once in a process: the child's results are all written past the cache. */
int main(void)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("TIGON_TUNE", "stream=0", 1);
        _exit(check_all());
    }
    int status = 1;
    const int failed = check_all();
    return child < 0 || waitpid(child, &status, 0) != child || status || failed;
}
