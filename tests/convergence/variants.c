/* variants.c - do other norms, gates and losses than a Llama's learn, and learn the same with
 * every implementation?
 *
 *   convergence_variants TEXT
 *
 * The trainer's model, passes, data and optimizer, with another loss (lessons.c, grpo.c), or with
 * other norms and gates (norms.c). Each variant is trained on the default implementations, in f32
 * and in bf16 with f32 master weights: its curve must fall (a reward: rise) by what the table says.
 * Then it is trained again
 *   - on `unfused`, elementary steps as an eager framework runs them;
 *   - on the default implementations of the lowest CPU level, which sum in another order:
 *     the natural scatter;
 *   - with a learning rate that is a little too high: the control, which shows what limits can see.
 *
 * Compared are the curves (largest difference of a step, over the change of the whole curve) and
 * the final parameters (|a - b| / |a - start|, over all of them). The first two must stay within
 * the limits, the control must break both. Everything is seeded: two runs on one machine print the
 * same.
 *
 * In f32 curves differ by up to 3e-7 and parameters by up to 3e-6, whether the order of sums
 * changes or the whole implementation; the limits are ten times that and more, and see a rate
 * that is 0.2 % off. In bf16 each activation is rounded by up to 2^-9; a result next to a tie
 * falls one way or the other, and AdamW, which divides by the gradient's size, carries it on
 * where gradients are mostly rounding: 2e-3 and 2e-2. The limits are some seven times that, and
 * see a rate that is half as high again.
 *
 * Two courses part, and are compared by the means of their last steps alone: tvd's gradient has a
 * jump where two probabilities are equal, and with own completions a rounding can turn a token and
 * all that follow.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lessons.h"
#include "norms.h"

enum { MOST_STEPS = 200, WINDOW = 10 };

/* change: from the mean of the first WINDOW steps to that of the last, at least; below 0: a rise.
 * parts: 1 if courses part, see above. */
static const struct variant {
    const char *name;
    const char *norms; /* the backend of norms.c, or NULL */
    const lesson *l;
    int steps;
    double rate, change;
    int parts;
} variants[] = {
    {"layer_norm, geglu: next byte", "layernorm", &language, 120, 3e-3, 2, 0},
    {"dyt, geglu: next byte", "dyt", &language, 120, 3e-3, 1.7, 0},
    {"distillation: fused_linear_jsd", NULL, &distill_fused, 120, 3e-3, 0.2, 0},
    {"distillation: jsd", NULL, &distill_jsd, 120, 3e-3, 0.2, 0},
    {"distillation: kl_div", NULL, &distill_kl_div, 120, 3e-3, 1.2, 0},
    {"distillation: tvd", NULL, &distill_tvd, 120, 3e-3, 0.25, 1},
    {"grpo_loss: given completions", NULL, &grpo_fixed, 60, 5e-5, 0.15, 0},
    {"grpo_loss: own completions", NULL, &grpo_own, 40, 1e-3, -0.5, 1},
};
typedef struct variant variant;

typedef struct side {
    const char *name, *impl, *cpu_max;
    int control;
} side;

static const side usual = {"default", "cpu", NULL, 0};
static const side sides[] = {
    {"unfused", "unfused", NULL, 0},
    {"lowest level", "cpu", "v2", 0},
    {"control", "cpu", NULL, 1},
};

/* ends: of courses that part, the difference of the means of their last WINDOW steps, over the
 * change. control: what the learning rate of the control is multiplied by. */
static const struct limit {
    tg_type type;
    double curve, parameters, ends, control;
} limits[] = {{TG_F32, 1e-5, 3e-5, 0.05, 1.002}, {TG_BF16, 1.5e-2, 0.15, 0.05, 1.5}};
typedef struct limit limit;

/* What a course leaves. */
typedef struct trace {
    double curve[MOST_STEPS];
    float *start, *end;
    int64_t count;
} trace;

static int failures;
static corpus text;

static void judge(int good, const char *why)
{
    if (good)
        return;
    printf("    FAILED: %s\n", why);
    failures++;
}

static float *copy_parameters(const learner *n)
{
    float *copy = take_memory((size_t)n->m.count * sizeof(*copy));
    for (int64_t i = 0; i < n->m.count; i++)
        copy[i] = learner_parameter(n, i);
    return copy;
}

static void train(const variant *v, tg_type type, const side *s, double factor, trace *t)
{
    static course c; /* its tensors point into it */
    const options o = lesson_options(v->l, tg_type_name(type), v->rate * factor);
    char impl[64];
    snprintf(impl, sizeof(impl), "%s%s%s", v->norms ? v->norms : "", v->norms ? "," : "", s->impl);
    course_open(&c, v->l, &text, &o, impl, s->cpu_max);
    t->count = c.n.m.count;
    t->start = copy_parameters(&c.n);
    for (int step = 1; step <= v->steps; step++)
        t->curve[step - 1] = v->l->step(&c, step);
    t->end = copy_parameters(&c.n);
    course_close(&c);
}

static void forget(trace *t)
{
    leave_memory(t->start, (size_t)t->count * sizeof(*t->start));
    leave_memory(t->end, (size_t)t->count * sizeof(*t->end));
}

static double mean(const double *x)
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++)
        sum += x[i] / WINDOW;
    return sum;
}

static void compare_steps(const variant *v, const limit *l, const side *s, const trace *a,
                          const trace *b, double change)
{
    double curve = 0;
    for (int i = 0; i < v->steps; i++)
        curve = fmax(curve, fabs(a->curve[i] - b->curve[i]) / change);
    const double parameters = distance(b->end, a->end, a->start, a->count);
    printf("    %-14s curve %.1e, parameters %.1e\n", s->name, curve, parameters);
    if (s->control)
        judge(curve > l->curve && parameters > l->parameters,
              "the limits do not see the wrong rate");
    else
        judge(curve <= l->curve && parameters <= l->parameters, "beyond the limits");
}

static void compare_ends(const variant *v, const limit *l, const side *s, const trace *a,
                         const trace *b, double change)
{
    const int last = v->steps - WINDOW;
    const double ends = fabs(mean(a->curve + last) - mean(b->curve + last)) / change;
    printf("    %-14s ends %.1e\n", s->name, ends);
    judge(ends <= l->ends, "beyond the limit");
}

/* Whether this machine has what the side asks for: levels are the x86-64's. */
static int possible(const side *s)
{
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx) != TG_OK)
        die("%s", tg_last_error());
    const int has = tg_ctx_set_cpu_max(ctx, s->cpu_max) == TG_OK;
    tg_ctx_destroy(ctx);
    return has;
}

static void compare(const variant *v, const limit *l, const side *s, const trace *a, double change)
{
    trace b;
    if (v->parts && s->control)
        return;
    if (!possible(s)) {
        printf("    %-14s this machine has no level %s\n", s->name, s->cpu_max);
        return;
    }
    train(v, l->type, s, s->control ? l->control : 1, &b);
    (v->parts ? compare_ends : compare_steps)(v, l, s, a, &b, change);
    forget(&b);
}

static void follow(const variant *v, const limit *l)
{
    trace a;
    train(v, l->type, &usual, 1, &a);
    const double first = mean(a.curve), last = mean(a.curve + v->steps - WINDOW);
    const double sign = v->change > 0 ? 1 : -1;
    printf("%s, %s: %.4f -> %.4f in %d steps (limit: a %s by %g)\n", v->name, tg_type_name(l->type),
           first, last, v->steps, sign > 0 ? "fall" : "rise", fabs(v->change));
    judge(sign * (first - last) >= fabs(v->change), "it has not learned enough");
    for (size_t i = 0; i < sizeof(sides) / sizeof(*sides); i++)
        compare(v, l, &sides[i], &a, fabs(last - first));
    forget(&a);
    fflush(stdout);
}

/* In a process of its own, which takes the memory of its models with it. */
static void try_variant(const variant *v, const limit *l)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        follow(v, l);
        exit(failures != 0);
    }
    int status = 1;
    failures += child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        printf("usage: convergence_variants TEXT\n");
        return 2;
    }
    lesson_text(&text, argv[1]);
    if (norms_register() != TG_OK)
        die("%s", tg_last_error());
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        printf("%s: limits of curve %.1e, parameters %.1e, ends %.1e; control: %g times the "
               "learning rate\n",
               tg_type_name(limits[i].type), limits[i].curve, limits[i].parameters, limits[i].ends,
               limits[i].control);
    for (size_t v = 0; v < sizeof(variants) / sizeof(*variants); v++)
        for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
            try_variant(&variants[v], &limits[i]);
    printf(failures ? "%d of the variants failed\n" : "passed\n", failures);
    return failures != 0;
}
