/* The gradient of a row from its sums. p = exp(x - lse) comes from the exponentials that the
 * forward pass kept, one factor a block turns them into p; or from the logits again.
 */
#include "cross_entropy_cpu.h"

/* ---- passes over a block ---- */

/* What is less than the smallest normal p, or the smallest normal number, times the upstream
 * gradient `scale`, becomes 0: a sharp softmax has many such elements, and products that follow
 * would be very slow with them. */
static float floor_of(double scale)
{
    return (float)(0x1p-126 * (fabs(scale) > 1 ? fabs(scale) : 1));
}

SIMD_INLINE vf normal(vf d, vf floor)
{
    return v_select(v_abs(d) < floor, v_set(0.0f), d);
}

/* The gradient of a block from its exponentials: (p scale - w bias) slope. */
typedef struct terms {
    const float *p, *weight, *slope; /* weight and slope may be NULL: 1 */
    float scale, bias;
    float floor; /* of floor_of */
} terms;

SIMD_INLINE vf term(int plain, const terms *t, int64_t i, int64_t n)
{
    vf d = v_load(EL_F32, t->p, i) * v_set(t->scale);
    if (plain)
        return normal(d, v_set(t->floor));
    d -= t->weight ? exps_load(EL_F32, t->weight, i, n, 0) * v_set(t->bias) : v_set(t->bias);
    return t->slope ? d * v_load(EL_F32, t->slope, i) : d;
}

/* p and slope may be read up to VL elements past n. */
SIMD_INLINE void grad_body(el e, int plain, int stream, const terms *t, int64_t n, void *out)
{
    int64_t i = 0;
    if (stream) { /* up to the first aligned address */
        const int64_t off = (int64_t)((uintptr_t)out / (uintptr_t)el_size(e) % VL);
        i = off ? VL - off : 0;
        i = i < n ? i : n;
        v_store_n(e, out, 0, i, term(plain, t, 0, n));
    }
    for (; i + VL <= n; i += VL) {
        if (stream)
            v_stream(e, out, i, term(plain, t, i, n));
        else
            v_store(e, out, i, term(plain, t, i, n));
    }
    if (i < n)
        v_store_n(e, out, i, n - i, term(plain, t, i, n));
}

static void grad_block(el e, int stream, const terms *t, int64_t n, void *out)
{
    const int plain = t->bias == 0 && !t->slope;
    if (plain && stream)
        EL_SPECIALIZE(e, grad_body, 1, 1, t, n, out);
    else if (plain)
        EL_SPECIALIZE(e, grad_body, 1, 0, t, n, out);
    else if (stream)
        EL_SPECIALIZE(e, grad_body, 0, 1, t, n, out);
    else
        EL_SPECIALIZE(e, grad_body, 0, 0, t, n, out);
}

/* exp(x - from) scale of any length, |from| up to V_ORIGIN_FAR: the gradient from the logits, where
 * nothing else is asked for. out has the type of x and may be x. */
SIMD_INLINE void direct_body(el e, int stream, const void *x, int64_t n, float from, float scale,
                             float lowest, void *out)
{
    const int64_t ahead = v_distance.exps / el_size(e);
    const v_origin origin = v_origin_at(from);
    const vf s = v_set(scale), floor = v_set(lowest);
    int64_t i = 0;
    if (stream) { /* up to the first aligned address */
        const int64_t off = (int64_t)((uintptr_t)out / (uintptr_t)el_size(e) % VL);
        i = off ? VL - off : 0;
        i = i < n ? i : n;
        v_store_n(e, out, 0, i, normal(s * v_exp_from(exps_load(e, x, 0, n, 0), origin), floor));
    }
    for (; i + VL <= n; i += VL) {
        v_prefetch(ce_at(e, x, i + ahead));
        const vf d = normal(s * v_exp_from(v_load(e, x, i), origin), floor);
        if (stream)
            v_stream(e, out, i, d);
        else
            v_store(e, out, i, d);
    }
    if (i < n)
        v_store_n(e, out, i, n - i,
                  normal(s * v_exp_from(v_load_n(e, x, i, n - i, 0), origin), floor));
}

static void direct(el e, int stream, const void *x, int64_t n, float from, float scale,
                   float lowest, void *out)
{
    if (stream)
        EL_SPECIALIZE(e, direct_body, 1, x, n, from, scale, lowest, out);
    else
        EL_SPECIALIZE(e, direct_body, 0, x, n, from, scale, lowest, out);
}

/* ---- a row ---- */

/* dlogits_i = ((hit + z + bias W) p_i - bias w_i) slope_i, less hit slope_y at the target; W:
 * the sum of all w. */
typedef struct gradient {
    double hit, z, bias;
    double all; /* hit + z + bias W */
} gradient;

/* What an option of 0 takes away stays away, be the upstream gradient infinite. */
static double share(double upstream, double of)
{
    return of != 0 ? upstream * of : 0;
}

static gradient gradient_of(const ce_job *j, int64_t row, double lse, double f)
{
    const double a = j->o.smoothing, e = ce_smooth_share(&j->o, j->n);
    const double w = j->weight ? j->weight[j->target[row]] : 1;
    const double dloss = j->dloss ? j->dloss[j->o.reduction == TG_NONE ? row : 0] : 1;
    const double g = f * j->o.grad_scale * dloss;
    const double smooth = a != 0 ? e * j->c.class_weights * j->c.per_ce : 0;
    const double z = j->o.z != 0 ? 2 * j->o.z * lse * j->c.per_z : 0;
    const double hit = g * (1 - a) * w * j->c.per_ce;
    return (gradient){hit, share(g, z), share(g, e * j->c.per_ce), hit + share(g, smooth + z)};
}

/* From the exponentials that were kept. */
static void write_kept(const ce_job *j, const ce_row *r, const gradient *g, char *dx, int64_t y,
                       const float *scratch)
{
    const double scale = g->all / r->sum;
    for (int64_t begin = exps_first(y), end, s = 0; begin < j->n; begin = exps_next(end, y)) {
        end = exps_end(begin, y, j->n);
        const float from = scratch[j->at.from + s++];
        const double factor = from == r->from ? 1 : exp(exps_origin(exps_point(from)) - r->at);
        const terms t = {scratch + j->at.p + begin,
                         j->weight ? j->weight + begin : NULL,
                         j->o.softcap > 0 ? scratch + j->at.slope + begin : NULL,
                         (float)(scale * factor),
                         (float)g->bias,
                         floor_of(g->all)};
        grad_block(j->dtype, j->stream, &t, end - begin, (char *)ce_at(j->dtype, dx, begin));
    }
}

/* From the logits, one block after the other. */
static void write_blocks(const ce_job *j, const char *x, const ce_row *r, const gradient *g,
                         char *dx, float *scratch)
{
    const float scale = (float)(g->all / r->sum), floor = floor_of(g->all);
    for (int64_t begin = 0; begin < j->n; begin += EXPS_BLOCK) {
        const int64_t n = j->n - begin < EXPS_BLOCK ? j->n - begin : EXPS_BLOCK;
        const void *block = ce_at(j->type, x, begin);
        el e = j->type;
        float *p = scratch + j->at.p, *slope = NULL;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            slope = scratch + j->at.slope;
            ce_cap_block(e, block, n, (float)j->o.softcap, capped, slope);
            block = capped;
            e = EL_F32;
        }
        exps_sum(e, 0, block, n, exps_point(r->from), p);
        const float *w = j->weight ? j->weight + begin : NULL;
        const terms t = {p, w, slope, scale, (float)g->bias, floor};
        grad_block(j->dtype, j->stream, &t, n, (char *)ce_at(j->dtype, dx, begin));
    }
}

/* The same in one pass where p alone is asked for. */
static void write_again(const ce_job *j, const char *x, const ce_row *r, const gradient *g,
                        char *dx, float *scratch)
{
    const double scale = g->all;
    const float from = exps_point(r->from);
    if (g->bias == 0 && j->o.softcap == 0 && j->type == j->dtype && fabsf(from) <= V_ORIGIN_FAR)
        direct(j->type, j->stream, x, j->n, from, (float)(scale / r->sum), floor_of(scale), dx);
    else
        write_blocks(j, x, r, g, dx, scratch);
}

/* The target's element, formed in double and rounded once: W p - w is (W - w) p - w q, which is 0
 * where there is no other class. */
static void set_target(const ce_job *j, const ce_row *r, const gradient *g, char *dx, int64_t y)
{
    const double w = j->weight ? j->weight[y] : 1, others = j->c.class_weights - w;
    const double d = g->z * r->p - g->hit * r->q + g->bias * (others * r->p - w * r->q);
    el_set(j->dtype, dx, y, (float)(d * r->slope));
}

void ce_write_gradient(const ce_job *j, int64_t row, const ce_row *r, double f, char *dx,
                       float *scratch)
{
    const int64_t y = slice_place(j->o.slice, j->target[row], j->n);
    const gradient g = gradient_of(j, row, r->lse, f);
    if (j->keep)
        write_kept(j, r, &g, dx, y, scratch);
    else
        write_again(j, tg_plane_row(&j->logits, row), r, &g, dx, scratch);
    if (y >= 0)
        set_target(j, r, &g, dx, y);
}
