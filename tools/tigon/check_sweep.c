/* tools/tigon/check_sweep.c - cases with other sizes: for `tigon check --sweep`. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

/* A number from a seed, and the next seed. */
static double draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* Half of all sizes lie near a multiple of what machines count in; all are spread evenly over orders of
 * magnitude. */
static int64_t draw_size(uint64_t *seed, double most)
{
    const double size = exp(draw(seed) * log(most + 1));
    if (draw(seed) < 0.5)
        return (int64_t)size < 1 ? 1 : (int64_t)size;
    static const int units[] = {8, 16, 32, 64, 128, 256};
    const int unit = units[(int)(draw(seed) * 6)];
    const int64_t near = (int64_t)(size / unit + 0.5) * unit + (int64_t)(draw(seed) * 3) - 1;
    return near < 1 ? 1 : near;
}

/* One of the operator's cases, its dimensions (they have capitals) drawn anew. */
static int draw_case(const catalogue *cat, const pb_op *op, uint64_t seed, pb_case *c, char *error)
{
    const pb_case *from[512];
    int n = 0;
    for (int i = 0; i < cat->ncases && n < 512; i++)
        if (pb_case_is_for(op, &cat->cases[i]) && !cat->cases[i].bench)
            from[n++] = &cat->cases[i];
    if (!n)
        return snprintf(error, PB_ERROR, "%s has no cases", op->group), -1;
    draw(&seed);
    const pb_case *base = from[(int)(draw(&seed) * n)];
    char text[PB_TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", base->text);
    for (int i = 0; i < base->ntokens; i++) {
        const pb_token *t = &base->token[i];
        if (t->kind != PB_SET || !isupper((unsigned char)*t->name))
            continue;
        const double was = pb_case_value(base, t->name);
        used += (size_t)snprintf(text + used, sizeof text - used, " %s=%lld", t->name,
                                 (long long)draw_size(&seed, 4 * was + 8));
        if (used >= sizeof text)
            return snprintf(error, PB_ERROR, "a case is too long"), -1;
    }
    return pb_case_parse(cat, op->group, text, c, error);
}

/* Sizes that the operator refuses, or that are large, are drawn again. */
int check_sweep(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const check_settings *s,
                check_case_fn fn, void *arg, char *error)
{
    enum { MOST_BYTES = 1 << 20, TRIES = 50 };
    uint64_t seed = (uint64_t)s->seed << 32;
    int64_t done = 0;
    for (int64_t tried = 0; done < s->sweep && tried < TRIES * s->sweep; tried++) {
        pb_case c;
        const pb_options options = {.type = TG_F32, .seed = 1, .ctx = ctx};
        if (draw_case(cat, op, ++seed, &c, error))
            continue;
        problem *p = problem_create(cat, op, &c, &options, error);
        const int legal =
            p && problem_memory(p) <= MOST_BYTES && !tg_check(op->id, problem_args(p));
        problem_free(p);
        if (!legal)
            continue;
        fn(arg, &c);
        done++;
    }
    if (done == s->sweep)
        return 0;
    snprintf(error, PB_ERROR, "only %lld of %lld drawn cases are legal", (long long)done,
             (long long)s->sweep);
    return -1;
}
