/* fused_moe.cu - fused_moe on any card, with all options: products of grouped_any.cuh, and kernels
 * over the rows of slots between them. */
#include "grouped_any.cuh"
#include "moe_gate.cuh"
#include "moe_route.cuh"
#include "moe_sums.cuh"

/* ---- the host's side ---- */

struct any_moe {
    int64_t tokens, hidden, inner, experts, top_k, slots;
    int transposed, scaled;
    int64_t *slot, *offset, *place;
    int4 *list;

    const int64_t *end() const
    {
        return offset + experts;
    }
};

template <class ARGS> static any_moe moe_of(const ARGS *a)
{
    any_moe m = {};
    m.tokens = a->x->shape[0];
    m.hidden = a->x->shape[1];
    m.experts = a->down->shape[0];
    m.inner = a->down->shape[a->transposed ? 1 : 2];
    m.top_k = a->weights->shape[1];
    m.slots = m.tokens * m.top_k;
    m.transposed = a->transposed != 0;
    m.scaled = a->scale_input != 0;
    m.slot = (int64_t *)data_of(a->slot);
    m.offset = (int64_t *)data_of(a->offset);
    m.place = (int64_t *)data_of(a->place);
    return m;
}

template <class ARGS> static gate_options options_of(const ARGS *a, const any_moe &m)
{
    const gate_options o = {(int)a->activation, (int)a->interleaved, (float)a->limit,
                            (float)a->alpha,    (float)a->up_offset, m.inner};
    return o;
}

template <class T> static T *room_for(const cuda_call &call, int64_t elements)
{
    return (T *)cuda_host->device_workspace(call.ctx, (size_t)(elements + 1) * sizeof(T));
}

static bool is_possible(const any_moe &m)
{
    return m.slots <= INT32_MAX / 4 && m.experts <= MOST_EXPERTS;
}

static bool has_list(const cuda_call &call, any_moe *m)
{
    m->list = (int4 *)cuda_host->device_workspace(
        call.ctx, (size_t)bytes_of_jobs(m->slots, m->experts, ANY_TILE));
    if (m->list)
        launch_jobs(call.stream, m->offset, (int)m->experts, (int)m->slots, m->list, ANY_TILE, 1);
    return m->list != NULL;
}

/* Rows of tokens by slots; scaled: times the slots' weights. */
static any_operand tokens_of(const any_moe &m, const tg_tensor *t, const tg_tensor *weights)
{
    const any_operand o = {span_of(t), m.slot, m.top_k, m.tokens, vector_of(weights)};
    return o;
}

/* c [slots, n] = a b[e]^T, `turned`: b[e]; b [experts, n, k], transposed the other way round. */
template <class T, class C>
static void multiply(const cuda_call &call, const any_moe &m, const any_operand &a,
                     const tg_tensor *b, int turned, const tg_tensor *bias, C *c, int64_t n,
                     int64_t k)
{
    const int64_t stride = stride_of(b);
    const bool along_n = turned ? !m.transposed : m.transposed;
    any_rows p = {};
    p.list = m.list;
    p.a = a;
    p.b = data_of(b);
    p.step = b->shape[1] * stride;
    p.n_step = along_n ? 1 : stride;
    p.k_step = along_n ? stride : 1;
    p.bias = vector_of(bias);
    p.c.data = (char *)c;
    p.c.stride = n * (int64_t)sizeof(C);
    p.n = n;
    p.k = k;
    launch_any_rows<T, C>(call, p, most_jobs(m.slots, m.experts, ANY_TILE));
}

template <class T> static any_operand rows_of_slots(const any_moe &m, T *rows, int64_t width)
{
    const row_span span = {(char *)rows, width * (int64_t)sizeof(T)};
    return any_rows_in_order(span, m.slots);
}

/* The gate's sums in f32. */
template <class T, class ARGS>
static void gate_sums(const cuda_call &call, const any_moe &m, const ARGS *a, float *sums)
{
    multiply<T>(call, m, tokens_of(m, a->x, m.scaled ? a->weights : NULL), a->gate_up, 0,
                a->gate_up_bias, sums, 2 * m.inner, m.hidden);
}

template <class T>
static void add_slots(const cuda_call &call, const any_moe &m, T *rows, const tg_tensor *to,
                      const tg_tensor *addend, const tg_tensor *weights)
{
    const sum_problem p = {{(char *)rows, m.hidden * (int64_t)sizeof(T)},
                           span_of(addend),
                           span_of(to),
                           m.place,
                           vector_of(weights),
                           m.tokens,
                           m.top_k,
                           m.hidden,
                           m.end()};
    launch_sums<T>(call, p, range_of(call, "place", m.slots));
}

static bool has_route(const cuda_call &call, any_moe *m)
{
    int64_t *const room = room_for<int64_t>(call, 2 * m->slots + m->experts + 1);
    m->slot = m->slot ? m->slot : room;
    m->place = m->place ? m->place : room + m->slots;
    m->offset = m->offset ? m->offset : room + 2 * m->slots;
    return room != NULL;
}

template <class T>
static tg_status forward(const cuda_call &call, const tg_fused_moe_forward_args *a)
{
    any_moe m = moe_of(a);
    float *const sums = room_for<float>(call, m.slots * 2 * m.inner);
    T *const act = room_for<T>(call, m.slots * m.inner);
    T *const rows = room_for<T>(call, m.slots * m.hidden);
    void *const counts = room_for<char>(call, (int64_t)cuda_route_bytes(m.slots, m.experts));
    if (!sums || !act || !rows || !counts || !has_route(call, &m))
        return TG_ENOMEM;
    const route_problem route = {(const int64_t *)data_of(a->index),
                                 m.slots,
                                 a->capacity ? a->capacity : INT64_MAX,
                                 (int)m.experts,
                                 m.slot,
                                 m.offset,
                                 m.place};
    const tg_status status = cuda_route(call, route, counts);
    if (status != TG_OK || !has_list(call, &m))
        return status != TG_OK ? status : TG_ENOMEM;
    const row_span pre = span_of(a->pre);
    gate_sums<T>(call, m, a, sums);
    if (m.slots > 0)
        gate_kernel<T><<<(unsigned)min_of(m.slots, 65535), GATE_THREADS, 0, call.stream>>>(
            sums, options_of(a, m), m.end(), m.slots, pre, act);
    launch_rest<T>(call, pre, m.end(), m.slots, 2 * m.inner);
    multiply<T>(call, m, rows_of_slots(m, act, m.inner), a->down, 0, a->down_bias, rows, m.hidden,
                m.inner);
    add_slots<T>(call, m, rows, a->y, a->addend, m.scaled ? NULL : a->weights);
    return TG_OK;
}

/* The gradient of the experts' matrices [m, n], or [n, m] where `turned` is not what transposed
 * is. */
template <class T>
static void matrices(const cuda_call &call, const any_moe &m, const any_operand &a, int64_t rows,
                     const any_operand &b, int64_t columns, const tg_tensor *to, int64_t accumulate)
{
    if (!to)
        return;
    const int64_t stride = stride_of(to);
    any_weights p = {};
    p.offset = m.offset;
    p.a = a;
    p.b = b;
    p.c = data_of(to);
    p.step = to->shape[1] * stride;
    p.m_step = m.transposed ? 1 : stride;
    p.n_step = m.transposed ? stride : 1;
    p.m = rows;
    p.n = columns;
    p.rows = m.slots;
    p.accumulate = accumulate != 0;
    launch_any_weights<T>(call, p, m.experts, tg_type_of(to));
}

template <class T>
static void weight_gradients(const cuda_call &call, const any_moe &m,
                             const tg_fused_moe_backward_args *a, const T *rows)
{
    const row_span dx = {m.scaled ? (char *)rows : NULL, m.hidden * (int64_t)sizeof(T)};
    if (a->dweights && m.slots > 0)
        slot_weights_kernel<T>
            <<<(unsigned)ceil_div(m.slots, GATE_THREADS / 32), GATE_THREADS, 0, call.stream>>>(
                span_of(a->x), dx, m.hidden, m.place, m.end(), m.slots, m.top_k,
                vector_of(a->dweights));
}

template <class T>
static void gradients_of_gate(const cuda_call &call, const any_moe &m,
                              const tg_fused_moe_backward_args *a, const float *sums,
                              const float *da, T *dpre, T *act)
{
    gate_gradients g = {};
    g.o = options_of(a, m);
    g.pre = span_of(a->pre);
    g.sums = sums;
    g.da = da;
    g.slot = m.slot;
    g.offset = m.offset;
    g.experts = m.experts;
    g.slots = m.slots;
    g.top_k = m.top_k;
    g.hidden = m.hidden;
    g.weights = vector_of(m.scaled ? NULL : a->weights);
    g.down_bias = vector_of(a->down_bias);
    g.dweights = vector_of(m.scaled ? NULL : a->dweights);
    g.dy = span_of(a->dy);
    if (m.slots > 0)
        gate_gradients_kernel<T>
            <<<(unsigned)ceil_div(m.slots, GATE_THREADS / 32), GATE_THREADS, 0, call.stream>>>(
                g, dpre, act);
}

template <class T>
static tg_status backward(const cuda_call &call, const tg_fused_moe_backward_args *a)
{
    any_moe m = moe_of(a);
    float *const sums = room_for<float>(call, a->pre ? 0 : m.slots * 2 * m.inner);
    float *const da = room_for<float>(call, m.slots * m.inner);
    T *const dpre = room_for<T>(call, m.slots * 2 * m.inner);
    T *const act = room_for<T>(call, m.slots * m.inner);
    T *const rows = room_for<T>(call, m.slots * m.hidden);
    if (!sums || !da || !dpre || !act || !rows || !has_list(call, &m))
        return TG_ENOMEM;
    check_offsets(call, m.offset, m.experts, m.slots);
    check_numbers(call, "slot", m.slot, m.end(), m.slots, m.slots);
    if (!a->pre)
        gate_sums<T>(call, m, a, sums);
    multiply<T>(call, m, tokens_of(m, a->dy, NULL), a->down, 1, NULL, da, m.inner, m.hidden);
    gradients_of_gate<T>(call, m, a, sums, da, dpre, act);
    const any_operand dpres = rows_of_slots(m, dpre, 2 * m.inner);
    const tg_tensor *const in = m.scaled ? a->weights : NULL, *out = m.scaled ? NULL : a->weights;
    matrices<T>(call, m, tokens_of(m, a->dy, NULL), m.hidden, rows_of_slots(m, act, m.inner),
                m.inner, a->ddown, a->accumulate);
    matrices<T>(call, m, dpres, 2 * m.inner, tokens_of(m, a->x, in), m.hidden, a->dgate_up,
                a->accumulate);
    launch_any_bias<T>(call, m.offset, dpres, a->dgate_up_bias, m.slots, a->accumulate);
    launch_any_bias<T>(call, m.offset, tokens_of(m, a->dy, out), a->ddown_bias, m.slots,
                       a->accumulate);
    if (a->dx || (m.scaled && a->dweights))
        multiply<T>(call, m, dpres, a->gate_up, 1, NULL, rows, m.hidden, 2 * m.inner);
    if (a->dx)
        add_slots<T>(call, m, rows, a->dx, NULL, in);
    weight_gradients<T>(call, m, a, rows);
    return TG_OK;
}

CUDA_OPERATOR(fused_moe_forward, TG_TAKES_FLOATS);

tg_status cuda_fused_moe_forward(tg_ctx *ctx, const tg_fused_moe_forward_args *args)
{
    cuda_call call;
    if (!is_possible(moe_of(args)))
        return TG_EUNSUPPORTED;
    tg_status status = cuda_begin(&call, ctx, "fused_moe_forward", args->y);
    if (status != TG_OK)
        return status;
    by_type(args->x, [&](auto t) { status = forward<decltype(t)>(call, args); });
    return cuda_end(&call, status);
}

CUDA_OPERATOR(fused_moe_backward, TG_TAKES_FLOATS);

tg_status cuda_fused_moe_backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    cuda_call call;
    if (!is_possible(moe_of(args)))
        return TG_EUNSUPPORTED;
    tg_status status = cuda_begin(&call, ctx, "fused_moe_backward", args->dy);
    if (status != TG_OK)
        return status;
    by_type(args->x, [&](auto t) { status = backward<decltype(t)>(call, args); });
    return cuda_end(&call, status);
}
