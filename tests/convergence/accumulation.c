/* accumulation.c - gradients of 64 micro-batches, added up one by one, against the
 * same batch in one piece.
 *
 *   convergence_accumulation TEXT
 *
 * The trainer's model, a small one, learns a text for STEPS steps, from the same parameters,
 * with the same windows:
 *   in one piece   one pass over all 64 windows
 *   in order       64 passes over one window each; the trainer adds up their gradients,
 *                  f32, one after the other
 *   by operators   the operators add each pass's gradients to those before
 *                  (`accumulate` = 1), in f32
 *   in bf16        the same, and all sums are rounded to bf16 after each pass, as where
 *                  gradients have that type
 *
 * Compared with the piece are the gradient of the first step (|g - piece| / |piece|) and the
 * parameters at the end (|p - piece| / |piece - start|).
 *
 * A window's activations have the same bits either way, and the factors 1/64 are powers of two:
 * what differs in the gradient is the order of f32 sums, 2e-7 of it with parameters of both
 * types; the limit is five times that. bf16 rounds by up to 2^-9 in each of 64 additions, whose
 * errors add up like a random walk: 7e-3, and the test asks for DRIFT times the limit. The
 * parameters stay together to 4e-7 in f32. In bf16 a change of 1e-7 in a master weight can turn
 * the rounding of some, and the courses part on their own, by less than accumulation in bf16
 * parts them, 4e-3: the limit lies between. If that did not break it, the test could not tell an
 * accumulator in bf16 from one in f32.
 */
#include <stdio.h>

#include "../../examples/llama/gradients.h"
#include "lessons.h"

enum { MICRO = 64, SEQ = 32, STEPS = 20, DRIFT = 1000 };

static const struct limit {
    const char *type;
    double gradient, parameters;
} limits[] = {{"f32", 1e-6, 1e-5}, {"bf16", 1e-6, 2e-3}};

static const struct way {
    const char *name;
    int64_t parts, unordered;
    int drifts;
} piece = {"in one piece", 1, 0, 0}, ways[] = {
                                         {"added up in order", MICRO, 0, 0},
                                         {"added up by operators", MICRO, 1, 0},
                                         {"added up in bf16", MICRO, 1, 1},
};
typedef struct way way;

typedef struct result {
    float *gradient, *start, *end;
    int64_t count;
    double loss;
} result;

static void round_gradients(const model *m)
{
    for (int64_t i = 0; i < m->count; i++)
        *model_grad(m, i) = from_bf16(to_bf16(*model_grad(m, i)));
}

/* The gradients of a step; returns the mean loss. */
static double pass(learner *n, corpus *text, int64_t step, const way *w)
{
    model *m = &n->m;
    double loss = 0;
    for (int64_t i = 0; i < w->parts; i++) {
        model_micro_batch(m, i);
        data_train(text, &n->o, (step * w->parts + i) * n->o.batch, model_windows(m, i));
        gradients_round(m, i);
        loss += get(&m->loss.t, 0) / (double)w->parts;
        if (w->drifts)
            round_gradients(m);
    }
    return loss;
}

static void copy(float *to, const learner *n, float (*element)(const learner *n, int64_t i))
{
    for (int64_t i = 0; i < n->m.count; i++)
        to[i] = element(n, i);
}

static float gradient(const learner *n, int64_t i)
{
    return *gradients_at(&n->m, i, shards_place(&n->m.shards, i));
}

static result train(corpus *text, const char *type, const way *w)
{
    static const lesson sizes = {.vocab = 256, .batch = MICRO, .seq = SEQ, .times = 6};
    static learner n; /* its tensors point into it */
    options o = lesson_options(&sizes, type, 2e-3);
    o.batch = MICRO / w->parts;
    o.accumulate = w->parts;
    o.unordered = w->unordered;
    learner_open(&n, &sizes, &o, NULL, NULL);
    result r = {.count = n.m.count};
    float **const kept[] = {&r.gradient, &r.start, &r.end};
    for (int i = 0; i < 3; i++)
        *kept[i] = take_memory((size_t)r.count * sizeof(float));
    copy(r.start, &n, learner_parameter);
    for (int64_t step = 0; step < STEPS; step++) {
        r.loss = pass(&n, text, step, w);
        if (step == 0)
            copy(r.gradient, &n, gradient);
        learner_update(&n);
    }
    copy(r.end, &n, learner_parameter);
    learner_close(&n);
    return r;
}

/* 1 if it fails. */
static int compare(corpus *text, const struct limit *l, const result *whole, const way *w)
{
    const result r = train(text, l->type, w);
    const double gradient = distance(r.gradient, whole->gradient, NULL, r.count);
    const double parameters = distance(r.end, whole->end, whole->start, r.count);
    printf("    %d parts, %-22s gradient %.1e, parameters %.1e, loss %.5f\n", MICRO, w->name,
           gradient, parameters, r.loss);
    const int good = w->drifts ? gradient > DRIFT * l->gradient && parameters > l->parameters
                               : gradient <= l->gradient && parameters <= l->parameters;
    if (!good)
        printf("    FAILED: %s\n", w->drifts ? "the limits do not see it" : "beyond the limits");
    return !good;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        printf("usage: convergence_accumulation TEXT\n");
        return 2;
    }
    static corpus text;
    lesson_text(&text, argv[1]);
    int failures = 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        const struct limit *l = &limits[i];
        const result whole = train(&text, l->type, &piece);
        printf("%s parameters: loss %.5f after %d steps in one piece (limits: gradient %.0e, "
               "parameters %.0e; in bf16 more than %.0e and %.0e)\n",
               l->type, whole.loss, STEPS, l->gradient, l->parameters, DRIFT * l->gradient,
               l->parameters);
        for (size_t k = 0; k < sizeof(ways) / sizeof(*ways); k++)
            failures += compare(&text, l, &whole, &ways[k]);
    }
    puts(failures ? "FAILED" : "passed");
    return failures != 0;
}
