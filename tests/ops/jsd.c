/* jsd where student and teacher nearly agree: gradient and loss have the digits that its README
 * promises. (The checker allows what a rounding of the inputs costs, or twice what the textbook's
 * formula errs by: much more where probabilities are next to 1.) */
#include <math.h>

#include "../common/test.h"

typedef struct term {
    double loss, d, cost, cost_d; /* costs: what a rounding of the inputs moves them by */
} term;

/* Both in double, by how far the inputs are apart. */
static term expected_of(float student, float teacher, double beta)
{
    const double x = (double)student, y = (double)teacher, n = -fabs(y - x);
    const double w = x > y ? beta : 1 - beta, u = expm1(n), log_m = log1p(w * u);
    const double larger = exp(x > y ? x : y), q = exp(x);
    return (term){larger * (w * (1 + u) * n - log_m * (1 + w * u)),
                  (1 - beta) * q * ((x > y ? 0 : n) - log_m), larger * w * -n,
                  (1 - beta) * q * -(x > y ? log_m : n)};
}

enum { UNITS = 8 }; /* that each may be off, of f32 */

static void compare(const char *what, const char *impl, float found, double expected, double cost,
                    double student, double teacher, double beta)
{
    const double off = fabs((double)found - expected) / (cost * 0x1p-24);
    EXPECT(off <= UNITS, "%s, student %.9g, teacher %.9g, beta %g: %s is %.9g, expected %.9g", impl,
           student, teacher, beta, what, (double)found, expected);
}

static void one(tg_ctx *ctx, int impl, float student, float teacher, double beta)
{
    int64_t shape[] = {1, 1};
    float loss = 0, d = 0;
    const tg_tensor x = tg_tensor_of(&student, TG_F32, 2, shape),
                    y = tg_tensor_of(&teacher, TG_F32, 2, shape);
    tg_tensor tloss = tg_tensor_of(&loss, TG_F32, 0, NULL), dx = tg_tensor_of(&d, TG_F32, 2, shape);
    const tg_jsd_forward_args args = {
        .student = &x, .teacher = &y, .loss = &tloss, .dstudent = &dx, .beta = beta};
    EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
    const term e = expected_of(student, teacher, beta);
    const char *name = tg_impl_at(impl)->full_name;
    compare("the loss", name, loss, e.loss, e.cost + fabs(e.loss), (double)student, (double)teacher,
            beta);
    compare("the gradient", name, d, e.d, e.cost_d, (double)student, (double)teacher, beta);
}

int main(void)
{
    static const double betas[] = {0.5, 0.1, 0.3, 0.9, 0.999};
    static const float heights[] = {0, -0.01f, -0.7f};
    tg_ctx *ctx = new_context();
    const int op = tg_op_by_name("jsd_forward");
    for (int impl = 0; impl < tg_impl_count(); impl++)
        for (int i = 0; i < 15 && tg_impl_at(impl)->op == op && runs_on_cpu(ctx, impl); i++)
            for (double apart = 1e-6; apart < 2; apart *= 1.01) {
                const float high = heights[i % 3], low = high - (float)apart;
                one(ctx, impl, high, low, betas[i / 3]);
                one(ctx, impl, low, high, betas[i / 3]);
            }
    tg_ctx_destroy(ctx);
    return report();
}
