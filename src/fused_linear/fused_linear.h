/* src/fused_linear/fused_linear.h - what compositions over the logits of a linear layer share:
 * their rows go in chunks, so that the logits of one chunk alone exist at a time, and what the
 * chunks leave is added up. Calls of operators alone, on any device. */
#ifndef TG_FUSED_LINEAR_H
#define TG_FUSED_LINEAR_H

#include "core/parts.h"
#include "core/view.h"

/* Operators that every such composition calls: for its TG_PARTS_CALLS(). (And rms_norm_forward, but
 * for an upstream gradient of f16 alone.) */
#define FUSED_LINEAR_CALLS "gemm", "sum_rows_forward", "sum_rows_backward"

/* Results that are one number a call: sums of what the parts of chunks give. */
enum { FUSED_LINEAR_RESULTS = 3 };

typedef struct fused_linear {
    tg_ctx *ctx;
    /* logits = logit_scale (x weight^T + bias); bias may be NULL */
    const tg_tensor *x, *weight, *bias;
    const tg_tensor *teacher_x, *teacher_weight; /* of other logits beside them; may be NULL */
    double logit_scale;
    /* f32, of all rows, in the place of memory for a chunk's; or NULL */
    const tg_tensor *logits, *teacher_logits;
    int known;                                /* these have been computed */
    tg_tensor *dx, *dweight, *dbias;          /* NULL: not asked for */
    tg_tensor *results[FUSED_LINEAR_RESULTS]; /* NULL: not asked for, or of each row */
    int64_t accumulate;                       /* dweight and dbias are added to */
    const tg_tensor *dloss; /* upstream gradient, NULL: 1; fused_linear_begin() may replace it */
    double scale;  /* of the logits' gradient; what it is multiplied with is divided by it */
    int64_t split; /* parts that the loss of a chunk goes in where it runs beside products */
    /* set by fused_linear_begin(), as all that follows */
    int type, gradients; /* T; any asked for */
    tg_rows rows_of_x, rows_of_teacher, rows_of_logits, rows_of_teacher_logits;
    int64_t classes;
    int64_t rows, count; /* of a chunk, the last may have fewer; of chunks: one even without rows */
    int beside;          /* losses run beside products: two chunks are in memory */
    int64_t part_rows,
        parts;         /* the loss is computed, and summed up, in parts of a chunk; of all parts */
    char *memory;      /* of a chunk's logits and their gradient, or of two chunks' */
    int64_t set_bytes; /* of one chunk */
    int64_t teacher_at, dlogits_at; /* in it; dlogits_at 0: over the logits */
    float *of_parts;                /* [FUSED_LINEAR_RESULTS, parts] */
    /* what gradients are multiplied with when they are complete, if dloss is replaced, and dx of a
     * chunk before that */
    const tg_tensor *factor;
    float *dx32;
    view size, level; /* of dloss: its root mean square, and what is left without it */
    /* if they are of 16 bits and there are several chunks, or if there is a factor */
    float *sum_weight, *sum_bias;
} fused_linear;

/* What a composition has of these in its own arguments; and of a bias. */
#define FUSED_LINEAR_GIVEN(f)                                                   \
    .x = (f)->x, .weight = (f)->weight, .dx = (f)->dx, .dweight = (f)->dweight, \
    .accumulate = (f)->accumulate, .logits = (f)->logits, .known = (f)->known
#define FUSED_LINEAR_BIAS(f) .bias = (f)->bias, .dbias = (f)->dbias

/* Some rows, all of one chunk. */
typedef struct fused_linear_rows {
    int64_t first, rows;
    view x, logits, dlogits, teacher_x, teacher;
} fused_linear_rows;

/* Cuts the rows into equal chunks, the fewest whose logits, with their gradient, fit so many bytes,
 * 0: as many as suit the device; a row at least. Where losses run beside products there are two
 * chunks at a time, which share the bytes. Then takes all memory of the call but that of its
 * parts.
 *
 * f16 has so few exponents that gradients of logits must be scaled to meet them. Where dloss lies
 * on a device, whose host cannot see how large it is, it is divided by its root mean square,
 * computed there, by which the complete gradients are then multiplied. Nothing for other types and
 * a dloss of the host. */
tg_status fused_linear_begin(fused_linear *l, int64_t chunk_bytes);

/* A scale for f16: the power of two that makes `most` about 2^to; 1 where that says nothing. */
double fused_linear_scale(double most, int to);

/* Such a scale by dloss, a number of each row or one of all: the largest becomes about 2^to. Of n
 * numbers that were divided by their root mean square it is sqrt(n) at most: then those of 1 become
 * 2^to, unless that could be more than 2^14. 1 for other types than f16. */
double fused_linear_scale_of(const fused_linear *l, int to);

/* A number of the part of rows that `which` of the results is the sum of; NULL if it is not asked
 * for. */
tg_tensor *fused_linear_result(const fused_linear *l, const fused_linear_rows *c, int which,
                               view *v);

/* What is left to do with rows of logits: their loss, and, where gradients are asked for, dlogits.
 * The rows are a chunk's, or a part of it. */
typedef tg_status (*fused_linear_loss)(const void *state, fused_linear_rows *c);

/* For every chunk, once even without rows, since outputs may have to become zero: its logits, the
 * loss, and what dlogits adds to the gradients. Then the sums are rounded. All of it twice, first
 * to reserve the memory of its calls (core/parts.h). */
tg_status fused_linear_run(const fused_linear *l, fused_linear_loss loss, const void *state);

#endif
