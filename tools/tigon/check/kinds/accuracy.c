/* tools/tigon/check/kinds/accuracy.c - relative errors below an element's tolerance that
 * all elements share: roundings have either sign and cancel in a sum over many elements, a
 * wrong factor does not.
 *
 * Of an output with values v, rounded to its type, and errors e the sum of e sign(v) must stay
 * below 8 u32 of the sum of |v| and the sum of S (docs/numerics.md), beside four times the root of
 * the sum of e^2, what errors of random sign add up to. Several problems count together, each with
 * weight 1, so that outputs of one element (a loss) are judged, too.
 */
#include <math.h>
#include <stdlib.h>

#include "kinds.h"

enum { FEWEST = 24 /* elements that tell a bias from chance */, SEEDS = 32, BASES = 4 };

typedef struct bias {
    double error, squares, condition, weight;
    int64_t n;
} bias;

static void add(bias *to, const pb_tensor *x, const truth_output *o)
{
    double total = 0, error = 0, squares = 0, condition = 0;
    const int type = tg_type_of(&x->view);
    double *found = malloc(((size_t)o->n + 1) * sizeof *found);
    if (!found)
        return;
    pb_read(x, found);
    for (int64_t i = 0; i < o->n; i++) {
        const double e = found[i] - pb_round(type, o->value[i]);
        if (!isfinite(e))
            continue;
        total += fabs(o->value[i]);
        error += o->value[i] < 0 ? -e : e;
        squares += e * e;
        condition += o->condition[i];
    }
    free(found);
    if (!(total > 0))
        return;
    to->error += error / total;
    to->squares += squares / (total * total);
    to->condition += condition / total;
    to->weight += 1;
    to->n += o->n;
}

/* 1 if the problem was run and its results added. */
static int try_problem(trier *t, const base *b, uint64_t seed, bias *sum)
{
    char error[PB_ERROR];
    problem *p = kinds_problem(t, &b->c, b->type, seed);
    truth *truth = p ? truth_create(t->ck->judge, p, seed, error) : NULL;
    const int ran = truth && !kinds_run(t, t->ck->ctx, p);
    for (int i = 0; ran && i < t->op->ntensors; i++)
        if (truth->out[i].condition)
            add(&sum[i], &p->tensor[i], &truth->out[i]);
    truth_free(truth);
    problem_free(p);
    return ran;
}

static void judge(trier *t, const base *b, const bias *sum)
{
    for (int i = 0; i < t->op->ntensors; i++) {
        const bias *s = &sum[i];
        if (s->n < FEWEST)
            continue;
        const double share = fabs(s->error) / s->weight;
        const double chance = 4 * sqrt(s->squares) / s->weight;
        const double most = 8 * type_unit(TG_F32) + s->condition / s->weight;
        if (share <= chance + most) {
            kinds_passed(t);
            continue;
        }
        kinds_failed(t, &b->c, b->type,
                     "%s is too %s by %.2g of its size on the average of %lld elements, where "
                     "roundings leave %.2g",
                     t->op->tensor[i].name, s->error > 0 ? "large" : "small", share,
                     (long long)s->n, chance + most);
    }
}

void kind_accuracy(trier *t)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from[BASES];
        const int n = bases_of(t, data_types[k], from, BASES);
        for (int i = 0; i < n; i++) {
            bias sum[PB_ARGS] = {{0}};
            for (int seed = 0; seed < SEEDS; seed++)
                if (!try_problem(t, from[i], (uint64_t)(t->ck->s.seed + seed), sum))
                    break;
            judge(t, from[i], sum);
        }
    }
}
