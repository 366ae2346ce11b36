/* tools/tigon/numerics/numerics.h - what the files of `tigon numerics` share. docs/numerics.md
 * tells how errors are counted, and shows the tables. */
#ifndef TIGON_NUMERICS_H
#define TIGON_NUMERICS_H

#include <stdio.h>

#include "problem/problem.h"

/* How far an output lies off the exact one. */
typedef struct num_error {
    double max_ulp, mean_ulp, max_rel;
    int64_t wrong; /* elements that are NaN or infinite where they should not be, or the reverse */
} num_error;

/* One output of one implementation, with one problem in one type. */
typedef struct num_record {
    const pb_op *op;
    const pb_case *c;
    int type;   /* T of the problem */
    int output; /* number of the tensor in op->tensor */
    int impl;
    num_error error;
    int compared; /* 1: unfused took the problem, too */
    num_error unfused;
} num_record;

/* In the order of operators, problems, types, implementations, outputs. */
typedef struct num_table {
    int n, room;
    num_record *record;
} num_table;

/* ---- measuring ---- */

/* Outputs of ref in f64 for the problem; to be freed with problem_free. NULL with the error. */
problem *num_exact(tg_ctx *ctx, const problem *p, char *error);
/* Runs the implementations and unfused, and appends their records. 0, or -1 with the error. */
int num_measure(tg_ctx *ctx, problem *p, const int *impls, int nimpls, num_table *into,
                char *error);

/* ---- two studies, each of one operator ---- */

/* The gradient of the true class, in bf16, when its probability is p. */
typedef struct num_gradient {
    double p;       /* as the bf16 logits give it */
    double exact;   /* p - 1 */
    double impl;    /* of the implementation that dispatch chooses */
    double unfused; /* elementary steps, in f32 inside */
    double rounded; /* softmax_forward to bf16, then 1 is subtracted */
} num_gradient;

/* Relative error, as a norm, of dweight in bf16 over so many chunks. */
typedef struct num_drift {
    int64_t chunks;
    double once;    /* one call: sums over the chunks in f32, rounded once */
    double each;    /* a call a chunk that adds to a dweight of bf16 */
    double unfused; /* one product over all rows */
} num_drift;

enum { NUM_GRADIENTS = 3, NUM_DRIFTS = 4 };

#define NUM_GRADIENT_OP "cross_entropy_forward"
#define NUM_DRIFT_OP "fused_linear_cross_entropy_forward"

typedef struct num_studies {
    int ngradients, ndrifts; /* 0: not asked for */
    num_gradient gradient[NUM_GRADIENTS];
    num_drift drift[NUM_DRIFTS];
} num_studies;

int num_study_gradient(tg_ctx *ctx, const catalogue *cat, num_studies *into, char *error);
int num_study_drift(tg_ctx *ctx, const catalogue *cat, num_studies *into, char *error);

/* ---- reports ---- */

void num_print(const num_table *t, const num_studies *s);
void num_json(const num_table *t, const num_studies *s);
/* One line an operator and problem: the worst of its outputs, types beside each other. */
void num_markdown_table(FILE *out, const num_table *t);
void num_markdown_gradient(FILE *out, const num_studies *s);
void num_markdown_drift(FILE *out, const num_studies *s);

#endif
