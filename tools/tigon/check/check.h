/* tools/tigon/check/check.h - implementations over all cases and types: trials, and what
 * is counted of them. */
#ifndef TIGON_CHECK_H
#define TIGON_CHECK_H

#include "trial/trial.h"

/* ---- ceilings: each of the processor's levels, as on a processor that has no more ---- */

enum { CEILINGS = 8 };
typedef struct ceilings {
    int n; /* 0: implementations are checked as the context is */
    const char *level[CEILINGS];
    int beyond; /* 1: without a ceiling the process may use more than the highest level has */
} ceilings;

/* The levels of the CPU's implementations up to the context's ceiling. */
void ceilings_find(ceilings *c, tg_ctx *ctx);
/* NULL: back to the ceiling that was asked for. */
void ceilings_set(tg_ctx *ctx, const char *level);
/* What an implementation is checked under: a level's implementation under that level, so that what
 * it calls is of the level, too, but the operator's default implementation as it runs in use, under
 * NULL; a composition, which calls operators alone, under all, the best first; any other
 * implementation, and all without levels, under NULL. Returns how many. */
int ceilings_of(const ceilings *c, const tg_ctx *ctx, int impl, const char **ceiling);
/* The level (without levels: the device) under which no implementation accepts the
 * problem, or NULL. */
const char *ceilings_gap(const ceilings *c, tg_ctx *ctx, problem *p, const int *impls, int nimpls);

/* ---- runs ---- */

/* Finite differences of ref's forward against its gradients. SKIPPED: nothing to differentiate. */
outcome check_gradients(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const pb_case *c,
                        const check_settings *s);

/* The case of p with as few options, optional tensors and layouts taken away as make
 * the implementation take it: 1 and the case in less, or 0 if nothing helps.
 * options: how p was made. */
int check_reduce(tg_ctx *ctx, const catalogue *cat, problem *p, int impl, const pb_options *options,
                 pb_case *less);

/* Cases with bare options, in an aligned and an odd shape of the operator's family; at most max of
 * them. Returns how many. */
enum { CHECK_BARE = 32 };
int check_bare(const catalogue *cat, const pb_op *op, pb_case *into, int max);

/* ---- totals: one line for each implementation and type ---- */

typedef struct tally {
    int impl, type;
    int passed, failed, skipped;
    int reduced, refused; /* of those that ran; of the skipped */
    uint32_t compared;    /* as in outcome */
    double error, tolerance;
} tally;

/* A composite implementation that ran with implementations of a plug-in as its parts. */
enum { MOST_PARTS = 8 };
typedef struct composite {
    int impl, nparts, part[MOST_PARTS]; /* implementations */
    int passed, failed;
} composite;

/* What --strict tries with a plug-in beyond the families' cases (check/kinds). */
typedef enum kind {
    KIND_SIZES,
    KIND_OPTIONS,
    KIND_TYPES,
    KIND_RANGE,
    KIND_ACCURACY,
    KIND_MEMORY,
    KIND_STATE,
    KIND_THREADS,
    KIND_PROCESS,
    KINDS
} kind;
extern const char *const kind_names[KINDS];

typedef struct kinds_line {
    int impl;
    int passed[KINDS], failed[KINDS];
} kinds_line;

typedef struct totals {
    int passed, failed, skipped;
    int n, room;
    tally *line;
    int ncomposites;
    composite *composite;
    int nkinds;
    kinds_line *kinds; /* one an implementation */
} totals;

void totals_add(totals *t, int impl, int type, const outcome *o);
void totals_free(totals *t);
/* What became of an implementation in a type; NULL: nothing so far. */
const tally *totals_line(const totals *t, int impl, int type);
void totals_print(totals *t);
/* For a vendor: implementation by implementation, whether it agrees, and what was compared. */
void totals_print_backend(totals *t, const catalogue *cat, const char *file);
void totals_json(totals *t, const catalogue *cat);

/* ---- coverage: what was compared of an operator, over all implementations of a backend ---- */

/* Whether a case is kept for other devices than this one; "": a plug-in's implementations. */
int coverage_is_kept(const pb_case *c, const char *device);
/* Hands each gap to fn as a sentence: an output that was never compared, though cases that are not
 * kept for other devices have it; a type of which the implementations took no case. */
typedef void (*coverage_fn)(void *arg, const char *gap);
void coverage_gaps(const totals *t, const catalogue *cat, const char *device, coverage_fn fn,
                   void *arg);
/* "y rstd": the operator's outputs with their bit in `which`, or those without it. */
void coverage_outputs(const pb_op *op, uint32_t which, int with, char *text, size_t size);

/* ---- as a part of other commands ---- */

/* The small cases of all implementations of one operator; failures are told on stderr. */
void check_quick(tg_ctx *ctx, const catalogue *cat, int op, totals *sum);

#endif
