/* causal_conv1d.c - host of kernels/maps/causal_conv1d.asc.c. */
#include <math.h>

#include "ascend.h"
#include "kernels/maps/causal_conv1d.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(causal_conv1d_forward, CAUSAL_CONV1D_FORWARD);
ASCEND_KERNEL(causal_conv1d_backward, CAUSAL_CONV1D_BACKWARD);

/* 255 rows of 255 repeats are what one instruction takes. */
#define CONV_KERNEL(kernel)                                                                   \
    {                                                                                         \
        .name = #kernel ".columns", ASCEND_BUFFERS(kernel), .flat = 1, .column_multiple = 64, \
        .max_rows = 255, .max_columns = 255 * 64                                              \
    }

ASCEND_KERNELS(causal_conv1d) = {
    [FORWARD] = CONV_KERNEL(causal_conv1d_forward),
    [BACKWARD] = CONV_KERNEL(causal_conv1d_backward),
    {0},
};

/* The most rows of a strip of so many columns that fit; 0: not `least` of them do. */
static int64_t most_rows(ascend_plan *plan, int64_t least, int64_t strip)
{
    enum { MOST = 255 };
    int64_t rows = least - 1;
    for (int64_t step = 128; step > 0; step /= 2)
        if (rows + step <= MOST && ascend_fits(plan, rows + step, strip))
            rows += step;
    return rows >= least ? rows : 0;
}

/* Groups of rows of each strip: so many that the cores are busy for the same time, but for as few
 * rows beside as that allows. */
static int64_t even_groups(int64_t rows, int64_t strips, int64_t cores)
{
    enum { MOST = 8 };
    int64_t best = 1;
    double least = INFINITY;
    const int64_t from = (cores + strips - 1) / strips;
    for (int64_t groups = from; groups <= rows && groups < from + MOST; groups++) {
        const double turns = (double)((strips * groups + cores - 1) / cores) / (double)groups;
        if (turns < .97 * least) {
            least = turns;
            best = groups;
        }
    }
    return best;
}

/* Strips of columns, and tasks for all cores. A tile has `beside` rows that are read with others:
 * the widest strip for which they are few, or else the narrowest. */
static tg_status choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                        uint32_t options, int64_t beside, int64_t *groups)
{
    enum { STRIP = 64, NARROW = 64, FEW = 8, LEAST = 8 };
    tg_ub_layout *l = &plan->layout;
    int64_t rows = 0, strip;
    *groups = 0;
    ASCEND_TRY(ascend_begin_rows(plan, ub, x, options));
    const int64_t columns = plan->problem.columns, cores = plan->problem.cores;
    if (plan->problem.rows == 0 || columns == 0)
        return ascend_choose(plan);
    for (strip = columns < STRIP ? columns : STRIP;;
         strip = strip / 2 > NARROW ? strip / 2 : NARROW) {
        rows = most_rows(plan, beside + 1, strip);
        if (rows >= (FEW + 1) * beside + LEAST || strip <= NARROW)
            break;
    }
    if (!rows)
        return ascend_host->fail(
            TG_ENOMEM, "%s: a tile has %lld rows beside its own, for which UB has no room",
            ub->name, (long long)beside);
    ascend_fits(plan, rows, strip);
    *groups = even_groups(plan->problem.rows, l->column_tiles, cores);
    l->tasks = *groups * l->column_tiles;
    l->blocks = l->tasks < cores ? l->tasks : cores;
    return TG_OK;
}

static int is_f32(const tg_tensor *t)
{
    return t && tg_type_of(t) == TG_F32;
}

static uint32_t gates_of(const tg_tensor *in_gate, const tg_tensor *out_gate)
{
    return (in_gate ? CONV_IN_GATE : 0) | (out_gate ? CONV_OUT_GATE : 0);
}

/* What both kernels are given. */
#define CONV_GIVEN(a, weight_width, number_of_groups)                                        \
    .x = (a)->x, .in_gate = (a)->in_gate, .out_gate = (a)->out_gate, .weight = (a)->weight,  \
    .bias = (a)->bias, .segments = (a)->segments, .tokens = (a)->x->shape[(a)->x->ndim - 2], \
    .width = weight_width, .silu = (a)->silu, .groups = number_of_groups,                    \
    .weight_f32 = is_f32((a)->weight), .bias_f32 = is_f32((a)->bias)

ASCEND_OPERATOR_IF(causal_conv1d_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(causal_conv1d_backward, TG_TAKES_FLOATS);

/* Weights of which UB has no room for the rows beside a tile are left to others. */
#define PLAN_CONV(kernel, a, beside, plan, groups)                                                \
    choose(plan, &ascend_ub_causal_conv1d[kernel], (a)->x, gates_of((a)->in_gate, (a)->out_gate), \
           beside, groups)

static int64_t beside_of(const tg_tensor *weight)
{
    return weight->shape[weight->ndim - 1] - 1;
}

int ascend_causal_conv1d_forward_accepts(const tg_causal_conv1d_forward_args *a)
{
    ascend_plan plan;
    int64_t groups;
    return PLAN_CONV(FORWARD, a, beside_of(a->weight), &plan, &groups) == TG_OK;
}

int ascend_causal_conv1d_backward_accepts(const tg_causal_conv1d_backward_args *a)
{
    ascend_plan plan;
    int64_t groups;
    return PLAN_CONV(BACKWARD, a, 2 * beside_of(a->weight), &plan, &groups) == TG_OK;
}

tg_status ascend_causal_conv1d_forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *a)
{
    const int64_t width = a->weight->shape[a->weight->ndim - 1];
    ascend_plan plan;
    int64_t groups;
    ASCEND_TRY(PLAN_CONV(FORWARD, a, width - 1, &plan, &groups));
    return ASCEND_LAUNCH(ctx, &plan, causal_conv1d_forward, CONV_GIVEN(a, width, groups),
                         .y = a->y);
}

/* A tensor as a vector of its elements. */
static tg_tensor flat(const tg_tensor *t, int64_t *shape)
{
    tg_tensor v = *t;
    *shape = tg_numel(t);
    v.ndim = 1;
    v.shape = shape;
    v.strides = NULL;
    return v;
}

tg_status ascend_causal_conv1d_backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *a)
{
    const ascend_memory none = {NULL, 0};
    const int64_t width = a->weight->shape[a->weight->ndim - 1], n = tg_rows_of(a->x).n;
    ascend_partial_sums dweight, dbias;
    ascend_plan plan;
    int64_t groups, elements;
    ASCEND_TRY(PLAN_CONV(BACKWARD, a, 2 * (width - 1), &plan, &groups));
    ASCEND_TRY(ascend_partials(ctx, a->dweight ? groups : 0, n * width, &dweight));
    ASCEND_TRY(ascend_partials(ctx, a->dbias ? groups : 0, n, &dbias));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, causal_conv1d_backward, CONV_GIVEN(a, width, groups),
                             .dy = a->dy, .dx = a->dx, .din_gate = a->din_gate,
                             .dout_gate = a->dout_gate,
                             .dweights = a->dweight ? &dweight.memory : &none,
                             .dbiases = a->dbias ? &dbias.memory : &none,
                             .dweights_stride = dweight.stride, .dbiases_stride = dbias.stride));
    if (a->dweight) {
        const tg_tensor vector = flat(a->dweight, &elements);
        ASCEND_TRY(ascend_sum_partials(ctx, &dweight, &vector, a->accumulate));
    }
    return a->dbias ? ascend_sum_partials(ctx, &dbias, a->dbias, a->accumulate) : TG_OK;
}
