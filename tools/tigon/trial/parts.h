/* tools/tigon/trial/parts.h - one implementation with one problem, while it is checked. */
#ifndef TIGON_TRIAL_PARTS_H
#define TIGON_TRIAL_PARTS_H

#include "trial.h"

typedef struct trial {
    tg_ctx *ctx;
    const tg_impl_info *impl;
    int number; /* of the implementation */
    problem *p;
    truth *t;
    int unfused, loose; /* loose: each step of the implementation rounds to 16 bits */
    unsigned how;       /* TRUTH_ ...: which tolerance it is given */
    int drawn;          /* the case is one of a sweep */
    int exempt;         /* values are not compared: the textbook's formula cancels here */
    outcome *o;
    double worst; /* error as a part of the tolerance */
} trial;

/* ---- perturb.c ---- */

/* In a case flagged `shifted`: the tensor's rows count from their largest element. */
int truth_is_shifted(const problem *p, const pb_tensor *t);
/* Resets the problem and moves every input element by 0.5 to 1.5 roundings, up or down. */
void truth_perturb(problem *wide, double unit, uint64_t key);
/* An element counts with at least its row's typical change. */
void truth_smooth(const truth_output *o, double *change);

/* ---- compare.c ---- */

/* Records why the implementation fails; returns -1. */
int trial_fail(trial *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All outputs against the truth; 0, or -1 after trial_fail. */
int trial_compare(trial *r);
/* Every byte outside the outputs must be what it was before the call. */
int trial_untouched(trial *r);
/* The same for all bytes: an implementation that passes the call on has written nothing. */
int trial_unwritten(trial *r);

#endif
