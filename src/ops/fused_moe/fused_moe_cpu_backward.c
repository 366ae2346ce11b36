/* fused_moe on the CPU, backward: the gradient at A goes through the gate while it is in the cache;
 * then products for x and for the matrices. */
#include "fused_moe_cpu_sum.h"

enum { UNIT = 256 /* columns of A whose part of a weight's gradient is summed apart */ };

typedef struct job {
    moe_sizes sizes;
    moe_gate gate;
    el type;
    const int64_t *slot, *offset, *place;
    const float *weights; /* of numbers */
    float *row_weight;    /* of slots in their order */
    int scale_input;
    moe_rows pre, dpre, act, dx_rows, scaled; /* of slots; act: w A */
    float *parts;                             /* [slots, parts of I]: of dweights */
    int64_t nparts;
    moe_rows dy, x, dx;
    const float *down_bias, *gate_up_bias;
    const tg_tensor *dweights;
    grouped_memory products;
} job;

/* ---- through the gate ---- */

/* VL columns of slot j: dA becomes dpre, A becomes w A; what they add to the weight's gradient. */
SIMD_INLINE vf gate_columns(el e, moe_kind kind, int interleaved, const job *j, int64_t row,
                            vf weight, vf da, int64_t col, int64_t n)
{
    const int64_t half = j->sizes.inner * el_size(e);
    const char *pre = moe_row(e, &j->pre, row, 0);
    char *dpre = moe_row(e, &j->dpre, row, 0);
    const vf2 x = moe_load(e, interleaved, pre, pre + half, col, n);
    const moe_gated y = moe_gated_of(kind, &j->gate, x.a, x.b);
    const vf g = weight * da;
    moe_store(e, interleaved, dpre, dpre + half, col, n, (vf2){g * y.of_gate, g * y.of_up});
    v_store_n(e, moe_row(e, &j->act, row, 0), col, n, weight * y.value);
    return da * y.value;
}

SIMD_INLINE void gate_row(el e, moe_kind kind, int interleaved, const job *j,
                          const grouped_block *b, int64_t r)
{
    const int64_t row = b->row + r;
    const float *sums = b->sums + r * b->stride;
    const vf weight = v_set(j->scale_input ? 1.0f : j->row_weight[row]);
    for (int64_t first = 0; first < b->cols; first += UNIT) {
        const int64_t end = b->cols - first < UNIT ? b->cols : first + UNIT;
        vf sum = v_set(0.0f);
        int64_t i = first;
        for (; i + VL <= end; i += VL)
            sum += gate_columns(e, kind, interleaved, j, row, weight, v_load(EL_F32, sums, i),
                                b->col + i, VL);
        if (i < end) { /* columns that are not there have a sum of 0, which A of 0 takes */
            const vf part =
                gate_columns(e, kind, interleaved, j, row, weight,
                             v_load_n(EL_F32, sums, i, end - i, 0.0f), b->col + i, end - i);
            sum += v_select(v_first(end - i), part, v_set(0.0f));
        }
        j->parts[row * j->nparts + (b->col + first) / UNIT] = v_sum(sum);
    }
}

SIMD_INLINE void gate_block(el e, moe_kind kind, int interleaved, const job *j,
                            const grouped_block *b)
{
    for (int64_t r = 0; r < b->rows; r++)
        gate_row(e, kind, interleaved, j, b, r);
}

SIMD_INLINE void gate_block_of(el e, const job *j, const grouped_block *b)
{
    MOE_BY_KIND(gate_block, e, &j->gate, j, b);
}

static void write_gate(const grouped_product *p, const grouped_block *b)
{
    const job *j = p->arg;
    EL_SPECIALIZE(j->type, gate_block_of, j, b);
}

static void through_gate(tg_ctx *ctx, const tg_fused_moe_backward_args *args, const job *j)
{
    const grouped_product p = {.groups = j->sizes.experts,
                               .offset = j->offset,
                               .left = grouped_factor_of(args->dy, j->slot, j->sizes.top_k),
                               .right = grouped_factor_of(args->down, NULL, 1),
                               .terms_are_rows = args->transposed == 0,
                               .right_rows = args->down->shape[1],
                               .cols = j->sizes.inner,
                               .terms = j->sizes.hidden,
                               .unit = UNIT,
                               .write = write_gate,
                               .arg = j};
    grouped_run(ctx, &j->products, &p);
}

/* ---- x, and the weights ---- */

static void through_projection(tg_ctx *ctx, const tg_fused_moe_backward_args *args, const job *j)
{
    const grouped_output o = {
        .data = j->dx_rows.data, .type = j->type, .stride = j->dx_rows.stride};
    const grouped_product p = {.groups = j->sizes.experts,
                               .offset = j->offset,
                               .left = grouped_factor_at(j->dpre.data, j->type, j->dpre.stride),
                               .right = grouped_factor_of(args->gate_up, NULL, 1),
                               .terms_are_rows = args->transposed == 0,
                               .right_rows = args->gate_up->shape[1],
                               .cols = j->sizes.hidden,
                               .terms = 2 * j->sizes.inner,
                               .write = grouped_write,
                               .arg = &o};
    grouped_run(ctx, &j->products, &p);
}

/* The sum of the products of two rows; b: f32 if b_is_f32. */
SIMD_INLINE float dot(el e, const char *a, int b_is_f32, const void *b, int64_t n)
{
    vf sum = v_set(0.0f);
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t part = n - i < VL ? n - i : VL;
        sum += v_load_n(e, a, i, part, 0.0f) * v_load_n(b_is_f32 ? EL_F32 : e, b, i, part, 0.0f);
    }
    return v_sum(sum);
}

/* The expert of a place. */
static int64_t expert_of(const job *j, int64_t place)
{
    int64_t low = 0, high = j->sizes.experts;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (j->offset[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

SIMD_INLINE float weight_gradient(el e, const job *j, int64_t t, int64_t place)
{
    const int64_t hidden = j->sizes.hidden;
    if (j->scale_input)
        return dot(e, moe_row(e, &j->dx_rows, place, 0), 0, moe_row(e, &j->x, t, 0), hidden);
    float sum = 0;
    for (int64_t i = 0; i < j->nparts; i++)
        sum += j->parts[place * j->nparts + i];
    if (j->down_bias)
        sum += dot(e, moe_row(e, &j->dy, t, 0), 1, j->down_bias + expert_of(j, place) * hidden,
                   hidden);
    return sum;
}

SIMD_INLINE void finish_token(el e, const job *j, int64_t t)
{
    const int64_t top_k = j->sizes.top_k;
    const int64_t *place = j->place + t * top_k, used = j->offset[j->sizes.experts];
    for (int64_t k = 0; j->dweights && k < top_k; k++)
        el_set((el)tg_el(tg_type_of(j->dweights)), tg_data(j->dweights), t * top_k + k,
               moe_has_expert(place[k], used) ? weight_gradient(e, j, t, place[k]) : 0.0f);
    const moe_sum dx = {.rows = j->dx_rows,
                        .to = j->dx,
                        .place = j->place,
                        .used = used,
                        .weights = j->scale_input ? j->weights : NULL};
    if (j->dx.data)
        moe_sum_slots(e, &j->sizes, &dx, t);
}

SIMD_INLINE void finish_tokens(el e, const job *j, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        finish_token(e, j, t);
}

static void finish(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    EL_SPECIALIZE(j->type, finish_tokens, j, begin, end);
}

/* ---- the matrices ---- */

/* to[e] = sum over the slots of e of rows times columns, or their transpose. */
static void matrix_gradient(tg_ctx *ctx, const job *j, const tg_tensor *to, int64_t transposed,
                            int64_t accumulate, grouped_factor rows, grouped_factor columns)
{
    if (!to)
        return;
    const grouped_matrices m = grouped_matrices_of(to);
    const grouped_output o = grouped_gradient_of(to, accumulate);
    const grouped_product p = {.by_group = 1,
                               .groups = j->sizes.experts,
                               .offset = j->offset,
                               .left = transposed ? columns : rows,
                               .right = transposed ? rows : columns,
                               .rows = m.rows,
                               .cols = m.cols,
                               .write = grouped_write,
                               .arg = &o};
    grouped_run(ctx, &j->products, &p);
}

static void parameter_gradients(tg_ctx *ctx, const tg_fused_moe_backward_args *args, const job *j)
{
    const moe_sizes *s = &j->sizes;
    const grouped_factor dy = grouped_factor_of(args->dy, j->slot, s->top_k);
    const grouped_factor dpre = grouped_factor_at(j->dpre.data, j->type, j->dpre.stride);
    const grouped_factor act = grouped_factor_at(j->act.data, j->type, j->act.stride);
    const grouped_factor x = j->scale_input
                                 ? grouped_factor_at(j->scaled.data, j->type, j->scaled.stride)
                                 : grouped_factor_of(args->x, j->slot, s->top_k);
    matrix_gradient(ctx, j, args->dgate_up, args->transposed, args->accumulate, dpre, x);
    matrix_gradient(ctx, j, args->ddown, args->transposed, args->accumulate, dy, act);
    grouped_sum_rows(ctx, &dpre, NULL, s->experts, j->offset, args->dgate_up_bias,
                     args->accumulate);
    grouped_sum_rows(ctx, &dy, j->scale_input ? NULL : j->row_weight, s->experts, j->offset,
                     args->ddown_bias, args->accumulate);
}

/* ---- the call ---- */

static tg_status begin(tg_ctx *ctx, const tg_fused_moe_backward_args *args, job *j)
{
    const moe_sizes *s = &j->sizes;
    const el e = j->type;
    const int wants_dx = args->dx || (args->scale_input && args->dweights);
    j->dpre = moe_new_rows(ctx, e, s->slots, 2 * s->inner);
    j->act = moe_new_rows(ctx, e, s->slots, s->inner);
    j->pre = args->pre ? moe_rows_of(args->pre) : moe_new_rows(ctx, e, s->slots, 2 * s->inner);
    j->dx_rows = moe_new_rows(ctx, e, wants_dx ? s->slots : 0, s->hidden);
    j->scaled = moe_new_rows(ctx, e, args->scale_input ? s->slots : 0, s->hidden);
    j->nparts = (s->inner + UNIT - 1) / UNIT;
    j->parts = tg_workspace(ctx, (size_t)(s->slots * (j->nparts + 1) + 1) * sizeof *j->parts);
    if (!j->dpre.data || !j->act.data || (!j->pre.data && s->slots * s->inner > 0) ||
        !j->dx_rows.data || !j->scaled.data || !j->parts)
        return TG_ENOMEM;
    j->row_weight = j->parts + s->slots * j->nparts;
    TG_TRY(grouped_floats(ctx, args->weights, &j->weights));
    TG_TRY(grouped_floats(ctx, args->gate_up_bias, &j->gate_up_bias));
    TG_TRY(grouped_floats(ctx, args->down_bias, &j->down_bias));
    return grouped_reserve(ctx, s->experts, &j->products);
}

/* pre anew. */
static void project_again(tg_ctx *ctx, const tg_fused_moe_backward_args *args, const job *j)
{
    const moe_projection p = {
        .sizes = j->sizes,
        .gate = j->gate,
        .x = j->scale_input ? grouped_factor_at(j->scaled.data, j->type, j->scaled.stride)
                            : grouped_factor_of(args->x, j->slot, j->sizes.top_k),
        .gate_up = grouped_factor_of(args->gate_up, NULL, 1),
        .transposed = args->transposed,
        .offset = j->offset,
        .bias = j->gate_up_bias,
        .pre = j->pre,
        .type = j->type};
    moe_project(ctx, &j->products, &p);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    job j = {.sizes = moe_sizes_of(args->x, args->down, args->transposed, args->weights),
             .gate = MOE_GATE(args),
             .type = (el)tg_el(tg_type_of(args->x)),
             .slot = tg_data(args->slot),
             .offset = tg_data(args->offset),
             .place = tg_data(args->place),
             .scale_input = args->scale_input != 0,
             .dy = moe_rows_of(args->dy),
             .x = moe_rows_of(args->x),
             .dx = moe_rows_of(args->dx),
             .dweights = args->dweights};
    TG_TRY(begin(ctx, args, &j));
    const int64_t used = j.offset[j.sizes.experts];
    for (int64_t i = 0; i < used; i++)
        j.row_weight[i] = j.weights[j.slot[i]];
    if (j.scale_input)
        moe_scaled_rows(ctx, &j.sizes, args->x, j.weights, j.slot, used, &j.scaled);
    if (!args->pre)
        project_again(ctx, args, &j);
    through_gate(ctx, args, &j);
    if (args->dx || (j.scale_input && args->dweights))
        through_projection(ctx, args, &j);
    tg_parallel_for(ctx, j.sizes.tokens, 65536 / (j.sizes.hidden * j.sizes.top_k + 1) + 1, finish,
                    &j);
    parameter_gradients(ctx, args, &j);
    return TG_OK;
}

TG_CPU_IMPLS(fused_moe_backward) = {
    TG_CPU_IMPL_IF(fused_moe_backward, GROUPED_TAKES, NULL, backward), TG_IMPLS_END};
