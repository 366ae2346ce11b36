/* The sums of a row of logits, by which its loss and its gradient are told (rows/exponentials.h),
 * with softcap, label smoothing and the likeliest class.
 */
#include "cross_entropy_cpu.h"

/* ---- passes over a block ---- */

/* The first element equal to value, n if there is none. */
SIMD_INLINE void find_body(el e, const void *x, int64_t n, float value, int64_t *result)
{
    int64_t i = 0;
    for (; i < n; i += VL) {
        const vf a = exps_load(e, x, i, n, NAN);
        const vf hit = v_select(a == v_set(value), v_set(1), v_set(0));
        if (v_hmax(hit) == 0)
            continue;
        while (el_get(e, x, i) != value)
            i++;
        break;
    }
    *result = i < n ? i : n;
}

static int64_t find(el e, const void *x, int64_t n, float value)
{
    int64_t r;
    EL_SPECIALIZE(e, find_body, x, n, value, &r);
    return r;
}

/* For label smoothing: sum of w (x - at) and sum of w; w = 1 without weights. A class of weight 0
 * adds nothing, even if its logit is -inf. */
typedef struct smooth_sums {
    float wx, w;
} smooth_sums;

SIMD_INLINE void smooth_body(el e, const void *x, int64_t n, float at, const float *weight,
                             smooth_sums *result)
{
    const vf shift = v_set(at), zero = {0};
    vf wx = {0}, ws = {0};
    for (int64_t i = 0; i < n; i += VL) {
        const vf a = exps_load(e, x, i, n, 0) - shift;
        const vf w =
            weight ? exps_load(EL_F32, weight, i, n, 0) : v_select(v_first(n - i), v_set(1), zero);
        wx += v_select(w != zero, w * a, zero);
        ws += w;
    }
    result->wx = v_sum(wx);
    result->w = v_sum(ws);
}

static smooth_sums smooth_block(el e, const void *x, int64_t n, float at, const float *weight)
{
    smooth_sums r;
    EL_SPECIALIZE(e, smooth_body, x, n, at, weight, &r);
    return r;
}

SIMD_INLINE void cap_body(el e, const void *x, int64_t n, float cap, float *out, float *slope)
{
    const vf c = v_set(cap);
    for (int64_t i = 0; i < n; i += VL) {
        const v_tanhs t = v_tanh_slope(exps_load(e, x, i, n, 0) / c);
        v_store(EL_F32, out, i, c * t.tanh);
        if (slope)
            v_store(EL_F32, slope, i, t.slope);
    }
}

void ce_cap_block(el e, const void *x, int64_t n, float cap, float *out, float *slope)
{
    EL_SPECIALIZE(e, cap_body, x, n, cap, out, slope);
}

/* ---- a row ---- */

/* The target's logit after softcap, and the slope of softcap there. */
static float target_logit(const ce_job *j, const char *x, int64_t y, double *slope)
{
    float capped[VL], slopes[VL];
    *slope = 1;
    if (j->o.softcap == 0)
        return el_get(j->type, x, y);
    ce_cap_block(j->type, ce_at(j->type, x, y), 1, (float)j->o.softcap, capped, slopes);
    *slope = slopes[0];
    return capped[0];
}

static void move_origin(ce_row *r, float from)
{
    const double at = exps_origin(exps_point(from));
    if (r->others != 0)
        r->others *= exp(r->at - at);
    if (r->weights != 0)
        r->wx += r->weights * ((double)exps_point(r->from) - exps_point(from));
    r->from = from;
    r->at = at;
}

static int finds_best(const ce_job *j)
{
    return j->accuracy || j->predicted;
}

static void find_best(ce_row *r, el e, const void *x, int64_t begin, int64_t n, float max)
{
    if (max > r->max || (max == r->max && begin < r->best)) {
        const int64_t found = find(e, x, n, max);
        r->best = found < n ? begin + found : r->best;
        r->max = max;
    }
}

static void add_segment(const ce_job *j, ce_row *r, el e, const void *x, int64_t begin, int64_t n,
                        float *keep)
{
    const int with_max = finds_best(j) && j->o.softcap == 0;
    if (r->from == -INFINITY)
        move_origin(r, fmaxf(r->x_y, exps_max(e, x, n)));
    float from = exps_point(r->from);
    exps_sums part = exps_sum(e, with_max, x, n, from, keep);
    if (part.sum > EXPS_RISE) {
        from = fmaxf(from, exps_max(e, x, n));
        move_origin(r, from);
        part = exps_sum(e, with_max, x, n, from, keep);
    }
    r->others += part.sum;
    if (with_max)
        find_best(r, e, x, begin, n, part.max);
    if (j->o.smoothing != 0) {
        const float at = j->o.slice.all ? 0 : from;
        const smooth_sums s = smooth_block(e, x, n, at, j->weight ? j->weight + begin : NULL);
        r->wx += s.wx;
        r->weights += j->o.slice.all ? 0 : s.w;
    }
}

static void add_target(const ce_job *j, ce_row *r, int64_t y)
{
    const double u = exp(r->x_y - r->at), w = j->weight ? j->weight[y] : 1;
    const double from = exps_point(r->from);
    r->sum = r->others + u;
    if (r->others < 0.01 * u) { /* a confident row: keep the digits of a small loss */
        r->base = log1p(r->others / u);
        r->above = r->x_y - from + r->base;
    } else {
        const double log_sum = log(r->sum);
        r->base = r->at - r->x_y + log_sum;
        r->above = r->at - from + log_sum;
    }
    r->lse = from + r->above;
    r->p = u / r->sum;
    r->q = r->others / r->sum;
    if (w != 0)
        r->wx += w * (j->o.slice.all ? r->x_y : r->x_y - from);
}

void ce_add_row(const ce_job *j, const char *x, int64_t y, float *scratch, ce_row *r)
{
    *r = (ce_row){.from = -INFINITY, .best = y};
    r->x_y = target_logit(j, x, y, &r->slope);
    r->max = el_get(j->type, x, y);
    if (r->x_y != r->x_y) { /* NaN is never the largest */
        r->best = j->n;
        r->max = -INFINITY;
    }
    if (j->n == 1)
        move_origin(r, r->x_y);
    for (int64_t begin = exps_first(y), end, s = 0; begin < j->n; begin = exps_next(end, y)) {
        end = exps_end(begin, y, j->n);
        const void *part = ce_at(j->type, x, begin);
        float *keep = j->keep ? scratch + j->at.p + begin : NULL;
        el e = j->type;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            if (finds_best(j)) /* softcap keeps their order, but not in f32 */
                find_best(r, e, part, begin, end - begin, exps_max(e, part, end - begin));
            ce_cap_block(e, part, end - begin, (float)j->o.softcap, capped,
                         j->keep ? scratch + j->at.slope + begin : NULL);
            part = capped;
            e = EL_F32;
        }
        add_segment(j, r, e, part, begin, end - begin, keep);
        if (j->keep)
            scratch[j->at.from + s++] = r->from;
    }
    if (r->best == j->n)
        r->best = 0; /* nothing but NaN */
    add_target(j, r, y);
}

void ce_row_of_lse(const ce_job *j, const char *x, int64_t y, float lse, float *scratch, ce_row *r)
{
    const double log_p = (double)target_logit(j, x, y, &r->slope) - lse;
    r->p = exp(log_p);
    r->q = -expm1(log_p);
    if (!j->o.slice.all && !exps_trusts_lse(lse, r->p, r->q, j->n)) {
        ce_add_row(j, x, y, scratch, r);
        return;
    }
    r->from = lse;
    r->lse = lse;
    r->at = exps_origin(lse);
    r->sum = exp(lse - r->at);
}
