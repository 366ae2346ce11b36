/* tools/tigon/trial/tolerance.c - how far an element may be off;
 * docs/numerics.md gives the reasons.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/impl_device.h"
#include "trial.h"

double type_unit(int type)
{
    return type == TG_F64      ? 0x1p-53
           : type == TG_F32    ? 0x1p-24
           : type == TG_BF16   ? 0x1p-8
           : type == TG_F8E4M3 ? 0x1p-4
                               : 0x1p-11;
}

double type_largest(int type)
{
    return type == TG_F64    ? 0x1.fffffffffffffp1023
           : type == TG_F32  ? 0x1.fffffep127
           : type == TG_BF16 ? 0x1.fep127
                             : 65504; /* E4M3 has no infinity */
}

/* Where numbers are subnormal: half a unit in the last place for each rounding of the output, and
 * what was computed on the way. */
static double smallest_error(const truth *t, int type, double roundings)
{
    const double half = type == TG_F16 ? 0x1p-25 : type == TG_BF16 ? 0x1p-134 : 0x1p-150;
    return roundings * half + t->underflow;
}

/* What underflow of intermediates that are rounded to T costs a sum: half of T's smallest step a
 * term. Those of f16 are scaled by 2^7 at least, and may all be rounded alike; those of bf16 are as
 * often rounded up as down, and then meet a factor of 4 at most. */
static double underflow_inside(const truth *t, const truth_output *o)
{
    const double length = (double)t->length;
    if (o->inside_roundings > 0 && t->type == TG_F16)
        return 0x1p-32 * length * t->most;
    return o->inside_roundings > 0 && t->type == TG_BF16 ? 0x1p-132 * sqrt(length) : 0;
}

/* Devices whose matrix units cut off what a sum in f32 has no bits for, where others round:
 * products of 16 bits. Devices whose softmax subtracts the logarithm of the whole sum, which is 0
 * beside a class that has nearly all of it. */
static const struct {
    const char *device;
    unsigned how;
} devices[] = {{"cuda", TRUTH_CUT}, {"npu", TRUTH_COARSE}, {"npu-model", TRUTH_COARSE}};

unsigned truth_how(const truth *t, const tg_ctx *ctx, int impl)
{
    const int on_units = t->wide->op->gemm && (t->type == TG_BF16 || t->type == TG_F16);
    const char *device = impl_device_in(ctx, impl);
    unsigned how = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(devices[i].device, device))
            how |= devices[i].how;
    for (int i = 0; i < t->wide->op->ntensors; i++)
        if (t->wide->op->tensor[i].type == TG_F8E4M3 && !strcmp(device, "cuda"))
            how |= TRUTH_COARSE;
    return on_units ? how : how & ~(unsigned)TRUTH_CUT;
}

static int has_ties(const char *fill)
{
    return !strcmp(fill, "ties") || !strcmp(fill, "heights");
}

/* c. Terms of random sign and size are rounded up as often as down; those of a tensor that is
 * repeated are all the same, and so is what each of them is rounded by; of ties, which have few
 * values, and of rows most of which lie at one height, it is so for a part of them. A matrix unit
 * that cuts
 * does so after each 16 terms, always towards 0, by one rounding of the sum so far on average,
 * which is half of the whole. */
static double growth_of(const truth *t, int cuts)
{
    const pb_case *c = t->wide->c;
    const double length = (double)t->length, cut = cuts ? length / 32 : 0;
    double random = 0.75 * sqrt(length);
    for (int i = 0; i < c->ntokens; i++) {
        if (c->token[i].kind == PB_EXPAND)
            return 8 + 0.5 * length + cut;
        if (c->token[i].kind == PB_FILL && has_ties(c->token[i].value))
            random = 1.5 * sqrt(length);
    }
    return 8 + random + cut;
}

int truth_bound_of(truth *t, int output, int type, unsigned how, truth_bound *b, char *error)
{
    const truth_output *o = &t->out[output];
    const double sums = growth_of(t, (how & TRUTH_CUT) != 0);
    const double unit = type_unit(TG_F32), unit_inside = type_unit(t->type);
    const double terms = o->cancelled > 0 ? unit_inside : 0; /* of a sum of what is rounded to T */
    const double coarse = how & TRUTH_COARSE ? o->coarse : 0;
    *b = (truth_bound){
        .value = o->roundings * type_unit(type) + sums * unit + terms,
        .condition = sums,
        .inside = 4 * o->inside_roundings,
        .fixed = smallest_error(t, type, o->roundings) + underflow_inside(t, o) +
                 2 * unit * (o->magnitude + coarse) + terms * o->cancelled,
    };
    if (how & TRUTH_LOOSE) {
        b->value += 16 * unit_inside;
        b->inside += 16;
        b->fixed += 16 * unit_inside * o->magnitude + smallest_error(t, t->type, 16);
    }
    return b->inside > 0 ? truth_measure_inside(t, 0, error) : 0;
}

/* Errors of the unfused implementation: in T if intermediates may be rounded to T, else in f32,
 * since an operator computes in f32. */
static int measure_yard(truth *t, int output)
{
    char error[PB_ERROR];
    truth_output *o = &t->out[output];
    const int impl = impl_named(t->ctx, "unfused", t->wide->op->info->name);
    if (impl < 0)
        return -1;
    problem *p = problem_convert(t->wide, o->inside_roundings > 0 ? t->type : TG_F32, error);
    o->yard = calloc((size_t)(o->n / o->cols) + 1, sizeof(double));
    const int alike = tg_ctx_batch_invariant(t->ctx); /* what the yardstick does not promise */
    tg_ctx_set_batch_invariant(t->ctx, 0);
    const int ran = p && o->yard && !tg_impl_run(t->ctx, impl, problem_args(p));
    tg_ctx_set_batch_invariant(t->ctx, alike);
    for (int64_t k = 0; ran && k < o->n; k++) {
        const double off = fabs(pb_get(&p->tensor[output], k) - o->value[k]);
        if (off > o->yard[k / o->cols])
            o->yard[k / o->cols] = off;
    }
    problem_free(p);
    return ran ? 1 : -1;
}

double truth_yardstick(truth *t, int output, int64_t i, int type)
{
    truth_output *o = &t->out[output];
    if (!o->yard_state)
        o->yard_state = measure_yard(t, output);
    if (o->yard_state < 0)
        return -1;
    return 2 * o->yard[i / o->cols] + o->roundings * type_unit(type) * fabs(o->value[i]) +
           smallest_error(t, type, o->roundings);
}
