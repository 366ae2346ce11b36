/* sparsemax on the CPU: forward. No sort, and one read from memory.
 *
 * tau lies between max - 1 and max, so only elements less than 1 below the maximum matter: few,
 * mostly. One pass finds the maximum and keeps such elements in a list; Newton's iteration for
 *     f(tau) = sum(max(x - tau, 0)) - 1,   tau += f(tau) / #{x > tau}
 * runs on those. f is convex, falling and piecewise linear: from below, tau only grows, elements
 * only leave, and when none does, tau is exact. A second pass over the row writes max(x - tau, 0).
 * Where the list would outgrow its room, as a very long row of nearly equal numbers makes it, the
 * steps run on the row itself.
 */
#include "sparsemax_cpu.h"

/* BLOCK: pairs that are looked at twice before the next ones. ROOM: elements that a worker's list
 * holds at most, 1 MiB. */
enum { BLOCK = 16, ROOM = 1 << 18 };

/* What may lie above tau: pairs in which some lane does (apart = 1), elements side by side (apart =
 * 0, until scan() fills them up to pairs). */
typedef struct search {
    vf2 max;
    float *list;
    int64_t count, room; /* room: pairs */
} search;

/* 1 if `pairs` more fit the list; there is one more than its room. */
SIMD_INLINE int fits(int apart, const search *s, int64_t pairs)
{
    return (apart ? s->count + pairs : s->count + pairs * V_PAIR) <=
           (apart ? s->room : s->room * V_PAIR);
}

SIMD_INLINE void keep(int apart, search *s, vf2 x)
{
    const vf2 d = {x.a - s->max.a, x.b - s->max.b};
    if (apart) {
        v_put2(s->list + s->count * V_PAIR, x);
        s->count += v_any(is_above(d.a, -1.0f) | is_above(d.b, -1.0f));
    } else {
        s->count += v_squeeze_above(s->list + s->count, d.a, v_set(-1.0f), x.a);
        s->count += v_squeeze_above(s->list + s->count, d.b, v_set(-1.0f), x.b);
    }
}

/* Block by block: the maximum so far, then what is less than 1 below it. 1 if all of that is
 * listed. The next row of 16-bit numbers is asked for here, where the arithmetic is; of f32 where y
 * is written. */
SIMD_INLINE int scan(el e, int apart, search *s, const char *x, const char *next, int64_t step,
                     panel p)
{
    const vf lowest = v_set(-INFINITY);
    int listed = 1;
    for (int64_t begin = 0; begin < p.count; begin += BLOCK) {
        const int64_t end = begin + BLOCK < p.count ? begin + BLOCK : p.count;
        for (int64_t i = begin; i < end; i++) {
            const vf2 v = load_pair(e, x + i * step, lanes_at(apart, p, i), -INFINITY);
            if (apart)
                __builtin_prefetch(x + (i + BLOCK) * step);
            else if (e == EL_F32)
                v_ahead2(e, x + i * step, 0);
            else
                prefetch_pair(e, next + i * step);
            s->max = (vf2){v_max(v.a, s->max.a), v_max(v.b, s->max.b)};
        }
        if (!apart)
            s->max.a = s->max.b = v_set(v_hmax(v_max(s->max.a, s->max.b)));
        listed = listed && fits(apart, s, end - begin);
        if (!listed)
            continue;
        for (int64_t i = begin; i < end; i++)
            keep(apart, s, load_pair(e, x + i * step, lanes_at(apart, p, i), -INFINITY));
    }
    if (!apart) {
        v_put2(s->list + s->count, (vf2){lowest, lowest});
        s->count = (s->count + V_PAIR - 1) / V_PAIR;
    }
    return listed;
}

/* Where Newton's steps find the pairs: in the list, which they shorten, or in the row. */
typedef struct pairs {
    const char *x;
    int64_t step;
    panel p;
} pairs;

/* What lies above tau: its sum, and how many it is. */
typedef struct excess {
    vf2 sum;
    vi a, b;
} excess;

/* Sums of SUM pairs are added up: of many equal terms one long sum would be off, each
 * time by the same. */
SIMD_INLINE excess excess_of(el e, int apart, int listed, search *s, const pairs *row, vf2 base,
                             vf2 tau)
{
    enum { SUM = 64 };
    vf2 sum = {{0}, {0}};
    vi a = {0}, b = {0};
    int64_t kept = 0, i = 0;
    while (i < s->count) {
        const int64_t end = i + SUM < s->count ? i + SUM : s->count;
        vf2 part = {{0}, {0}};
        for (; i < end; i++) {
            const vf2 x = listed ? v_get2(s->list + i * V_PAIR)
                                 : load_pair(e, row->x + i * row->step, lanes_at(apart, row->p, i),
                                             -INFINITY);
            const vf2 d = {x.a - base.a - tau.a, x.b - base.b - tau.b};
            const vi above_a = is_above(d.a, 0.0f), above_b = is_above(d.b, 0.0f);
            part.a += v_max(v_set(0.0f), d.a);
            part.b += v_max(v_set(0.0f), d.b);
            a -= above_a;
            b -= above_b;
            if (!listed)
                continue;
            v_put2(s->list + kept * V_PAIR, x);
            kept += v_any(above_a | above_b);
        }
        sum = (vf2){sum.a + part.a, sum.b + part.b};
    }
    s->count = listed ? kept : s->count;
    return (excess){sum, a, b};
}

/* Newton's iteration from a tau that is too small: sum(max((x - base) - tau, 0)) = 1. */
SIMD_INLINE vf2 newton(el e, int apart, int listed, search *s, const pairs *row, vf2 base, vf2 tau)
{
    s->count = listed ? s->count : row->p.count;
    vf2 before = {v_set(INFINITY), v_set(INFINITY)};
    for (;;) {
        const excess all = excess_of(e, apart, listed, s, row, base, tau);
        vf2 sum = all.sum;
        vf2 above = {__builtin_convertvector(all.a, vf), __builtin_convertvector(all.b, vf)};
        if (!apart) {
            sum.a = sum.b = v_set(v_sum(sum.a + sum.b));
            above.a = above.b = v_set(v_sum(above.a + above.b));
        }
        const vf2 next = {tau.a + (sum.a - 1.0f) / above.a, tau.b + (sum.b - 1.0f) / above.b};
        if (!v_any((above.a < before.a) | (above.b < before.b)))
            return next;
        before = above;
        /* rounding must not bring back what has left */
        tau = (vf2){v_max(tau.a, next.a), v_max(tau.b, next.b)};
    }
}

/* max + tau, less what rounding can have added to it */
SIMD_INLINE vf below(vf max, vf tau)
{
    const vf sum = max + tau;
    return sum - (v_abs(sum) + v_abs(tau)) * v_set(0x1p-22f);
}

/* Beyond FAR that is no longer next to max + tau; but there differences to the maximum itself are
 * exact. So `base` is either, and `tau` where to begin relative to it. */
#define FAR 0x1p12f

SIMD_INLINE void second_start(vf max, vf *base, vf *tau)
{
    const vi far = v_abs(max) > v_set(FAR);
    const vf zero = v_set(0.0f);
    *base = v_select(far, max, below(max, *tau));
    *tau = v_select(far, below(zero, *tau), zero);
}

/* Newton's iteration from max - 1, relative to max first, where tau is in [-1, 0); then relative to
 * that tau, so that neither a large maximum nor a large tau costs digits. */
SIMD_INLINE vf2 find_tau(el e, int apart, int listed, search *s, const pairs *row, vf2 *base)
{
    const vf2 start = {v_set(-1.0f), v_set(-1.0f)};
    vf2 tau = newton(e, apart, listed, s, row, s->max, start);
    second_start(s->max.a, &base->a, &tau.a);
    second_start(s->max.b, &base->b, &tau.b);
    return newton(e, apart, listed, s, row, *base, tau);
}

/* The steps on the list know no type of x: a function for each way of lying, not for each type
 * and way of writing. */
static vf2 tau_in_list(search *s, vf2 *base)
{
    return find_tau(EL_F32, 0, 1, s, NULL, base);
}

static vf2 tau_in_list_apart(search *s, vf2 *base)
{
    return find_tau(EL_F32, 1, 1, s, NULL, base);
}

SIMD_INLINE void forward_panel(el e, int apart, int stream, const job *j, panel p, int64_t at,
                               int64_t next, int worker)
{
    const char *x = panel_at(e, j, &j->from, at), *x_next = panel_at(e, j, &j->from, next);
    char *y = panel_at(e, j, &j->to, at);
    const int64_t x_step = step_of(e, apart, &j->from), y_step = step_of(e, apart, &j->to);
    float *scratch = j->scratch + worker * j->scratch_size;
    /* a lane without a row: its -inf must not be a maximum */
    const vi live_a = v_first(apart ? p.lanes : VL);
    const vi live_b = v_first(apart ? (p.lanes < VL ? 0 : p.lanes - VL) : VL);
    const vf lowest = v_set(-INFINITY), zero = v_set(0.0f);
    search s = {
        {v_select(live_a, lowest, zero), v_select(live_b, lowest, zero)}, scratch, 0, j->room};
    const pairs row = {x, x_step, p};
    vf2 base, tau;
    if (!scan(e, apart, &s, x, x_next, x_step, p))
        tau = find_tau(e, apart, 0, &s, &row, &base);
    else
        tau = apart ? tau_in_list_apart(&s, &base) : tau_in_list(&s, &base);
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t lanes = lanes_at(apart, p, i);
        const vf2 v = load_pair(e, x + i * x_step, lanes, 0.0f);
        if (!apart && e == EL_F32)
            prefetch_pair(e, x_next + i * x_step);
        store_pair(e, stream, y + i * y_step, lanes,
                   (vf2){v_max(zero, v.a - base.a - tau.a), v_max(zero, v.b - base.b - tau.b)});
    }
}

SIMD_INLINE void forward_panels(el e, int stream, const job *j, int64_t begin, int64_t end,
                                int worker)
{
    visit_panels(e, stream, forward_panel, j, begin, end, worker);
}

ROWS_CHUNK(forward_chunk, job, forward_panels);

static tg_status forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    const tg_cut x = tg_cut_of(args->x, args->dim), y = tg_cut_of(args->y, args->dim);
    job j = job_of(&x, NULL, &y);
    if (j.panels == 0)
        return TG_OK;
    /* one pair more, which is written before it is dropped */
    j.room = j.apart ? j.n : (j.n + V_PAIR - 1) / V_PAIR;
    j.room = j.room < ROOM / V_PAIR ? j.room : ROOM / V_PAIR;
    j.scratch_size = (j.room + 1) * V_PAIR;
    j.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * j.scratch_size) * sizeof(float));
    if (!j.scratch)
        return TG_ENOMEM;
    run_panels(ctx, &j, forward_chunk);
    return TG_OK;
}

TG_CPU_IMPLS(sparsemax) = {TG_CPU_IMPL(sparsemax_forward, forward), TG_IMPLS_END};
