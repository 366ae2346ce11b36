/* One row of softmax_jsd on the CPU, as its kernels share it. */
#ifndef TG_SOFTMAX_JSD_CPU_H
#define TG_SOFTMAX_JSD_CPU_H

#include "rows/level.h"
#include "rows/mixture.h"

#define row_of TG_AT_LEVEL(softmax_jsd_row_of)
#define row_shift TG_AT_LEVEL(softmax_jsd_row_shift)
#define row_shifted TG_AT_LEVEL(softmax_jsd_row_shifted)
#define row_log_sum TG_AT_LEVEL(softmax_jsd_row_log_sum)
#define row_largest TG_AT_LEVEL(softmax_jsd_row_largest)
#define row_terms TG_AT_LEVEL(softmax_jsd_row_terms)
#define run_row TG_AT_LEVEL(softmax_jsd_row)

/* Mixtures, by their weights, and beta 0 and 1. */
typedef enum divergence_kind {
    KIND_EVEN = MIXTURE_EVEN,
    KIND_MODERATE = MIXTURE_MODERATE,
    KIND_MIXTURE = MIXTURE_ANY,
    KIND_FORWARD,
    KIND_REVERSE
} divergence_kind;

static inline int is_mixture(divergence_kind kind)
{
    return kind <= KIND_MIXTURE;
}

typedef struct row_options {
    divergence_kind kind;
    int loss, gradient;     /* asked for */
    el type, gradient_type; /* of the logits, of the gradient */
    mixture_constants mixture;
    float per_degree; /* 1 / temperature */
    double scale;     /* of the gradient */
    double floor;     /* gradients below it, scaled, are 0 */
} row_options;

/* Floats of scratch for a row of n classes: two rows, each of whole cache lines and with room
 * for a last pair of vectors. */
static inline int64_t row_scratch(int64_t n)
{
    return 2 * ((n + VL) / 16 * 16 + 16);
}

/* The rows that are asked for while one is computed, elements of so many bytes; 0: none. */
typedef struct next_rows {
    const char *student, *teacher;
    int64_t bytes;
} next_rows;

/* ---- a row of logits as it is read: softmax_jsd_kernel_row.c ---- */

/* Blocks of rows are taken to f32, without the row's largest logit, padded to whole pairs of
 * vectors by classes without probability, and in the lane order of the type that is written at
 * last. */
typedef struct row {
    el type, order;
    const char *x;
    int64_t n;
    float max, per_degree, lowest;
} row;

enum { BLOCK = 512 }; /* elements that are summed in f32 */

/* The end of the block that begins there, of a row of n elements. */
static inline int64_t block_end(int64_t begin, int64_t n)
{
    return begin + BLOCK < n ? begin + BLOCK : n;
}

static inline int64_t padded(int64_t n)
{
    return (n + V_PAIR - 1) / V_PAIR * V_PAIR;
}

row row_of(const row_options *o, const char *x, int64_t n);
/* Elements [first, end), less the largest, in degrees. */
void row_shift(const row *r, int64_t first, int64_t end, float *to);
/* The same of element i. */
float row_shifted(const row *r, int64_t i);
/* The logarithm of the sum of exponentials. */
double row_log_sum(const row *r);
/* The first element that is the largest; 0 if there is none. */
int64_t row_largest(const row *r);

/* ---- what its classes add up to: softmax_jsd_kernel_terms.c ---- */

/* Probabilities are kept in units, and are 0 or above 2^-126. So neither they nor their products
 * with slopes are subnormal, which many would be in a sharp softmax, and which are slow. */
#define UNIT 0x1p-60

/* By how much the logarithms of sums of exponentials lie above the largest logits, and by how much
 * the teacher's is larger. */
typedef struct log_sums {
    float student, teacher, apart;
} log_sums;

/* Both rows, and where what the gradient is made of is kept: row_term. */
typedef struct row_pair {
    row student, teacher;
    log_sums of;
    float *slopes, *q;
    next_rows next;
} row_pair;

/* Sums over a row, in units: the losses, q, q (slope - middle), and `more`. With the slope of the
 * likeliest class for middle, a confident row keeps the digits of its gradient. */
typedef struct row_sums {
    double loss, q, slope, more;
    float middle, from; /* slopes are given less `from` */
} row_sums;

row_sums row_terms(const row_options *o, const row_pair *p);

/* ---- all of it: softmax_jsd_kernel.c ---- */

/* The row's loss. The gradient of the student's logits may lie over them; it is written where
 * o->gradient says so. */
double run_row(const row_options *o, const char *student, const char *teacher, char *gradient,
               int64_t n, float *scratch, next_rows next);

#endif
