/* accumulation.c - gradients of 64 micro-batches, added up one by one, against the same batch in
 * one piece.
 *
 *   convergence_accumulation TEXT
 *
 * A small decoder learns a text for STEPS steps, from the same parameters, with the same windows:
 *   in one piece   one pass over all 64 windows
 *   in f32         64 passes over one window each, whose gradients add up in f32, as everywhere in
 *                  Tigon (`accumulate` = 1)
 *   in bf16        the same with gradients of type bf16, which the operators accept as well: each
 *                  addition is rounded to 8 bits, as where gradients have the parameters' type
 *
 * Compared with the piece are the gradient of the first step (|g - piece| / |piece|) and the
 * parameters at the end (|p - piece| / |piece - start|).
 *
 * A window's activations have the same bits either way, and the factors 1/64 are powers of two:
 * what differs in the gradient is the order of f32 sums, 2e-7 of it with parameters of both types;
 * the limit is five times that. bf16 rounds by up to 2^-9 in each of 64 additions, whose errors add
 * up like a random walk: 8e-3, and the test asks for DRIFT times the limit. The parameters stay
 * together to 2e-6 in f32. In bf16 a change of 1e-7 in a master weight turns the rounding of some
 * parameters, and the courses part by 1e-3 on their own; accumulation in bf16 parts them by 1e-2,
 * and must break the limit between the two. If it did not, the test could not tell an accumulator
 * in bf16 from one in f32.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lessons.h"

enum { MICRO = 64, SEQ = 32, STEPS = 20, DRIFT = 1000 };

static const struct limit {
    tg_type type;
    double gradient, parameters;
} limits[] = {{TG_F32, 1e-6, 1e-5}, {TG_BF16, 1e-6, 4e-3}};

typedef struct result {
    float *gradient, *start, *end;
    int64_t count;
    double loss;
} result;

static float *take(int64_t count)
{
    float *x = malloc((size_t)count * sizeof(*x));
    if (!x) {
        printf("out of memory\n");
        exit(1);
    }
    return x;
}

/* Gradient of the mean loss over the net's windows, times 1 / parts, over or on top of what is
 * there. */
static double pass(net *n, tensor *target, int64_t first_window, int parts, int accumulate)
{
    float loss, scale = 1 / (float)parts;
    const int64_t one = 1;
    tg_tensor tloss = tg_tensor_of(&loss, TG_F32, 1, &one),
              tscale = tg_tensor_of(&scale, TG_F32, 1, &one);
    lessons_load(n, target, first_window);
    net_forward(n);
    CALL(n->ctx, fused_linear_cross_entropy_forward, .x = &n->last.y.t, .weight = &n->embed.p.t,
         .target = &target->t, .dloss = &tscale, .loss = &tloss, .dx = &n->dy.t,
         .dweight = &n->embed.g.t, .accumulate = accumulate);
    net_backward(n, accumulate);
    return (double)loss / parts;
}

/* parts: how many micro-batches the 64 windows of a step come in. */
static result train(tg_ctx *ctx, tg_type type, tg_type grad_type, int parts)
{
    static net n; /* its tensors point into it */
    static tensor target;
    const net_options o = {&layer_norm, type, grad_type, 256, MICRO / parts, SEQ, 1};
    net_open(&n, ctx, &o);
    net_tensor(&n, &target, TG_I64, SHAPE(n.rows));
    result r = {take(n.count), take(n.count), take(n.count), n.count, 0};
    memcpy(r.start, net_parameters(&n), (size_t)n.count * sizeof(float));
    for (int64_t step = 0; step < STEPS; step++) {
        r.loss = 0;
        for (int i = 0; i < parts; i++)
            r.loss += pass(&n, &target, (step * parts + i) * n.o.batch, parts, i > 0);
        if (step == 0)
            net_gradient(&n, r.gradient);
        net_update(&n, 2e-3);
    }
    memcpy(r.end, net_parameters(&n), (size_t)n.count * sizeof(float));
    net_close(&n);
    return r;
}

static void forget(result *r)
{
    free(r->gradient);
    free(r->start);
    free(r->end);
}

typedef struct gap {
    double gradient, parameters;
} gap;

static gap compare(tg_ctx *ctx, tg_type type, tg_type grad_type, const result *piece)
{
    result r = train(ctx, type, grad_type, MICRO);
    const gap g = {distance(r.gradient, piece->gradient, NULL, r.count),
                   distance(r.end, piece->end, piece->start, r.count)};
    printf("    %d parts, added up in %-4s  gradient %.1e, parameters %.1e, loss %.5f\n", MICRO,
           tg_type_name(grad_type), g.gradient, g.parameters, r.loss);
    forget(&r);
    return g;
}

/* 1 if it fails. */
static int run(tg_ctx *ctx, const struct limit *l)
{
    result piece = train(ctx, l->type, TG_F32, 1);
    printf("%s parameters: loss %.5f after %d steps in one piece (limits: gradient %.0e, "
           "parameters %.0e)\n",
           tg_type_name(l->type), piece.loss, STEPS, l->gradient, l->parameters);
    const gap ours = compare(ctx, l->type, TG_F32, &piece);
    int failed = !(ours.gradient <= l->gradient && ours.parameters <= l->parameters);
    if (l->type == TG_BF16) { /* the operators take gradients of the parameters' type or f32 */
        const gap drift = compare(ctx, l->type, TG_BF16, &piece);
        printf("    bf16 must part: gradient by more than %.0e, parameters by more than %.0e\n",
               DRIFT * l->gradient, l->parameters);
        failed |= !(drift.gradient > DRIFT * l->gradient && drift.parameters > l->parameters);
    }
    if (failed)
        printf("    FAILED\n");
    forget(&piece);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        printf("usage: convergence_accumulation TEXT\n");
        return 2;
    }
    lessons_text(argv[1]);
    tg_ctx *ctx;
    must(tg_ctx_create(&ctx), "context");
    int failures = 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        failures += run(ctx, &limits[i]);
    tg_ctx_destroy(ctx);
    puts(failures ? "FAILED" : "passed");
    return failures != 0;
}
