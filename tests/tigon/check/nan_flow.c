/* NaN comes out where it goes in: of each operator's cases, elements of the inputs are changed one
 * at a time, which shows which elements of the outputs depend on them; with NaN in their place
 * those must be NaN. Each implementation by itself: one that takes a saved lse does not depend on
 * logits as one that sums them again. */
#include <math.h>

#include "../../common/test.h"
#include "problem/problem.h"

enum { CASES = 16, PLACES = 3, MOST_BYTES = 40000 };

/* Counts of what comparisons tell: a NaN compares with nothing. */
static const char *const counts[] = {"accuracy", "clipped"};

/* A tensor of numbers that may be NaN; a mask is a condition, in whatever type: NaN is not 0. */
static int floating(const pb_tensor *t)
{
    const int type = t->present ? tg_type_of(&t->view) : 0;
    return (type == TG_F32 || type == TG_BF16 || type == TG_F16 || type == TG_F64) &&
           strcmp(t->decl->name, "mask");
}

static int is_count(const pb_tensor *t)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(t->decl->name, counts[i]))
            return 1;
    return 0;
}

/* The sum of squares of an optimizer's gradients: if it is not finite, the call changes nothing,
 * and so nothing becomes NaN. */
static int stops_the_call(const pb_tensor *t)
{
    return !strcmp(t->decl->name, "grad_squares");
}

/* What chooses and reaches no number itself: a router's bias. NaN in it chooses its expert. */
static int only_chooses(const problem *p, const pb_tensor *t)
{
    return strstr(p->op->info->name, "moe_router") && !strcmp(t->decl->name, "bias");
}

/* One element of one input. */
typedef struct place {
    int tensor;
    int64_t element;
} place;

static int run_with(tg_ctx *ctx, const char *backend, problem *p, place at, double value)
{
    char name[PB_NAME + 8];
    snprintf(name, sizeof name, "%s/%s", backend, p->op->info->name);
    const int impl = tg_find(ctx, name);
    problem_reset(p);
    pb_set(&p->tensor[at.tensor], at.element, value);
    return impl >= 0 && tg_impl_accepts(ctx, impl, problem_args(p)) &&
           tg_impl_run(ctx, impl, problem_args(p)) == TG_OK;
}

/* The elements of all outputs, one after another; updated: of tensors that are updated. */
static int64_t elements(const problem *p, int updated, double *x)
{
    int64_t n = 0;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (!floating(t) || !t->written || is_count(t) || (updated && !t->read))
            continue;
        if (x)
            pb_read(t, x + n);
        n += tg_numel(&t->view);
    }
    return n;
}

static int64_t outputs(const problem *p, double *x)
{
    return elements(p, 0, x);
}

/* Marks what moves with the element. */
static int find_dependent(tg_ctx *ctx, const char *backend, problem *p, place at, double *before,
                          double *after, char *dependent)
{
    problem_reset(p);
    const double value = pb_get(&p->tensor[at.tensor], at.element);
    const double others[] = {value + 0.37, value - 2.9, value * 1.5};
    const int64_t n = outputs(p, NULL);
    memset(dependent, 0, (size_t)n);
    if (!isfinite(value) || !run_with(ctx, backend, p, at, value))
        return 0;
    outputs(p, before);
    for (int k = 0; k < 3; k++) {
        run_with(ctx, backend, p, at, others[k]);
        outputs(p, after);
        for (int64_t i = 0; i < n; i++)
            dependent[i] |= before[i] == before[i] && !(before[i] == after[i]);
    }
    return 1;
}

/* Of eager steps: by a comparison, as frameworks write it, where NaN is lost. */
static int loses_nan(const problem *p)
{
    static const struct {
        const char *op, *text;
    } by_comparison[] = {{"tvd", ""},                              /* the sign of p - q */
                         {"preference_loss", "loss_type=1 "},      /* a hinge */
                         {"multi_token_attention", "sparse=yes"}}; /* what sparsemax keeps */
    for (size_t i = 0; i < sizeof by_comparison / sizeof *by_comparison; i++)
        if (strstr(p->op->info->name, by_comparison[i].op) &&
            strstr(p->c->text, by_comparison[i].text))
            return 1;
    return 0;
}

static long check_place(tg_ctx *ctx, problem *p, place at, double *x, double *y, char *dependent)
{
    static const char *const backends[] = {"ref", "unfused", "cpu"};
    const int64_t n = outputs(p, NULL);
    long compared = 0;
    for (int b = 0; b < 3; b++) {
        if (b == 1 && loses_nan(p))
            continue;
        if (!find_dependent(ctx, backends[b], p, at, x, y, dependent) ||
            !run_with(ctx, backends[b], p, at, NAN))
            continue;
        if (stops_the_call(&p->tensor[at.tensor])) {
            const int64_t kept = elements(p, 1, x);
            problem_reset(p);
            elements(p, 1, y);
            EXPECT(!memcmp(x, y, (size_t)kept * sizeof *x), "%s/%s \"%s\": changed by NaN",
                   backends[b], p->op->info->name, p->c->text);
            continue;
        }
        outputs(p, x);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; i++) {
            compared += dependent[i];
            wrong += dependent[i] && x[i] == x[i];
        }
        EXPECT(
            !wrong,
            "%s/%s \"%s\": element %lld of %s is NaN, and %lld outputs that depend on it are not",
            backends[b], p->op->info->name, p->c->text, (long long)at.element,
            p->tensor[at.tensor].decl->name, (long long)wrong);
    }
    return compared;
}

static long check_problem(tg_ctx *ctx, problem *p)
{
    const size_t n = (size_t)outputs(p, NULL) + 1;
    double *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y);
    char *dependent = calloc(n, 1);
    long compared = 0;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        const int64_t m = t->read && floating(t) && !only_chooses(p, t) ? tg_numel(&t->view) : 0;
        for (int k = 0; m && k < PLACES; k++)
            compared +=
                check_place(ctx, p, (place){i, k * (m - 1) / (PLACES - 1)}, x, y, dependent);
    }
    free(x);
    free(y);
    free(dependent);
    return compared;
}

int main(int argc, char **argv)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    EXPECT(cat, "%s", error);
    for (int i = 0; cat && i < cat->nops; i++) {
        const pb_op *op = &cat->ops[i];
        if (argc > 1 && strcmp(argv[1], op->info->name))
            continue;
        tg_ctx *ctx = new_context();
        tg_ctx_set_threads(ctx, 1);
        long compared = 0, numbers = -1; /* of the outputs: an operator may be of integers alone */
        for (int k = 0, cases = 0; k < cat->ncases && cases < CASES; k++) {
            const pb_case *c = &cat->cases[k];
            if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, TG_F32))
                continue;
            const pb_options options = {
                .type = TG_F32, .seed = 1, .ctx = ctx, .guard = 64, .most = MOST_BYTES};
            problem *p = problem_create(cat, op, c, &options, error);
            if (p) {
                const long found = check_problem(ctx, p);
                numbers = outputs(p, NULL) > numbers ? outputs(p, NULL) : numbers;
                cases += found > 0;
                compared += found;
            }
            problem_free(p);
        }
        EXPECT(compared > 0 || numbers == 0, "%s: nothing was compared", op->info->name);
        tg_ctx_destroy(ctx);
    }
    return report();
}
