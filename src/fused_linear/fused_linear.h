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
    const tg_tensor *dloss; /* upstream gradient, NULL: 1; fused_linear_upstream() may replace it */
    double scale;  /* of the logits' gradient; what it is multiplied with is divided by it */
    int64_t split; /* parts that the loss of a chunk goes in where it runs beside products */
    /* set by fused_linear_cut() */
    tg_rows rows_of_x;
    int64_t rows, count; /* of a chunk, the last may have fewer; of chunks: one even without rows */
    int beside;          /* losses run beside products: two chunks are in memory */
    int64_t part_rows,
        parts; /* the loss is computed, and summed up, in parts of a chunk; of all parts */
    /* set by fused_linear_upstream() if it replaces dloss: what gradients are multiplied with when
     * they are complete, and dx of a chunk before that */
    const tg_tensor *factor;
    float *dx32;
    view size, level; /* of dloss: its root mean square, and what is left without it */
    /* set by fused_linear_sums(), if dweight is of 16 bits and there are several chunks, or if
     * there is a factor */
    float *sum_weight;
} fused_linear;

/* Equal parts of the fewest chunks whose rows, of row_bytes each, fit so many bytes, 0: as many as
 * suit the device; a row at least. Where losses run beside products there are two chunks at a time,
 * which share the bytes. */
void fused_linear_cut(fused_linear *l, int64_t row_bytes, int64_t bytes);

/* Whose memory the chunk of row `first` has: 0, or of two chunks 0 or 1. */
static inline int fused_linear_set(const fused_linear *l, int64_t first)
{
    return l->beside && first / l->rows % 2;
}

/* The number of the part that row `first` is in. */
static inline int64_t fused_linear_part(const fused_linear *l, int64_t first)
{
    const int64_t of_chunk = (l->rows + l->part_rows - 1) / l->part_rows;
    return first / l->rows * of_chunk + first % l->rows / l->part_rows;
}

/* Bytes of a part of a workspace, so that the next part begins a cache line. */
static inline int64_t fused_linear_lines(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* f16 has so few exponents that gradients of logits must be scaled to meet them. Where dloss lies
 * on a device, whose host cannot see how large it is, it is divided by its root mean square,
 * computed there, by which the complete gradients are then multiplied. Nothing for other types and
 * a dloss of the host. Between fused_linear_cut() and fused_linear_sums(). */
tg_status fused_linear_upstream(fused_linear *l);

/* Memory for the f32 sums of a gradient that is rounded, and multiplied by the factor, once, behind
 * the last chunk; *sums stays NULL where none are needed. */
tg_status fused_linear_sums(const fused_linear *l, const tg_tensor *t, float **sums);

/* What the gradient of the logits of rows from `first` on adds to dx and dweight. x: these rows. */
tg_status fused_linear_gradients(const fused_linear *l, int64_t first, const view *x,
                                 const view *dlogits);

/* to = the sum of `count` f32 tensors of its shape that follow each other where it lies, times the
 * factor if there is one, with accumulate
 * added to what it holds. Nothing if one of parts and to is NULL. */
tg_status fused_linear_add_up(const fused_linear *l, const float *parts, int64_t count,
                              const tg_tensor *factor, tg_tensor *to, int64_t accumulate);

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
