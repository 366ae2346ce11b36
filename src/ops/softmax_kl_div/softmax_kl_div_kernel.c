/* softmax_kl_div on the CPU: a row's largest logit, the sums relative to it, and then loss and
 * gradient. The row is read once for each of them; the second and third time it comes from the
 * cache. Pieces of it are worked on as f32, whatever the types are. */
#include <math.h>

#include "rows/exponentials.h"
#include "runs.h"
#include "softmax_kl_div_cpu.h"

enum { PIECE_FLOATS = RUN_FLOATS(EXPS_BLOCK) };

static const char *read_run(el e, const char *row, int64_t begin, int64_t n, float **scratch)
{
    return run_read(e, row + begin * el_size(e), n, scratch);
}

SIMD_INLINE vf distance(const skl_row *r, vf x, float max)
{
    return (x - v_set(max)) * v_set(r->degree);
}

/* ---- sums ---- */

SIMD_INLINE void sum_piece(el e, const skl_row *r, const char *x, const char *target, int64_t n,
                           skl_sums *s)
{
    const vf zero = {0};
    vf others = zero, rest = zero;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        others += v_exp_nonpositive(distance(r, v_load(e, x, i), s->max));
        rest += v_load(e, target, i);
    }
    if (i < n) {
        const vf p = v_exp_nonpositive(distance(r, v_load_n(e, x, i, n - i, 0), s->max));
        others += v_select(v_first(n - i), p, zero);
        rest += v_load_n(e, target, i, n - i, 0);
    }
    s->others += v_sum(others);
    s->rest += v_sum(rest);
}

void skl_sum_row(const skl_row *r, skl_sums *s)
{
    float scratch[2 * PIECE_FLOATS];
    *s = (skl_sums){.best = exps_largest(r->type, r->x, r->n)};
    s->max = el_get(r->type, r->x, s->best);
    s->of_best = el_get(r->target_type, r->target, s->best);
    s->others = (double)s->max - s->max; /* NaN where there is no finite largest */
    for (int64_t begin = exps_first(s->best), end; begin < r->n; begin = exps_next(end, s->best)) {
        end = exps_end(begin, s->best, r->n);
        const int64_t n = end - begin, size = el_size(r->type);
        float *at = scratch;
        if (r->type == r->target_type) {
            EL_SPECIALIZE(r->type, sum_piece, r, r->x + begin * size, r->target + begin * size, n,
                          s);
            continue;
        }
        const char *x = read_run(r->type, r->x, begin, n, &at);
        sum_piece(EL_F32, r, x, read_run(r->target_type, r->target, begin, n, &at), n, s);
    }
}

/* ---- loss and gradient ---- */

/* What is the same for all classes. */
typedef struct constants {
    vf max, degree, log_sum, eps;
    vf p, scale, floor; /* p: what an exponential counts in the gradient */
} constants;

/* A piece of a row, and the same of the next one, which is asked for where it is not NULL. */
typedef struct skl_piece {
    const char *x, *target;
    int64_t n;
    char *out;
    const char *next_x, *next_target;
} skl_piece;

/* Classes [i, i + n) of a piece, n at most VL: their losses. losses, gradient: constants, what is
 * wanted; stream: one, the gradient goes past the cache. */
SIMD_INLINE vf finish_part(el e, int losses, int gradient, int stream, const constants *c,
                           const char *x, const char *target, int64_t i, int64_t n, char *out)
{
    const vf zero = {0};
    const vf logit = n == VL ? v_load(e, x, i) : v_load_n(e, x, i, n, 0);
    const vf t = n == VL ? v_load(e, target, i) : v_load_n(e, target, i, n, 0);
    const vf d = (logit - c->max) * c->degree;
    if (gradient) {
        const vf of_t = v_exp_nonpositive(d) * c->p - t * c->scale;
        const vf dx = v_select(v_abs(of_t) < c->floor, zero, of_t);
        if (n == VL && stream)
            v_stream(e, out, i, dx);
        else if (n == VL)
            v_store(e, out, i, dx);
        else
            v_store_n(e, out, i, n, dx);
    }
    if (!losses)
        return zero;
    const vf term = t * (v_log(v_max(c->eps, t)) - (d - c->log_sum));
    return v_select(t == zero, zero, term);
}

SIMD_INLINE float finish_piece(el e, int losses, int gradient, int stream, const constants *c,
                               const skl_piece *p)
{
    const constants copy = *c; /* out of reach of what is written */
    const skl_piece at = *p;
    vf loss = {0};
    int64_t i = 0;
    for (; i + VL <= at.n; i += VL) {
        loss += finish_part(e, losses, gradient, stream, &copy, at.x, at.target, i, VL, at.out);
        if (at.next_x && i * el_size(e) % 64 == 0) {
            v_prefetch(at.next_x + i * el_size(e));
            v_prefetch(at.next_target + i * el_size(e));
        }
    }
    if (i < at.n)
        loss += finish_part(e, losses, gradient, 0, &copy, at.x, at.target, i, at.n - i, at.out);
    return losses ? v_sum(loss) : 0;
}

/* All of one type. */
SIMD_INLINE void finish_typed(el e, const skl_gradient *g, const constants *c, const skl_piece *p,
                              double *loss)
{
    if (!p->out)
        *loss += finish_piece(e, 1, 0, 0, c, p);
    else if (g->losses && g->stream)
        *loss += finish_piece(e, 1, 1, 1, c, p);
    else if (g->losses)
        *loss += finish_piece(e, 1, 1, 0, c, p);
    else if (g->stream)
        *loss += finish_piece(e, 0, 1, 1, c, p);
    else
        *loss += finish_piece(e, 0, 1, 0, c, p);
}

double skl_finish_row(const skl_row *r, const skl_sums *s, const skl_gradient *g)
{
    float scratch[3 * PIECE_FLOATS];
    const double p = 1 / (1 + s->others), doubt = s->others * p;
    const constants c = {.max = v_set(s->max),
                         .degree = v_set(r->degree),
                         .log_sum = v_set((float)log1p(s->others)),
                         .eps = v_set(r->eps),
                         .p = v_set((float)(p * (s->rest + s->of_best) * g->scale)),
                         .scale = v_set((float)g->scale),
                         .floor = v_set(g->floor)};
    const int same = r->type == r->target_type && (!g->out || g->type == r->type);
    const int64_t size = el_size(r->type);
    double loss = 0;
    for (int64_t begin = 0; begin < r->n; begin += EXPS_BLOCK) {
        const int64_t n = r->n - begin < EXPS_BLOCK ? r->n - begin : EXPS_BLOCK;
        float *at = scratch;
        char *place = g->out ? g->out + begin * el_size(g->type) : NULL;
        if (same) {
            const skl_piece piece = {r->x + begin * size,
                                     r->target + begin * size,
                                     n,
                                     place,
                                     r->next_x ? r->next_x + begin * size : NULL,
                                     r->next_x ? r->next_target + begin * size : NULL};
            EL_SPECIALIZE(r->type, finish_typed, g, &c, &piece, &loss);
            continue;
        }
        const char *x = read_run(r->type, r->x, begin, n, &at);
        const char *target = read_run(r->target_type, r->target, begin, n, &at);
        char *out = run_place(g->type, place, n, &at);
        finish_typed(EL_F32, g, &c, &(skl_piece){x, target, n, out, NULL, NULL}, &loss);
        if (out)
            run_write(g->type, out, place, n);
    }
    if (g->out) /* no difference of numbers near each other */
        el_set(g->type, g->out, s->best, (float)((s->rest * p - s->of_best * doubt) * g->scale));
    return loss;
}
