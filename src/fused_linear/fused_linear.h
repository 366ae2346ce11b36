/* src/fused_linear/fused_linear.h - what compositions over the logits of a linear layer share:
 * their rows go in chunks, so that the logits of one chunk alone exist at a time, and what the
 * chunks leave is added up. Calls of operators alone, on any device. */
#ifndef TG_FUSED_LINEAR_H
#define TG_FUSED_LINEAR_H

#include "core/view.h"

typedef struct fused_linear {
    tg_ctx *ctx;
    const tg_tensor *x, *weight; /* logits = x weight^T */
    tg_tensor *dx, *dweight;     /* NULL: not asked for */
    int64_t accumulate;          /* dweight is added to */
    const tg_tensor *dloss; /* upstream gradient, NULL: 1; fused_linear_begin() may replace it */
    int gradients;          /* any is asked for, and so that of the logits */
    int logits;             /* matrices of them: one, or a teacher's as well */
    int results;   /* numbers that the call is asked for: each is the sum of those of the parts */
    double scale;  /* of the logits' gradient; what it is multiplied with is divided by it */
    int64_t split; /* parts that the loss of a chunk goes in where it runs beside products */
    /* set by fused_linear_begin() */
    tg_rows rows_of_x;
    int64_t classes;
    int64_t rows, count; /* of a chunk, the last may have fewer; of chunks: one even without rows */
    int beside;          /* losses run beside products: two chunks are in memory */
    int64_t part_rows,
        parts;         /* the loss is computed, and summed up, in parts of a chunk; of all parts */
    char *memory;      /* of a chunk's logits and their gradient, or of two chunks' */
    int64_t set_bytes; /* of one chunk */
    int64_t logits_bytes;   /* of one matrix of them */
    int64_t dlogits_at;     /* in a chunk's memory; 0: over the logits */
    float *results_of_part; /* [results, parts] */
    /* set by fused_linear_begin() if it replaces dloss: what gradients are multiplied with when
     * they are complete, and dx of a chunk before that */
    const tg_tensor *factor;
    float *dx32;
    view size, level; /* of dloss: its root mean square, and what is left without it */
    /* set by fused_linear_begin() if dweight is of 16 bits and there are several chunks, or if
     * there is a factor */
    float *sum_weight;
} fused_linear;

/* What both directions of such a composition begin with; f: its arguments. */
#define FUSED_LINEAR(f)                                                         \
    .x = (f)->x, .weight = (f)->weight, .dx = (f)->dx, .dweight = (f)->dweight, \
    .accumulate = (f)->accumulate, .dloss = (f)->dloss

/* Cuts the rows into chunks, and reserves the memory of the call but that of its parts.
 *
 * Equal parts of the fewest chunks whose logits, with their gradient, fit so many bytes, 0: as many
 * as suit the device; a row at least. Where losses run beside products there are two chunks at a
 * time, which share the bytes.
 *
 * f16 has so few exponents that gradients of logits must be scaled to meet them. Where dloss lies
 * on a device, whose host cannot see how large it is, it is divided by its root mean square,
 * computed there, by which the complete gradients are then multiplied. Nothing for other types and
 * a dloss of the host. */
tg_status fused_linear_begin(fused_linear *l, int64_t bytes);

/* Rows [first, first + rows) of a chunk, and the memory of their logits. */
typedef struct fused_linear_chunk {
    int64_t first, rows;
    view x, logits, teacher, dlogits; /* teacher: its logits, where there are some */
} fused_linear_chunk;

void fused_linear_chunk_at(const fused_linear *l, fused_linear_chunk *c, int64_t first,
                           int64_t rows);

/* Result `which` of the part that row `first` is in. */
tg_tensor *fused_linear_result(const fused_linear *l, view *v, int which, int64_t first);

/* Memory for the f32 sums of a gradient that is rounded, and multiplied by the factor, once, behind
 * the last chunk; *sums stays NULL where none are needed. */
tg_status fused_linear_sums(const fused_linear *l, const tg_tensor *t, float **sums);

/* What the gradient of the logits of these rows adds to dx and dweight. */
tg_status fused_linear_gradients(const fused_linear *l, const fused_linear_chunk *c);

/* to = the sums that fused_linear_sums() gave, times the factor if there is one, with accumulate
 * added to what it holds. Nothing if one of sums and to is NULL. */
tg_status fused_linear_round(const fused_linear *l, const float *sums, tg_tensor *to,
                             int64_t accumulate);

/* to = result `which` of all parts. */
tg_status fused_linear_add_up(const fused_linear *l, int which, tg_tensor *to);

/* What is done with `rows` rows from `first` on, a chunk, or for the loss a part of one:
 * their logits, the loss and the gradient of the logits, the other gradients. Then what
 * is left to do once. */
typedef struct fused_linear_steps {
    tg_status (*project)(void *state, int64_t first, int64_t rows);
    tg_status (*loss)(void *state, int64_t first, int64_t rows);
    tg_status (*gradients)(void *state, int64_t first, int64_t rows);
    tg_status (*finish)(void *state);
} fused_linear_steps;

/* The steps for every chunk, once even without rows: outputs may have to become zero. Then
 * dweight's sums are rounded, and the rest is finished. All of it twice, first to reserve the
 * memory of its calls (core/parts.h). */
tg_status fused_linear_run(const fused_linear *l, const fused_linear_steps *steps, void *state);

#endif
