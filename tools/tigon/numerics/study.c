/* tools/tigon/numerics/study.c - two places where bf16 loses a gradient: a probability that is
 * rounded before 1 is subtracted, and a sum that is rounded after every chunk. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "share/impl_device.h"

static problem *make(tg_ctx *ctx, const catalogue *cat, const char *operator_name, const char *text,
                     pb_case *c, char *error)
{
    const pb_op *op = catalogue_op(cat, tg_op_by_name(operator_name));
    const pb_options options = {.type = TG_BF16, .seed = 1, .ctx = ctx};
    if (!op || pb_case_parse(cat, op->group, text, c, error))
        return NULL;
    return problem_create(cat, op, c, &options, error);
}

/* The operator as dispatch runs it, or its unfused implementation. */
static int run(tg_ctx *ctx, problem *p, int unfused, char *error)
{
    const char *op = p->op->info->name;
    const int impl = unfused ? impl_named(ctx, "unfused", op) : -1;
    const tg_status status = !unfused   ? problem_call(ctx, p)
                             : impl < 0 ? TG_ENOTFOUND
                                        : problem_run_impl(ctx, impl, p);
    if (status)
        snprintf(error, PB_ERROR, "%s%s: %.300s", unfused ? "unfused/" : "", op, tg_last_error());
    return status ? -1 : 0;
}

/* ---- the gradient of the true class ---- */

enum { CLASSES = 1024 };

/* Probability of the target by a softmax that writes bf16, minus 1, in bf16. */
static int softmax_gradient(tg_ctx *ctx, const catalogue *cat, const problem *from, int64_t target,
                            double *gradient, char *error)
{
    pb_case c;
    double logits[CLASSES];
    problem *p = make(ctx, cat, "softmax_forward", "R=1 N=1024", &c, error);
    if (!p)
        return -1;
    pb_read(problem_tensor(from, "logits"), logits);
    pb_write(problem_tensor(p, "x"), logits);
    const int bad = run(ctx, p, 0, error);
    *gradient = pb_round(TG_BF16, pb_get(problem_tensor(p, "y"), target) - 1);
    problem_free(p);
    return bad;
}

/* All logits are 0, but for the target's, which gives it the probability p. */
static int gradient_at(tg_ctx *ctx, const catalogue *cat, double p, num_gradient *g, char *error)
{
    pb_case c;
    problem *q = make(ctx, cat, NUM_GRADIENT_OP,
                      "BT=1 V=1024 logits!zeros dloss!ones -class_weight -batch_target", &c, error);
    if (!q)
        return -1;
    const int64_t target = (int64_t)pb_get(problem_tensor(q, "target"), 0);
    const pb_tensor *dlogits = problem_tensor(q, "dlogits");
    pb_set(problem_tensor(q, "logits"), target, log(p / (1 - p) * (CLASSES - 1)));
    problem *exact = num_exact(ctx, q, error);
    int bad = !exact || run(ctx, q, 0, error);
    g->impl = pb_get(dlogits, target);
    bad = bad || run(ctx, q, 1, error);
    g->unfused = pb_get(dlogits, target);
    bad = bad || softmax_gradient(ctx, cat, q, target, &g->rounded, error);
    if (!bad) {
        g->exact = pb_get(problem_tensor(exact, "dlogits"), target);
        g->p = 1 + g->exact;
    }
    problem_free(exact);
    problem_free(q);
    return bad ? -1 : 0;
}

int num_study_gradient(tg_ctx *ctx, const catalogue *cat, num_studies *into, char *error)
{
    static const double p[NUM_GRADIENTS] = {0.9, 0.99, 0.999};
    for (; into->ngradients < NUM_GRADIENTS; into->ngradients++)
        if (gradient_at(ctx, cat, p[into->ngradients], &into->gradient[into->ngradients], error))
            return -1;
    return 0;
}

/* ---- dweight over many chunks ---- */

enum { ROWS = 8 /* of a chunk */ };

/* ||dweight - exact|| / ||exact|| */
static double distance(const problem *p, const problem *exact)
{
    const pb_tensor *found = problem_tensor(p, "dweight");
    const pb_tensor *expected = problem_tensor(exact, "dweight");
    double off = 0, all = 0;
    for (int64_t i = 0; i < tg_numel(&found->view); i++) {
        const double v = pb_get(expected, i), d = pb_get(found, i) - v;
        off += d * d;
        all += v * v;
    }
    return sqrt(off / all);
}

/* The rows of one chunk, as a view of `whole`. */
static tg_tensor chunk_of(const tg_tensor *whole, int64_t k, int64_t *shape)
{
    tg_tensor t = *whole;
    memcpy(shape, whole->shape, (size_t)whole->ndim * sizeof *shape);
    shape[0] = ROWS;
    t.shape = shape;
    const int64_t columns = whole->ndim > 1 ? shape[1] : 1;
    t.byte_offset += (uint64_t)(k * ROWS * columns) * tg_type_size(tg_type_of(whole));
    return t;
}

/* One call a chunk, each of which adds to dweight, and so rounds it. */
static int call_each(tg_ctx *ctx, const problem *p, int64_t chunks, char *error)
{
    tg_tensor weight = problem_tensor(p, "weight")->view, loss = problem_tensor(p, "loss")->view;
    tg_tensor dweight = problem_tensor(p, "dweight")->view;
    for (int64_t k = 0; k < chunks; k++) {
        int64_t x_shape[TG_MAX_NDIM], target_shape[TG_MAX_NDIM];
        tg_tensor x = chunk_of(&problem_tensor(p, "x")->view, k, x_shape);
        tg_tensor target = chunk_of(&problem_tensor(p, "target")->view, k, target_shape);
        const tg_fused_linear_cross_entropy_forward_args args = {.x = &x,
                                                                 .weight = &weight,
                                                                 .target = &target,
                                                                 .loss = &loss,
                                                                 .dweight = &dweight,
                                                                 .reduction = TG_SUM,
                                                                 .accumulate = k > 0};
        if (!tg_fused_linear_cross_entropy_forward(ctx, &args))
            continue;
        snprintf(error, PB_ERROR, "%.400s", tg_last_error());
        return -1;
    }
    return 0;
}

static int drift_over(tg_ctx *ctx, const catalogue *cat, int64_t chunks, num_drift *d, char *error)
{
    pb_case c;
    char text[PB_TEXT];
    /* a row of a chunk: V logits in f32 and V gradients in bf16 */
    snprintf(text, sizeof text,
             "BT=%lld H=64 V=256 chunk_bytes=%d reduction=1 weight!layer dloss!ones -class_weight "
             "-bias -dbias -dx -z_loss -lse -accuracy -predicted",
             (long long)chunks * ROWS, ROWS * 256 * 6);
    problem *p = make(ctx, cat, NUM_DRIFT_OP, text, &c, error);
    problem *exact = p ? num_exact(ctx, p, error) : NULL;
    int bad = !exact;
    d->chunks = chunks;
    if (!bad && !(bad = run(ctx, p, 0, error)))
        d->once = distance(p, exact);
    if (!bad && !(bad = call_each(ctx, p, chunks, error)))
        d->each = distance(p, exact);
    if (!bad && !(bad = run(ctx, p, 1, error)))
        d->unfused = distance(p, exact);
    problem_free(exact);
    problem_free(p);
    return bad ? -1 : 0;
}

int num_study_drift(tg_ctx *ctx, const catalogue *cat, num_studies *into, char *error)
{
    static const int64_t chunks[NUM_DRIFTS] = {1, 8, 32, 128};
    for (; into->ndrifts < NUM_DRIFTS; into->ndrifts++)
        if (drift_over(ctx, cat, chunks[into->ndrifts], &into->drift[into->ndrifts], error))
            return -1;
    return 0;
}
