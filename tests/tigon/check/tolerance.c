/* What a tolerance lets through: sums that are cut off, as tensor cores do, where that is said,
 * and nowhere else. */
#include <math.h>
#include <stdio.h>

#include "trial/trial.h"

static char error[PB_ERROR];

/* The largest number of f32 not above x in size. */
static double cut_off(double x)
{
    const float f = (float)x;
    return fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

/* Row i of a by column j of b, `step` products at a time, each sum cut off `times` over. */
static double product(const problem *p, int64_t i, int64_t j, int64_t step, int times)
{
    const pb_tensor *a = problem_tensor(p, "a"), *b = problem_tensor(p, "b");
    const int64_t k = a->shape[1], n = b->shape[1];
    double sum = 0;
    for (int64_t first = 0; first < k; first += step) {
        double part = 0;
        for (int64_t l = first; l < first + step && l < k; l++)
            part += pb_get(a, i * k + l) * pb_get(b, l * n + j);
        sum = cut_off(sum + part);
        for (int t = 1; t < times; t++)
            sum = nextafterf((float)sum, 0);
    }
    return sum;
}

/* The largest error of such a product as a part of the tolerance. */
static double worst(truth *t, const problem *p, unsigned how, int64_t step, int times)
{
    const int64_t n = problem_tensor(p, "c")->shape[1];
    double most = 0;
    for (int o = 0; o < p->op->ntensors; o++) {
        truth_bound bound;
        if (!t->out[o].value)
            continue;
        if (truth_bound_of(t, o, TG_F32, how, &bound, error))
            return -1;
        for (int64_t i = 0; i < t->out[o].n; i++)
            most = fmax(most, fabs(product(p, i / n, i % n, step, times) - t->out[o].value[i]) /
                                  truth_tolerance(&t->out[o], &bound, i));
    }
    return most;
}

static int check(const char *what, double part, int passes)
{
    const int right = part > 0 && (part <= 1) == passes;
    printf("%-60s %.2f of the tolerance%s\n", what, part, right ? "" : "   WRONG");
    return !right;
}

int main(void)
{
    const catalogue *cat = catalogue_get(error);
    const pb_op *op = cat ? catalogue_op(cat, tg_op_by_name("gemm")) : NULL;
    tg_ctx *ctx = NULL;
    pb_case c;
    problem *p = NULL;
    truth *t = NULL;
    if (op && !tg_ctx_create(&ctx) &&
        !pb_case_parse(cat, op->group, "M=3 N=5 K=8192 a!positive b!positive G=f32", &c, error) &&
        (p = problem_create(cat, op, &c, &(pb_options){.type = TG_F16, .seed = 1, .ctx = ctx},
                            error)))
        t = truth_create(ctx, p, 1, error);
    int wrong = !t;
    if (!t) {
        printf("no problem: %s\n", error);
    } else {
        const int ref = tg_find(ctx, "ref/gemm");
        wrong |= check("rounded", worst(t, p, 0, 8192, 1), 1);
        wrong |= check("cut off after 16 products, taken for rounded", worst(t, p, 0, 16, 1), 0);
        wrong |= check("cut off after 16 products", worst(t, p, TRUTH_CUT, 16, 1), 1);
        wrong |= check("cut off after each product", worst(t, p, TRUTH_CUT, 1, 1), 0);
        wrong |= check("cut off after 16 products by four more", worst(t, p, TRUTH_CUT, 16, 5), 0);
        if (truth_cuts(t, ref)) {
            printf("the CPU's sums are taken to be cut off\n");
            wrong = 1;
        }
    }
    truth_free(t);
    problem_free(p);
    tg_ctx_destroy(ctx);
    return wrong;
}
