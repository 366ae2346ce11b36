/* softmax_kl_div on the CPU: a row's largest logit, the sums relative to it, and then loss and
 * gradient. The row is read once for each of them; the second and third time it comes from the
 * cache. Pieces of it are worked on as f32, whatever the types are. */
#include <math.h>

#include "rows/exponentials.h"
#include "runs.h"
#include "softmax_kl_div_cpu.h"

enum { PIECE_FLOATS = RUN_FLOATS(EXPS_BLOCK) };

static const float *read_run(el e, const char *row, int64_t begin, int64_t n, float **scratch)
{
    return (const float *)run_read(e, row + begin * el_size(e), n, scratch);
}

SIMD_INLINE vf distance(const skl_row *r, vf x, float max)
{
    return (x - v_set(max)) * v_set(r->degree);
}

/* ---- sums ---- */

SIMD_INLINE void sum_piece(const skl_row *r, const float *x, const float *target, int64_t n,
                           skl_sums *s)
{
    const vf zero = {0};
    vf others = zero, rest = zero;
    for (int64_t i = 0; i < n; i += VL) {
        const vf p = v_exp_nonpositive(distance(r, exps_load(EL_F32, x, i, n, 0), s->max));
        others += v_select(v_first(n - i), p, zero);
        rest += exps_load(EL_F32, target, i, n, 0);
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
        float *at = scratch;
        const float *x = read_run(r->type, r->x, begin, end - begin, &at);
        sum_piece(r, x, read_run(r->target_type, r->target, begin, end - begin, &at), end - begin,
                  s);
    }
}

/* ---- loss and gradient ---- */

/* What is the same for all classes. */
typedef struct constants {
    vf log_sum, factor, all, scale, floor;
} constants;

/* losses, gradient: constants, what is wanted. */
SIMD_INLINE float finish_piece(int losses, int gradient, const skl_row *r, const constants *c,
                               float max, const float *x, const float *target, int64_t n,
                               float *out)
{
    const vf zero = {0};
    vf loss = zero;
    for (int64_t i = 0; i < n; i += VL) {
        const vf d = distance(r, exps_load(EL_F32, x, i, n, 0), max);
        const vf t = exps_load(EL_F32, target, i, n, 0);
        if (losses) {
            const vf term = t * (v_log(v_max(v_set(r->eps), t)) - (d - c->log_sum));
            loss += v_select(t == zero, zero, term);
        }
        if (gradient) {
            const vf of_t = (v_exp_nonpositive(d) * c->factor * c->all - t) * c->scale;
            const vf dx = v_select(v_abs(of_t) < c->floor, zero, of_t);
            if (n - i >= VL)
                v_store(EL_F32, out, i, dx);
            else
                v_store_n(EL_F32, out, i, n - i, dx);
        }
    }
    return v_sum(loss);
}

double skl_finish_row(const skl_row *r, const skl_sums *s, const skl_gradient *g)
{
    float scratch[3 * PIECE_FLOATS];
    const double p = 1 / (1 + s->others), doubt = s->others * p;
    const constants c = {v_set((float)log1p(s->others)), v_set((float)p),
                         v_set((float)(s->rest + s->of_best)), v_set((float)g->scale),
                         v_set(g->floor)};
    double loss = 0;
    for (int64_t begin = 0; begin < r->n; begin += EXPS_BLOCK) {
        const int64_t n = r->n - begin < EXPS_BLOCK ? r->n - begin : EXPS_BLOCK;
        float *at = scratch;
        const float *x = read_run(r->type, r->x, begin, n, &at);
        const float *target = read_run(r->target_type, r->target, begin, n, &at);
        char *place = g->out ? g->out + begin * el_size(g->type) : NULL;
        char *out = run_place(g->type, place, n, &at);
        if (out && !g->losses) {
            finish_piece(0, 1, r, &c, s->max, x, target, n, (float *)out);
            run_write(g->type, out, place, n);
        } else if (out) {
            loss += finish_piece(1, 1, r, &c, s->max, x, target, n, (float *)out);
            run_write(g->type, out, place, n);
        } else {
            loss += finish_piece(1, 0, r, &c, s->max, x, target, n, NULL);
        }
    }
    if (g->out) /* no difference of numbers near each other */
        el_set(g->type, g->out, s->best, (float)((s->rest * p - s->of_best * doubt) * g->scale));
    return loss;
}
