/* sparsemax of one row, or of a strip of rows beside each other: no sort, and one read from memory.
 *
 * tau lies between max - 1 and max, so only elements less than 1 below the maximum matter: few, mostly.
 * One pass finds the maximum and keeps such elements in a list; Newton's iteration for
 *     f(tau) = sum(max(x - tau, 0)) - 1,   tau += f(tau) / #{x > tau}
 * runs on those. f is convex, falling and piecewise linear: from below, tau only grows, elements only
 * leave, and when none does, tau is exact. A second pass over the row writes max(x - tau, 0). Where the
 * list would outgrow its room, as a very long row of nearly equal numbers makes it, the steps run on the
 * row itself.
 *
 * A row along the last dimension and a strip of rows along another one differ in one point: whether
 * the lanes of a vector belong together. Both are `count` pairs of vectors, `step` bytes apart.
 */
#ifndef SPARSEMAX_PANEL_H
#define SPARSEMAX_PANEL_H

#include "simd.h"

enum {
    BLOCK = 16 /* pairs that are looked at twice before the next ones */
};

/* Rows [..,N] that lie one after another in the lanes of pairs (apart = 0), or beside each other
 * (apart = 1). */
typedef struct panel {
    int64_t count; /* pairs */
    int64_t lanes; /* elements of a row (apart = 0), live lanes of all pairs (apart = 1) */
} panel;

SIMD_INLINE int64_t lanes_at(int apart, panel p, int64_t i)
{
    if (apart)
        return p.lanes;
    return p.lanes - i * V_PAIR < V_PAIR ? p.lanes - i * V_PAIR : V_PAIR;
}

/* The first `lanes` elements, behind them `fill`. */
SIMD_INLINE vf2 take(el e, const char *x, int64_t lanes, float fill)
{
    if (lanes == V_PAIR)
        return v_load2(e, e, x, 0);
    const int64_t first = lanes < VL ? lanes : VL;
    return (vf2){v_load_n(e, x, 0, first, fill), v_load_n(e, x, first, lanes - first, fill)};
}

SIMD_INLINE void give(el e, int stream, char *y, int64_t lanes, vf2 v)
{
    if (lanes == V_PAIR) {
        v_write2(e, stream, y, 0, v);
    } else {
        const int64_t first = lanes < VL ? lanes : VL;
        v_store_n(e, y, 0, first, v.a);
        v_store_n(e, y, first, lanes - first, v.b);
    }
}

/* Asks for the memory of a pair. */
SIMD_INLINE void ask(el e, const char *x)
{
    __builtin_prefetch(x);
    if (V_PAIR * el_size(e) > 64)
        __builtin_prefetch(x + 64);
}

SIMD_INLINE vi is_above(vf a, float limit)
{
    return ~(a <= v_set(limit)); /* NaN is above everything, so that it stays in sight */
}

/* What may lie above tau: pairs in which some lane does (apart = 1), elements side by side (apart = 0,
 * until scan() fills them up to pairs). */
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

/* Block by block: the maximum so far, then what is less than 1 below it. 1 if all of that is listed. */
SIMD_INLINE int scan(el e, int apart, search *s, const char *x, int64_t step, panel p)
{
    const vf lowest = v_set(-INFINITY);
    int listed = 1;
    for (int64_t begin = 0; begin < p.count; begin += BLOCK) {
        const int64_t end = begin + BLOCK < p.count ? begin + BLOCK : p.count;
        for (int64_t i = begin; i < end; i++) {
            const vf2 v = take(e, x + i * step, lanes_at(apart, p, i), -INFINITY);
            if (apart)
                __builtin_prefetch(x + (i + BLOCK) * step);
            else
                v_ahead2(e, x + i * step, 0);
            s->max = (vf2){v_max(v.a, s->max.a), v_max(v.b, s->max.b)};
        }
        if (!apart)
            s->max.a = s->max.b = v_set(v_hmax(v_max(s->max.a, s->max.b)));
        listed = listed && fits(apart, s, end - begin);
        if (!listed)
            continue;
        for (int64_t i = begin; i < end; i++)
            keep(apart, s, take(e, x + i * step, lanes_at(apart, p, i), -INFINITY));
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

/* Sums of SUM pairs are added up: of many equal terms one long sum would be off, each time by the same. */
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
            const vf2 x =
                listed ? v_get2(s->list + i * V_PAIR)
                       : take(e, row->x + i * row->step, lanes_at(apart, row->p, i), -INFINITY);
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

/* Newton's iteration from max - 1, relative to max first, where tau is in [-1, 0); then relative to that
 * tau, so that neither a large maximum nor a large tau costs digits. */
SIMD_INLINE vf2 find_tau(el e, int apart, int listed, search *s, const pairs *row, vf2 *base)
{
    const vf2 start = {v_set(-1.0f), v_set(-1.0f)};
    vf2 tau = newton(e, apart, listed, s, row, s->max, start);
    second_start(s->max.a, &base->a, &tau.a);
    second_start(s->max.b, &base->b, &tau.b);
    return newton(e, apart, listed, s, row, *base, tau);
}

/* room: pairs that scratch holds, less one. */
SIMD_INLINE void forward_panel(el e, int apart, int stream, const char *x, int64_t x_step, char *y,
                               int64_t y_step, panel p, const char *x_next, float *scratch,
                               int64_t room)
{
    /* a lane without a row: its -inf must not be a maximum */
    const vi live_a = v_first(apart ? p.lanes : VL);
    const vi live_b = v_first(apart ? (p.lanes < VL ? 0 : p.lanes - VL) : VL);
    const vf lowest = v_set(-INFINITY), zero = v_set(0.0f);
    search s = {{v_select(live_a, lowest, zero), v_select(live_b, lowest, zero)}, scratch, 0, room};
    const pairs row = {x, x_step, p};
    vf2 base, tau;
    if (scan(e, apart, &s, x, x_step, p))
        tau = find_tau(e, apart, 1, &s, &row, &base);
    else
        tau = find_tau(e, apart, 0, &s, &row, &base);
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t lanes = lanes_at(apart, p, i);
        const vf2 v = take(e, x + i * x_step, lanes, 0.0f);
        if (!apart)
            ask(e, x_next + i * x_step);
        give(e, stream, y + i * y_step, lanes,
             (vf2){v_max(zero, v.a - base.a - tau.a), v_max(zero, v.b - base.b - tau.b)});
    }
}

/* dy is read only where there is support. */
SIMD_INLINE void backward_panel(el e, int apart, int stream, const char *y, int64_t y_step,
                                const char *dy, int64_t dy_step, char *dx, int64_t dx_step, panel p)
{
    const vf zero = v_set(0.0f);
    vf2 sum = {zero, zero};
    vi a = {0}, b = {0};
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t lanes = lanes_at(apart, p, i);
        const vf2 v = take(e, y + i * y_step, lanes, 0.0f);
        const vi in_a = is_above(v.a, 0.0f), in_b = is_above(v.b, 0.0f);
        if (!v_any(in_a | in_b))
            continue;
        const vf2 g = take(e, dy + i * dy_step, lanes, 0.0f);
        sum.a += v_select(in_a, g.a + (v.a - v.a), zero); /* the difference is 0 or NaN */
        sum.b += v_select(in_b, g.b + (v.b - v.b), zero);
        a -= in_a;
        b -= in_b;
    }
    vf2 members = {__builtin_convertvector(a, vf), __builtin_convertvector(b, vf)};
    if (!apart) {
        sum.a = sum.b = v_set(v_sum(sum.a + sum.b));
        members.a = members.b = v_set(v_sum(members.a + members.b));
    }
    const vf2 mean = {sum.a / members.a, sum.b / members.b};
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t lanes = lanes_at(apart, p, i);
        const vf2 v = take(e, y + i * y_step, lanes, 0.0f);
        const vi in_a = is_above(v.a, 0.0f), in_b = is_above(v.b, 0.0f);
        vf2 d = {zero, zero};
        if (v_any(in_a | in_b)) {
            const vf2 g = take(e, dy + i * dy_step, lanes, 0.0f);
            d = (vf2){v_select(in_a, g.a - mean.a, zero), v_select(in_b, g.b - mean.b, zero)};
        }
        give(e, stream, dx + i * dx_step, lanes, d);
    }
}

#endif
