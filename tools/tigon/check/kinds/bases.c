/* tools/tigon/check/kinds/bases.c - the small cases that the kinds start from: of the family, and
 * bare ones, as the implementation takes them. */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { MOST_BASES = 128, MOST_A_TYPE = MOST_BASES / 3, MOST_BYTES = 1 << 16 };

/* Values that leave no operator near the end of its range. */
static int is_ordinary(const pb_case *c)
{
    static const char *const fills[] = {"layer", "logp",   "positive",     "index",
                                        "same",  "normal", "some_ignored", "ignored"};
    for (int i = 0; i < c->ntokens; i++) {
        int known = c->token[i].kind != PB_FILL;
        for (size_t k = 0; k < sizeof fills / sizeof *fills; k++)
            known |= !strcmp(c->token[i].value, fills[k]);
        if (!known)
            return 0;
    }
    return !pb_case_flag(c, "hard") && !pb_case_flag(c, "shifted") && !pb_case_flag(c, "cpu") &&
           !pb_case_flag(c, "cpu_cuda");
}

static int is_known(const trier *t, const pb_case *c, int type)
{
    for (int i = 0; i < t->nbases; i++)
        if (t->bases[i].type == type && !strcmp(t->bases[i].c.text, c->text))
            return 1;
    return 0;
}

static int is_empty(const problem *p)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && !tg_numel(&p->tensor[i].view))
            return 1;
    return 0;
}

/* Without guards and what lies between rows. */
static size_t bytes_of(const problem *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present)
            bytes +=
                (size_t)tg_numel(&p->tensor[i].view) * tg_type_size(tg_type_of(&p->tensor[i].view));
    return bytes;
}

static void add(trier *t, const pb_case *c, int type, size_t bytes)
{
    if (t->nbases < MOST_BASES && !is_known(t, c, type))
        t->bases[t->nbases++] = (base){*c, type, bytes};
}

typedef struct finder {
    trier *t;
    int type, first; /* bases of the type begin here */
} finder;

static void consider(void *arg, const pb_case *c)
{
    const finder *f = arg;
    trier *t = f->t;
    char error[PB_ERROR];
    if (t->nbases - f->first >= MOST_A_TYPE || !is_ordinary(c) || !checker_takes(t->ck, c, f->type))
        return;
    pb_options options = checker_options(t->ck, f->type);
    options.most = MOST_BYTES;
    problem *p = problem_create(t->ck->cat, t->op, c, &options, error);
    if (p && !is_empty(p)) {
        pb_case less;
        if (check_runs(t->ck->ctx, t->impl, p))
            add(t, c, f->type, bytes_of(p));
        else if (check_takes(p) &&
                 check_reduce(t->ck->ctx, t->ck->cat, p, t->impl, &options, &less))
            add(t, &less, f->type, bytes_of(p));
    }
    problem_free(p);
}

static int by_size(const void *a, const void *b)
{
    const base *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

int bases_find(trier *t)
{
    t->bases = malloc(MOST_BASES * sizeof *t->bases);
    if (!t->bases)
        return -1;
    for (int k = 0; k < DATA_TYPES; k++) {
        finder f = {t, data_types[k], t->nbases};
        checker_each_case(t->ck, t->op, consider, &f);
        qsort(t->bases + f.first, (size_t)(t->nbases - f.first), sizeof(base), by_size);
    }
    return 0;
}

void bases_free(trier *t)
{
    free(t->bases);
}

int bases_of(const trier *t, int type, const base **into, int max)
{
    int first = 0, n = 0;
    while (first < t->nbases && t->bases[first].type != type)
        first++;
    while (first + n < t->nbases && t->bases[first + n].type == type)
        n++;
    const int taken = n < max ? n : max;
    for (int i = 0; i < taken; i++)
        into[i] = &t->bases[first + (taken > 1 ? i * (n - 1) / (taken - 1) : n - 1)];
    return taken;
}

/* Tensors count most, then more than a few elements, then how little else the case says; of equals
 * the largest is taken. */
static int richness(const trier *t, const base *b)
{
    enum { FEW_BYTES = 1024 };
    const pb_case *c = &b->c;
    int points = b->bytes < FEW_BYTES ? 0 : PB_TOKENS / 2;
    for (int i = 0; i < t->op->ntensors; i++)
        points += pb_case_drops(c, t->op->tensor[i].name) ? 0 : PB_TOKENS;
    for (int i = 0; i < c->ntokens; i++) {
        const pb_token *k = &c->token[i];
        if (k->kind == PB_SHAPE || k->kind == PB_EXPAND || k->kind == PB_SLICE)
            return -1;
        points -= !pb_is_dimension(k);
    }
    return points;
}

const base *bases_richest(const trier *t, int type)
{
    const base *best = NULL;
    for (int i = 0; i < t->nbases; i++)
        if (t->bases[i].type == type && richness(t, &t->bases[i]) >= 0 &&
            (!best || richness(t, &t->bases[i]) >= richness(t, best)))
            best = &t->bases[i];
    return best;
}
