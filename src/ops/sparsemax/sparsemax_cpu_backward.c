/* sparsemax on the CPU: backward. */
#include "sparsemax_cpu.h"

/* dy is read only where there is support: far between, mostly, so that a processor which waits for
 * one of them does not see the next one. They are asked for a row before. */
SIMD_INLINE void ask_ahead(el e, const char *y, const char *dy, panel p)
{
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t at = i * V_PAIR * el_size(e);
        const vf2 v = load_pair(e, y + at, lanes_at(0, p, i), 0.0f);
        v_ahead2(e, y + at, 0);
        if (v_any(is_above(v.a, 0.0f) | is_above(v.b, 0.0f)))
            prefetch_pair(e, dy + at);
    }
}

SIMD_INLINE void backward_panel(el e, int apart, int stream, const job *j, panel p, int64_t at,
                                int64_t next, int worker)
{
    (void)worker;
    if (!apart && next != at)
        ask_ahead(e, panel_at(e, j, &j->from, next), panel_at(e, j, &j->dy, next), p);
    const char *y = panel_at(e, j, &j->from, at), *dy = panel_at(e, j, &j->dy, at);
    char *dx = panel_at(e, j, &j->to, at);
    const int64_t y_step = step_of(e, apart, &j->from), dy_step = step_of(e, apart, &j->dy);
    const int64_t dx_step = step_of(e, apart, &j->to);
    const vf zero = v_set(0.0f);
    vf2 sum = {zero, zero};
    vi a = {0}, b = {0};
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t lanes = lanes_at(apart, p, i);
        const vf2 v = load_pair(e, y + i * y_step, lanes, 0.0f);
        const vi in_a = is_above(v.a, 0.0f), in_b = is_above(v.b, 0.0f);
        if (!v_any(in_a | in_b))
            continue;
        const vf2 g = load_pair(e, dy + i * dy_step, lanes, 0.0f);
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
        const vf2 v = load_pair(e, y + i * y_step, lanes, 0.0f);
        const vi in_a = is_above(v.a, 0.0f), in_b = is_above(v.b, 0.0f);
        if (!v_any(in_a | in_b)) {
            store_pair(e, stream, dx + i * dx_step, lanes, (vf2){zero, zero});
            continue;
        }
        const vf2 g = load_pair(e, dy + i * dy_step, lanes, 0.0f);
        store_pair(e, stream, dx + i * dx_step, lanes,
                   (vf2){v_select(in_a, g.a - mean.a, zero), v_select(in_b, g.b - mean.b, zero)});
    }
}

SIMD_INLINE void backward_panels(el e, int stream, const job *j, int64_t begin, int64_t end,
                                 int worker)
{
    visit_panels(e, stream, backward_panel, j, begin, end, worker);
}

ROWS_CHUNK(backward_chunk, job, backward_panels);

static tg_status backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    const tg_cut y = tg_cut_of(args->y, args->dim), dy = tg_cut_of(args->dy, args->dim),
                 dx = tg_cut_of(args->dx, args->dim);
    job j = job_of(&y, &dy, &dx);
    run_panels(ctx, &j, backward_chunk);
    return TG_OK;
}

TG_CPU_IMPLS(sparsemax_backward) = {TG_CPU_IMPL(sparsemax_backward, backward), TG_IMPLS_END};
