/* What a tolerance lets through: sums that are cut off, as tensor cores do, where that is said,
 * and nowhere else; sums of what is rounded to 16 bits; what a few draws miss by luck. */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* ---- an implementation's own results ---- */

/* An output's largest error as a part of the tolerance, without the second yardstick. */
static double worst_of(truth *t, problem *p, int impl, const char *output)
{
    double most = 0;
    if (problem_run_impl(t->ctx, impl, p))
        return -1;
    for (int o = 0; o < p->op->ntensors; o++) {
        truth_bound bound;
        if (strcmp(p->op->tensor[o].name, output))
            continue;
        if (truth_bound_of(t, o, tg_type_of(&p->tensor[o].view), 0, &bound, error))
            return -1;
        for (int64_t i = 0; i < t->out[o].n; i++)
            most = fmax(most, fabs(pb_get(&p->tensor[o], i) - t->out[o].value[i]) /
                                  truth_tolerance(&t->out[o], &bound, i));
    }
    return most;
}

/* ---- the cases ---- */

static int check(const char *what, double part, int passes)
{
    const int right = part > 0 && (part <= 1) == passes;
    printf("%-60s %.2f of the tolerance%s\n", what, part, right ? "" : "   WRONG");
    return !right;
}

typedef struct posed {
    problem *p;
    truth *t;
} posed;

/* p and t are NULL if there is no such problem. */
static posed pose(tg_ctx *ctx, const char *name, const char *text, int type, uint64_t seed)
{
    static pb_case c; /* that of the last problem, which refers to it */
    const catalogue *cat = catalogue_get(error);
    const pb_op *op = cat ? catalogue_op(cat, tg_op_by_name(name)) : NULL;
    posed of = {NULL, NULL};
    if (op && !pb_case_parse(cat, op->group, text, &c, error))
        of.p = problem_create(
            cat, op, &c,
            &(pb_options){.type = type, .seed = seed, .ctx = ctx, .guard = CHECK_GUARD}, error);
    if (of.p)
        of.t = truth_create(ctx, of.p, seed, error);
    if (!of.t)
        printf("no problem: %s\n", error);
    return of;
}

static void drop(posed *of)
{
    truth_free(of->t);
    problem_free(of->p);
}

static int sums_of_products(tg_ctx *ctx)
{
    posed of = pose(ctx, "gemm", "M=3 N=5 K=8192 a!positive b!positive G=f32", TG_F16, 1);
    truth *t = of.t;
    const problem *p = of.p;
    int wrong = !t;
    if (t) {
        wrong |= check("rounded", worst(t, p, 0, 8192, 1), 1);
        wrong |= check("cut off after 16 products, taken for rounded", worst(t, p, 0, 16, 1), 0);
        wrong |= check("cut off after 16 products", worst(t, p, TRUTH_CUT, 16, 1), 1);
        wrong |= check("cut off after each product", worst(t, p, TRUTH_CUT, 1, 1), 0);
        wrong |= check("cut off after 16 products by four more", worst(t, p, TRUTH_CUT, 16, 5), 0);
        if (truth_how(t, ctx, tg_find(ctx, "ref/gemm"))) {
            printf("the CPU's sums are taken to be cut off\n");
            wrong = 1;
        }
    }
    drop(&of);
    return wrong;
}

/* dbias is the sum of the logits' gradients, each of them rounded to 16 bits, as many as there are
 * rows: of few rows it is off by as much as one of them, and of upstream gradients of both signs by
 * more than it is large. */
static int sums_of_gradients(tg_ctx *ctx)
{
    static const struct {
        const char *what, *sizes, *options;
        uint64_t seed;
    } cases[] = {
        {"gradients of a mean", "BT=5 H=3 V=97", "G=f32", 11},
        {"gradients of a sum", "BT=5 H=3 V=97", "reduction=1 G=f32", 26},
        {"gradients of each row", "BT=5 H=3 V=97", "reduction=2 G=f32", 7},
        {"gradients of each row that cancel", "BT=64 H=4 V=9", "reduction=2", 9},
    };
    const char *name = "fused_linear_cross_entropy_backward";
    const int impl = tg_find(ctx, "cpu/fused_linear_cross_entropy_backward");
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[PB_TEXT];
        snprintf(text, sizeof text, "%s dloss!large -class_weight weight!layer %s", cases[i].sizes,
                 cases[i].options);
        posed of = pose(ctx, name, text, TG_F16, cases[i].seed);
        wrong |= !of.t || check(cases[i].what, worst_of(of.t, of.p, impl, "dbias"), 1);
        drop(&of);
    }
    return wrong;
}

/* y[0,0,29,7] of an attention lies far below its row, and eight draws happened to move it by a
 * fifth of what they moved its neighbours by. A card's sums in f32 were off by 2.6e-7 there. */
static int elements_of_luck(tg_ctx *ctx)
{
    enum { ELEMENT = 29 * 80 + 7 };
    const char *text = "B=1 S=97 L=40 H=2 K=1 D=80 scale=0.2 B=1 S=1 L=210 H=156 offset=8 "
                       "-cu_seqlens_q -cu_seqlens_k -bias -sinks";
    posed of = pose(ctx, "flash_attention_forward", text, TG_F32, 9709);
    const int y = of.t ? (int)(problem_tensor(of.p, "y") - of.p->tensor) : 0;
    truth_bound bound;
    int wrong = !of.t || truth_bound_of(of.t, y, TG_F32, 0, &bound, error);
    if (!wrong) {
        const truth_output *o = &of.t->out[y];
        wrong |= check("an element of luck, few draws",
                       2.637e-7 / truth_tolerance(o, &bound, ELEMENT), 0);
        wrong |= truth_measure_more(of.t, error) != 0;
        wrong |=
            check("the same, measured longer", 2.637e-7 / truth_tolerance(o, &bound, ELEMENT), 1);
        wrong |= check("ten times as much", 2.637e-6 / truth_tolerance(o, &bound, ELEMENT), 0);
    }
    drop(&of);
    return wrong;
}

int main(void)
{
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx))
        return printf("%s\n", tg_last_error()), 1;
    const int wrong = sums_of_products(ctx) | sums_of_gradients(ctx) | elements_of_luck(ctx);
    tg_ctx_destroy(ctx);
    return wrong;
}
