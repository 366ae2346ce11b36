/* tools/tigon/check/kinds/state.c - results that depend on what was called before: on other
 * shapes and types, on other values at the same addresses, on how often, in which context
 * and by which thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { MOST = 24, ROUNDS = 3, REPEATS = 300 };

typedef struct known {
    const base *b;
    problem *p;
    unsigned char *bits; /* of the first call */
} known;

/* The problem again: the bits of the first call. 0, or -1 after the failure was noted. */
static int again(trier *t, tg_ctx *ctx, const known *k, const char *when)
{
    if (kinds_run(t, ctx, k->p))
        return -1;
    if (bits_differ(k->p, k->bits) < 0) {
        kinds_passed(t);
        return 0;
    }
    kinds_failed(t, &k->b->c, k->b->type, "%s %s gives other bits than before", when,
                 bits_tensor(k->p, k->bits));
    return -1;
}

/* ---- other shapes between ---- */

static void try_orders(trier *t, const known *k, int n)
{
    static const int steps[ROUNDS] = {1, 7, 11}; /* prime to the number of problems, or nearly so */
    for (int round = 0; round < ROUNDS; round++)
        for (int i = n - 1; i >= 0; i--)
            if (again(t, t->ck->ctx, &k[i * steps[round] % n], "after calls of other sizes"))
                return;
}

/* ---- the same addresses, other values ---- */

static void swap_values(problem *p, problem *q)
{
    for (int i = 0; i < p->nbuffers; i++) {
        unsigned char *initial = p->buffer[i].initial;
        p->buffer[i].initial = q->buffer[i].initial;
        q->buffer[i].initial = initial;
    }
}

static void try_values(trier *t, const known *k)
{
    const uint64_t seed = (uint64_t)t->ck->s.seed + 1;
    problem *q = kinds_problem(t, &k->b->c, k->b->type, seed);
    unsigned char *bits = q && !kinds_run(t, t->ck->ctx, q) ? bits_copy(q) : NULL;
    if (bits && !kinds_run(t, t->ck->ctx, k->p)) {
        swap_values(k->p, q);
        const known other = {k->b, k->p, bits};
        again(t, t->ck->ctx, &other, "with new values at the same addresses");
        swap_values(k->p, q);
        again(t, t->ck->ctx, k, "with the old values at the same addresses");
    }
    free(bits);
    problem_free(q);
}

/* ---- often ---- */

static void try_often(trier *t, const known *k)
{
    for (int i = 0; i < REPEATS; i++) {
        if (kinds_run(t, t->ck->ctx, k->p))
            return;
        if (bits_differ(k->p, k->bits) < 0)
            continue;
        kinds_failed(t, &k->b->c, k->b->type, "call %d of the same call: %s has other bits", i + 2,
                     bits_tensor(k->p, k->bits));
        return;
    }
    kinds_passed(t);
}

/* ---- another context, another thread ---- */

static void try_context(trier *t, const known *k)
{
    tg_ctx *ctx = kinds_context(t, 1), *other = kinds_context(t, 2);
    if (ctx && other && !again(t, ctx, k, "in another context") &&
        !again(t, other, k, "in a third context")) {
        problem_leave(k->p);
        tg_ctx_destroy(ctx);
        ctx = NULL;
        again(t, other, k, "after a context has ended");
    }
    problem_leave(k->p);
    tg_ctx_destroy(ctx);
    tg_ctx_destroy(other);
}

typedef struct errand {
    trier *t;
    const known *k;
} errand;

static void *in_thread(void *arg)
{
    const errand *e = arg;
    tg_ctx *ctx = kinds_context(e->t, 1);
    if (ctx)
        again(e->t, ctx, e->k, "on another thread");
    problem_leave(e->k->p);
    tg_ctx_destroy(ctx);
    return NULL;
}

static void try_thread(trier *t, const known *k)
{
    pthread_t thread;
    errand e = {t, k};
    if (!pthread_create(&thread, NULL, in_thread, &e))
        pthread_join(thread, NULL);
}

/* ---- all ---- */

static int remember(trier *t, const base *b, known *k)
{
    *k = (known){.b = b, .p = kinds_problem(t, &b->c, b->type, (uint64_t)t->ck->s.seed)};
    if (k->p && !kinds_run(t, t->ck->ctx, k->p))
        k->bits = bits_copy(k->p);
    if (k->bits)
        return 1;
    problem_free(k->p);
    return 0;
}

void kind_state(trier *t)
{
    known k[MOST];
    int n = 0;
    for (int type = 0; type < DATA_TYPES; type++) {
        const base *from[MOST / 3];
        const int count = bases_of(t, data_types[type], from, MOST / 3);
        for (int i = 0; i < count; i++)
            n += remember(t, from[i], &k[n]);
    }
    if (n)
        try_orders(t, k, n);
    for (int i = 0; i < n; i += 2) {
        try_values(t, &k[i]);
        try_often(t, &k[i]);
        problem_leave(k[i].p);
        try_context(t, &k[i]);
        try_thread(t, &k[i]);
    }
    for (int i = 0; i < n; i++) {
        free(k[i].bits);
        problem_free(k[i].p);
    }
}
