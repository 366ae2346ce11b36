/* src/rows/losses.h - losses of two tensors, element by element: a sum, or each element's own, and
 * the gradient of one of the two, in one pass. Compiled once per level.
 *
 * A family gives a SIMD_INLINE loss_kernel, from a vector of each tensor to the losses and their
 * derivatives, and a function that runs it over a part of a row:
 *
 *   static void visit(const loss_job *j, const loss_span *s, double *sum) { loss_visit(kernel,
 *   LOSS_OF_X, (loss_fill){0, 0}, NULL, j, s, sum); } loss_job j;
 *   TG_TRY(loss_begin(ctx, &call, &j));
 *   loss_run(ctx, &j, visit);
 *   loss_finish(&j, loss, scale);
 */
#ifndef TG_ROWS_LOSSES_H
#define TG_ROWS_LOSSES_H

#include "rows/counts.h"
#include "rows/level.h"
#include "rows/pieces.h"
#include "rows/rows.h"

#define loss_begin TG_AT_LEVEL(loss_begin)
#define loss_run TG_AT_LEVEL(loss_run)
#define loss_finish TG_AT_LEVEL(loss_finish)

/* The arguments of either direction, by their places: the gradient `d` is that of x.
 * Forward has a loss. */
typedef struct loss_call {
    const tg_tensor *x, *target; /* x: NULL where the gradient is made of the target alone */
    const tg_tensor *dloss, *d, *loss;
    row_labels labels;
    int64_t reduction;
} loss_call;

typedef struct loss_visitor loss_visitor;

typedef struct loss_job {
    el type;     /* of the kernels: of all tensors, or f32 where they differ */
    el types[3]; /* of x, the target and d */
    int stream;
    int each; /* reduction none: losses and their upstream gradients are the elements' own */
    pieces all;
    operand x, target, d;
    operand dloss, loss; /* of each element, f32; missing otherwise */
    row_labels labels;
    float *scratch; /* where types differ: a piece of each tensor in f32, for each worker */
    double *sums;   /* of items */
    int64_t items;
    double share; /* what the reduction gives to each element */
    /* the gradient of the one loss; 1 where it is missing or each element has its own */
    double upstream;
    float unit;          /* factor of each element's own loss */
    const void *options; /* the family's */
} loss_job;

/* A part of a row. */
typedef struct loss_span {
    const char *x, *target;
    char *d;
    const float *dloss;
    float *loss;
    int64_t n;
} loss_span;

typedef struct loss_term {
    vf loss, d;
} loss_term;

/* g: the upstream gradient of each element; 1 where the reduction has one for all, which is among
 * the constants `by` then */
typedef loss_term (*loss_kernel)(const void *by, vf x, vf target, vf g);

/* Elements whose loss and gradient are 0: what stands past the end of a row. */
typedef struct loss_fill {
    float x, target;
} loss_fill;

/* What a kernel's walk is, in a constant: it reads x, without which only gradients are wanted; its
 * operator has the reduction none. */
enum { LOSS_OF_X = 1, LOSS_OF_EACH = 2 };

/* Elements [begin, end), a vector at a time; the sums of the lanes. */
SIMD_INLINE vf loss_part(el e, int each, int gradient, loss_kernel kernel, int what, loss_fill fill,
                         const void *by, const loss_job *j, const loss_span *s, int64_t begin,
                         int64_t end)
{
    vf sum = v_set(0.0f);
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const vf target = v_load_n(e, s->target, i, n, fill.target);
        const vf x = what & LOSS_OF_X ? v_load_n(e, s->x, i, n, fill.x) : v_set(fill.x);
        const vf g = each && s->dloss ? v_load_n(EL_F32, s->dloss, i, n, 0.0f) : v_set(1.0f);
        const loss_term t = kernel(by, x, target, g);
        if (what & LOSS_OF_X)
            sum += t.loss;
        if (each && s->loss)
            v_store_n(EL_F32, s->loss, i, n, t.loss * v_set(j->unit));
        if (gradient)
            v_store_n(e, s->d, i, n, t.d);
    }
    return sum;
}

/* stream, each, gradient: constants where loops are hot, which then hold nothing that
 * they do not need. */
SIMD_INLINE double loss_piece(el e, int stream, int each, int gradient, loss_kernel kernel,
                              int what, loss_fill fill, const void *by, const loss_job *j,
                              const loss_span *of)
{
    const loss_span here = *of, *s = &here; /* out of reach of what the loop writes */
    const vf one = v_set(1.0f);
    int64_t i = stream ? v_head2(e, s->d, s->n) : 0;
    vf a = loss_part(e, each, gradient, kernel, what, fill, by, j, s, 0, i), b = v_set(0.0f);
    for (; i + V_PAIR <= s->n; i += V_PAIR) {
        vf2 x = {v_set(fill.x), v_set(fill.x)}, g = {one, one};
        if (what & LOSS_OF_X) {
            v_ahead2(e, s->x, i);
            x = v_load2(e, e, s->x, i);
        }
        v_ahead2(e, s->target, i);
        const vf2 target = v_load2(e, e, s->target, i);
        if (each && s->dloss)
            g = v_load2(e, EL_F32, s->dloss, i);
        const loss_term first = kernel(by, x.a, target.a, g.a);
        const loss_term second = kernel(by, x.b, target.b, g.b);
        if (what & LOSS_OF_X) {
            a += first.loss;
            b += second.loss;
        }
        if (each && s->loss) {
            const vf unit = v_set(j->unit);
            v_put2(s->loss + i, v_natural2(e, (vf2){first.loss * unit, second.loss * unit}));
        }
        if (gradient)
            v_write2(e, stream, s->d, i, (vf2){first.d, second.d});
    }
    return v_sum(a + b + loss_part(e, each, gradient, kernel, what, fill, by, j, s, i, s->n));
}

SIMD_INLINE void loss_typed(el e, loss_kernel kernel, int what, loss_fill fill, const void *by,
                            const loss_job *j, const loss_span *s, double *sum)
{
    if (j->stream)
        *sum += loss_piece(e, 1, 0, 1, kernel, what, fill, by, j, s);
    else if (what & LOSS_OF_EACH && j->each)
        *sum += loss_piece(e, 0, 1, s->d != NULL, kernel, what, fill, by, j, s);
    else if (!(what & LOSS_OF_X) || s->d)
        *sum += loss_piece(e, 0, 0, 1, kernel, what, fill, by, j, s);
    else
        *sum += loss_piece(e, 0, 0, 0, kernel, what, fill, by, j, s);
}

/* What a family's function for a part of a row does, with a constant kernel. by:
 * constants of the loops. */
SIMD_INLINE void loss_visit(loss_kernel kernel, int what, loss_fill fill, const void *by,
                            const loss_job *j, const loss_span *s, double *sum)
{
    EL_SPECIALIZE(j->type, loss_typed, kernel, what, fill, by, j, s, sum);
}

typedef void (*loss_visit_fn)(const loss_job *j, const loss_span *s, double *sum);

/* The job of a call, with all memory that it needs. */
tg_status loss_begin(tg_ctx *ctx, const loss_call *c, loss_job *j);
/* One pass over all that counts; what does not becomes 0. */
void loss_run(tg_ctx *ctx, loss_job *j, loss_visit_fn visit);
/* loss, [], becomes the sum over all items times scale. */
void loss_finish(const loss_job *j, const tg_tensor *loss, double scale);

#endif
