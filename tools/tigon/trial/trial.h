/* tools/tigon/trial/trial.h - one implementation with one problem: the truth that its results are
 * compared with, and what is asked of it. docs/numerics.md argues the tolerances. */
#ifndef TIGON_TRIAL_H
#define TIGON_TRIAL_H

#include <math.h>

#include "problem/problem.h"

enum { CHECK_GUARD = 256, CHECK_WHY = 768, NO_SWEEP = -1 };

typedef struct check_settings {
    int64_t seed, threads;
    int64_t
        sweep; /* cases of drawn sizes for each operator, instead of the family's; or NO_SWEEP */
    int quick, strict, verbose;
    int batch_invariant; /* parts of a batch beside the whole, instead of the truth */
} check_settings;

/* What became of one implementation with one problem. */
typedef enum verdict { PASSED, FAILED, SKIPPED } verdict;

typedef struct outcome {
    verdict verdict;
    int refused; /* SKIPPED because the implementation does not take the problem */
    int reduced; /* what ran is less than the case: see check_reduce */
    uint32_t
        compared; /* outputs whose values were compared: a bit for each tensor of the operator */
    double error, tolerance; /* of the element that came closest to its tolerance, or beyond */
    char why[CHECK_WHY];     /* for FAILED and SKIPPED */
} outcome;

/* ---- truth: what a problem's outputs should be, and how far off they may be ---- */

typedef struct truth_output {
    int64_t n, cols;
    double *value;     /* ref's, in f64 */
    double *flushed;   /* the same with subnormal inputs of bf16 as 0; NULL: not allowed */
    double *condition; /* change of the output when inputs move by an f32 rounding */
    double *inside;    /* the same for a rounding to T; 0 until truth_bound_of needs it */
    double *own; /* change of an unfused implementation's result then; NULL until it is needed */
    double roundings, inside_roundings, magnitude, cancelled, coarse; /* of pb_decl */
    /* largest error of the unfused implementation, for each implementation; NULL: not measured */
    double *yard;
    int yard_state; /* 0: not tried, 1: there, -1: no unfused implementation runs this problem */
} truth_output;

typedef struct truth {
    tg_ctx *ctx;
    problem *wide; /* the problem in f64 */
    int type;      /* T of the problem */
    uint64_t seed;
    int64_t length;            /* longest sum */
    double most;               /* the largest of the inputs, 1 at least */
    double underflow;          /* what subnormal intermediates may cost */
    int draws, inside_draws;   /* perturbations so far for `condition`, and for `inside` */
    int drawn_more;            /* by truth_measure_more() */
    truth_output out[PB_ARGS]; /* as op->tensor; n = 0 and value NULL for inputs */
} truth;

truth *truth_create(tg_ctx *ctx, const problem *p, uint64_t seed, char *error);
void truth_free(truth *t);
/* Coefficients of an output's tolerances. LOOSE: for an unfused implementation in 16 bits, which
 * rounds every step; CUT: for one whose sums of products are cut off rather than rounded; COARSE:
 * for one that has probabilities as powers of logarithms that are rounded to f32. 0, or -1 with the
 * error. */
enum { TRUTH_LOOSE = 1, TRUTH_CUT = 2, TRUTH_COARSE = 4 };
typedef struct truth_bound {
    double value, condition, inside, fixed;
} truth_bound;
int truth_bound_of(truth *t, int output, int type, unsigned how, truth_bound *b, char *error);
/* CUT and COARSE as the device has it that the implementation works on in that context. */
unsigned truth_how(const truth *t, const tg_ctx *ctx, int impl);
/* How far element i may be off. */
static inline double truth_tolerance(const truth_output *o, const truth_bound *b, int64_t i)
{
    return b->fixed + b->value * fabs(o->value[i]) + b->condition * o->condition[i] +
           b->inside * o->inside[i];
}
/* Measures `inside` of all outputs, with a part of the draws where that may do, or with all; with
 * more of them it only grows. 0, or -1 with the error. */
int truth_measure_inside(truth *t, int all, char *error);
/* Measures `condition`, and `inside` where it was measured, with many more draws, once. 0, or -1
 * with the error. */
int truth_measure_more(truth *t, char *error);
/* For an unfused implementation, whose formula may be less stable than the definition: the
 * tolerance with what its own results move by when inputs, and what each of its steps computes,
 * move by an f32 rounding. Negative if that can't be measured. */
double truth_own_tolerance(truth *t, int impl, int output, const truth_bound *b, int64_t i);
/* Twice the error of the unfused implementation on the same problem plus the roundings; negative
 * if there is none. */
double truth_yardstick(truth *t, int output, int64_t i, int type);
/* 1 if an integer output may be `found`: a perturbation as small as the arithmetic's own errors
 * makes ref choose it. */
int truth_may_be(truth *t, int output, int64_t i, double found);

/* The elements of a tensor of a problem in f64, which are compact. */
static inline double *f64_data(const pb_tensor *t)
{
    return (double *)((char *)t->view.data + t->view.byte_offset);
}

/* Unit roundoff and largest finite value of a type. */
double type_unit(int type);
double type_largest(int type);

/* ---- runs ---- */

/* Runs `ref` of the problem's operator; for a backward whose implementation is
 * missing, an error. */
int run_ref(tg_ctx *ctx, const problem *p, char *error);
/* 1 if the call is legal and the implementation runs it; the problem is then as
 * before its first call. */
int check_runs(tg_ctx *ctx, int impl, problem *p);
/* Everything that is asked of one implementation with one problem. */
outcome check_impl(tg_ctx *ctx, int impl, problem *p, truth *t, const check_settings *s);

/* What a call has left in the problem's buffers: outputs against the truth, and
 * everything else untouched. */
outcome check_written(tg_ctx *ctx, int impl, problem *p, truth *t);

/* "y[2,5]" */
void element_name(const pb_tensor *t, int64_t i, char *text, size_t size);

/* ---- the bytes of a problem's buffers: bits.c ---- */

/* A copy, to be freed; NULL if memory is short. */
unsigned char *bits_copy(const problem *p);
/* Number of the first byte that differs, or -1. */
int64_t bits_differ(const problem *p, const unsigned char *bits);
/* The first tensor that has other bytes than those: its name. */
const char *bits_tensor(const problem *p, const unsigned char *bits);

/* ---- random numbers: the same on every machine ---- */

/* The next one of a sequence. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
/* One of a key, in any order. */
static inline uint64_t random_of(uint64_t key)
{
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
    return key ^ key >> 33;
}

/* ---- cases ---- */

/* The problem without values, for questions about its shapes; NULL with the error. */
problem *check_shapes(const catalogue *cat, const pb_op *op, const pb_case *c, int type,
                      char *error);
/* 1 if there is a problem, and the operator's check takes it. */
int check_takes(const problem *p);

/* One of the operator's cases with sizes and strides drawn anew, legal: the same for the
 * same seed and index. elements: most of a tensor, but for single wide implementations. 0,
 * or -1 with the error. */
enum { CHECK_ELEMENTS = 1 << 15 };
/* Tensors of a problem that --quick runs. */
enum { QUICK_BYTES = 1 << 18 };
int check_draw(const catalogue *cat, const pb_op *op, uint64_t seed, int64_t index,
               int64_t elements, pb_case *c, char *error);

/* 1 if the case makes a problem that the operator's check takes. */
int check_is_legal(const catalogue *cat, const pb_op *op, const pb_case *c, char *error);
/* 1 if the dimension is the last one of a tensor that has several. */
int check_is_width(const pb_op *op, const char *dimension);

/* s->sweep cases of the operator with their sizes drawn anew, each handed to fn. 0, or
 * -1 with the error. */
typedef void (*check_case_fn)(void *arg, const pb_case *c);
int check_sweep(const catalogue *cat, const pb_op *op, const check_settings *s, check_case_fn fn,
                void *arg, char *error);

#endif
