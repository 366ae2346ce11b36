/* sweep.c - random shapes of the backend's kernels on the model of a chip, held against the
 * reference as tigon check holds its cases: results, memory around them, a second call,
 * without optional outputs. The model reports what a chip would suffer in silence: an
 * overflow, a hazard. One run is one chip and one capacity, TIGON_SOC and
 * ASCEND_UB_CAPACITY_BITS; sweep.sh makes several.
 *
 *   ascend_sweep [--shapes N] [--seed N] [--only INDEX] [--elements N] [OPERATOR...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/impl_device.h"
#include "trial/trial.h"

enum { MOST_MESSAGES = 5 /* of one implementation */ };

typedef struct request {
    const char *self;
    long long shapes, seed, only, elements;
    int nwanted;
    char **wanted;
} request;

/* What became of an implementation's problems. */
typedef struct counts {
    int right, refused, overflow, hazard, wrong;
    int64_t widest;
    double error; /* as a part of its tolerance */
} counts;

/* ---- one problem ---- */

typedef struct drawn {
    pb_case c;
    int type;
    problem *p;
} drawn;

static int draw(const request *r, const catalogue *cat, const pb_op *op, tg_ctx *ctx, int64_t index,
                drawn *to, char *error)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    if (check_draw(cat, op, (uint64_t)r->seed, index, r->elements, &to->c, error))
        return -1;
    for (int k = (int)(index % 3);; k = (k + 1) % 3)
        if (pb_case_takes(&to->c, to->type = types[k]))
            break;
    const pb_options options = {
        .type = to->type, .seed = (uint64_t)(r->seed + index), .ctx = ctx, .guard = CHECK_GUARD};
    to->p = problem_create(cat, op, &to->c, &options, error);
    return to->p ? 0 : -1;
}

/* The last dimension of the widest tensor. */
static int64_t width_of(const problem *p)
{
    int64_t width = 0;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (t->present && t->view.ndim > 0 && t->shape[t->view.ndim - 1] > width)
            width = t->shape[t->view.ndim - 1];
    }
    return width;
}

/* ---- one implementation ---- */

/* Which of the three a failure is, from the words of the model and the planner. */
static int *kind_of(counts *n, const char *why)
{
    if (strstr(why, "ub-overflow") || strstr(why, "TG_ENOMEM"))
        return &n->overflow;
    return strstr(why, "npu-model: ") && strstr(why, " in block ") ? &n->hazard : &n->wrong;
}

static const char *name_of(const counts *n, const int *kind)
{
    return kind == &n->overflow ? "OVERFLOW" : kind == &n->hazard ? "HAZARD" : "WRONG";
}

/* The message and the command that shows it again. */
static void tell(const request *r, const tg_impl_info *impl, const drawn *s, int64_t index,
                 const char *kind, const char *why)
{
    const char *soc = getenv("TIGON_SOC"), *bits = getenv("ASCEND_UB_CAPACITY_BITS");
    printf("%s %s %s \"%s\": %s\n", kind, impl->full_name, tg_type_name(s->type), s->c.text, why);
    printf("    again:%s%s%s%s %s --seed %lld --only %lld --elements %lld %s\n",
           soc ? " TIGON_SOC=" : "", soc ? soc : "", bits ? " ASCEND_UB_CAPACITY_BITS=" : "",
           bits ? bits : "", r->self, r->seed, (long long)index, r->elements,
           tg_op_at(impl->op)->name);
    fflush(stdout);
}

static outcome run(tg_ctx *ctx, int impl, drawn *s, uint64_t seed)
{
    const check_settings settings = {.seed = (int64_t)seed, .threads = 1};
    outcome o = {.verdict = SKIPPED};
    char error[PB_ERROR];
    if (!tg_impl_accepts(ctx, impl, problem_args(s->p)))
        return o;
    truth *t = truth_create(ctx, s->p, seed, error);
    if (t)
        return o = check_impl(ctx, impl, s->p, t, &settings), truth_free(t), o;
    o.verdict = FAILED;
    snprintf(o.why, sizeof o.why, "%s", error);
    return o;
}

static void note(counts *n, const outcome *o, const drawn *s)
{
    if (o->verdict == SKIPPED) {
        n->refused++;
        return;
    }
    n->right++;
    const int64_t width = width_of(s->p);
    n->widest = width > n->widest ? width : n->widest;
    if (o->tolerance > 0 && o->error / o->tolerance > n->error)
        n->error = o->error / o->tolerance;
}

/* 1 if any of the implementation's problems failed, or none ran on a chip as it is. */
static int sweep_impl(const request *r, const catalogue *cat, tg_ctx *ctx, int number)
{
    const tg_impl_info *impl = tg_impl_at(number);
    const pb_op *op = catalogue_op(cat, impl->op);
    char error[PB_ERROR];
    counts n = {0};
    int failed = 0;
    for (int64_t i = r->only < 0 ? 0 : r->only; i < (r->only < 0 ? r->shapes : r->only + 1); i++) {
        drawn s;
        if (!op || draw(r, cat, op, ctx, i, &s, error))
            return printf("%s: %s\n", impl->full_name, op ? error : "there are no cases"), 1;
        const outcome o = run(ctx, number, &s, (uint64_t)r->seed);
        if (o.verdict == FAILED) {
            int *kind = kind_of(&n, o.why);
            ++*kind;
            if (failed++ < MOST_MESSAGES)
                tell(r, impl, &s, i, name_of(&n, kind), o.why);
        } else {
            note(&n, &o, &s);
        }
        problem_free(s.p);
    }
    printf("%-46s %5d right %4d refused %3d overflow %3d hazard %3d wrong   widest %lld, error "
           "%.2f of the tolerance\n",
           impl->full_name, n.right, n.refused, n.overflow, n.hazard, n.wrong, (long long)n.widest,
           n.error);
    fflush(stdout);
    /* a buffer smaller than any chip's may have no room for what is drawn */
    return failed > 0 || (n.right == 0 && !getenv("ASCEND_UB_CAPACITY_BITS"));
}

/* ---- all of them ---- */

static int is_wanted(const request *r, const char *op)
{
    for (int i = 0; i < r->nwanted; i++)
        if (!strncmp(op, r->wanted[i], strlen(r->wanted[i])))
            return 1;
    return !r->nwanted;
}

/* The first fault is in the error; the others would be told here. */
static void quiet(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static int sweep(const request *r)
{
    char error[PB_ERROR];
    tg_ctx *ctx;
    int found = 0, failed = 0;
    const catalogue *cat = catalogue_get(error);
    if (!cat)
        return fprintf(stderr, "ascend_sweep: %s\n", error), 1;
    tg_set_log(quiet, NULL);
    if (tg_ctx_create(&ctx) || tg_ctx_set_device(ctx, "npu-model"))
        return fprintf(stderr, "ascend_sweep: %s\n", tg_last_error()), 1;
    for (int i = 0; i < tg_impl_count(); i++)
        if (!strcmp(impl_device(i), "npu-model") &&
            is_wanted(r, tg_op_at(tg_impl_at(i)->op)->name)) {
            failed += sweep_impl(r, cat, ctx, i);
            found++;
        }
    tg_ctx_destroy(ctx);
    if (!found)
        fprintf(stderr, "ascend_sweep: npu-model has no implementation of that name\n");
    return !found || failed;
}

int main(int argc, char **argv)
{
    request r = {.self = argv[0], .shapes = 100, .seed = 1, .only = -1, .elements = CHECK_ELEMENTS};
    const struct {
        const char *name;
        long long *into;
    } options[] = {{"--shapes", &r.shapes},
                   {"--seed", &r.seed},
                   {"--only", &r.only},
                   {"--elements", &r.elements}};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        size_t k = 0;
        while (k < sizeof options / sizeof *options && strcmp(argv[i], options[k].name))
            k++;
        char *end = "?";
        if (k < sizeof options / sizeof *options)
            *options[k].into = strtoll(argv[i + 1], &end, 10);
        if (*end || r.elements < 1)
            return fprintf(stderr, "ascend_sweep: cannot read %s %s\n", argv[i], argv[i + 1]), 2;
    }
    r.nwanted = argc - i;
    r.wanted = argv + i;
    return sweep(&r);
}
