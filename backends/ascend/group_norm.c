/* group_norm.c - host of kernels/norms/group_norm.asc.c. */
#include "group_norm_cut.h"
#include "kernels/norms/group_norm.args.h"

ASCEND_KERNEL(group_norm_forward, GROUP_NORM_FORWARD);
ASCEND_KERNEL(group_norm_backward, GROUP_NORM_BACKWARD);
ASCEND_KERNEL(group_norm_forward_rows, GROUP_NORM_FORWARD_ROWS);
ASCEND_KERNEL(group_norm_backward_rows, GROUP_NORM_BACKWARD_ROWS);
ASCEND_KERNEL(group_norm_forward_short, GROUP_NORM_FORWARD_SHORT);
ASCEND_KERNEL(group_norm_backward_short, GROUP_NORM_BACKWARD_SHORT);

enum { FORWARD, BACKWARD, FORWARD_ROWS, BACKWARD_ROWS, FORWARD_SHORT, BACKWARD_SHORT };

/* 255 lines of 255 repeats are what one instruction takes. */
#define GROUP_NORM_KERNEL(title, kernel, whole)                                            \
    {                                                                                      \
        .name = title, ASCEND_BUFFERS(kernel), .whole_rows = whole, .column_multiple = 64, \
        .max_rows = 255, .max_columns = 255 * 64                                           \
    }

ASCEND_KERNELS(group_norm) = {
    [FORWARD] = GROUP_NORM_KERNEL("group_norm_forward.groups", group_norm_forward, 0),
    [BACKWARD] = GROUP_NORM_KERNEL("group_norm_backward.groups", group_norm_backward, 0),
    [FORWARD_ROWS] = GROUP_NORM_KERNEL("group_norm_forward.rows", group_norm_forward_rows, 1),
    [BACKWARD_ROWS] = GROUP_NORM_KERNEL("group_norm_backward.rows", group_norm_backward_rows, 1),
    [FORWARD_SHORT] = ASCEND_SHORT("group_norm_forward.short", group_norm_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("group_norm_backward.short", group_norm_backward_short),
    {0},
};

/* A tensor of that shape as memory, and the strides of a batch and of a line. */
typedef struct group_tensor {
    ascend_memory memory;
    int64_t batch, line;
} group_tensor;

static group_tensor tensor_of(const tg_tensor *t, const group_norm_shape *s)
{
    const tg_rows r = tg_rows_of(t);
    const int64_t line = t->ndim == 2 ? 1 : r.stride;
    const int64_t batch = t->ndim == 2 ? r.stride : s->channels * s->lines * r.stride;
    return (group_tensor){ascend_memory_of(t), batch, line};
}

/* The lines of a channel are one where all tensors are without gaps. */
static group_norm_shape shape_of(const tg_tensor *const tensors[], int count, int64_t num_groups)
{
    const tg_tensor *x = tensors[0];
    group_norm_shape s = {x->shape[0], x->shape[1], num_groups, x->shape[1] / num_groups, 1, 1};
    int compact = 1;
    for (int i = 2; i < x->ndim - 1; i++)
        s.lines *= x->shape[i];
    if (x->ndim > 2)
        s.n = x->shape[x->ndim - 1];
    for (int i = 0; i < count; i++)
        compact = compact && tg_rows_of(tensors[i]).stride == s.n;
    if (compact && x->ndim > 2) {
        s.n *= s.lines;
        s.lines = 1;
    }
    return s;
}

/* Lines of compact channels lie as far apart as they are long. */
static group_tensor merged(const tg_tensor *t, const group_norm_shape *s)
{
    group_tensor g = tensor_of(t, s);
    if (t->ndim > 2 && s->lines == 1) {
        const tg_rows r = tg_rows_of(t);
        if (r.n != s->n)
            g.line = s->n;
        g.batch = s->channels * g.line;
    }
    return g;
}

static tg_status choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                        const group_norm_shape *s)
{
    const int64_t groups = s->batches * s->groups;
    const int64_t rows = s->lines == 1 ? s->width : s->lines;
    ASCEND_TRY(ascend_begin(plan, ub, x, groups > 0 ? rows : 0, s->n, tg_type_of(x), 0));
    const int cores = plan->problem.cores;
    plan->problem.cores = 1; /* a group is one block's, which takes all of it at once if it can */
    ASCEND_TRY(ascend_choose(plan));
    plan->problem.cores = cores;
    if (plan->layout.blocks > 0)
        plan->layout.blocks = groups < cores ? groups : cores;
    return TG_OK;
}

static int is_f32(const tg_tensor *t)
{
    return t && tg_type_of(t) == TG_F32;
}

static double part_of(const group_norm_shape *s)
{
    return 1.0 / (double)(s->width * s->lines * s->n);
}

/* ---- groups that fit whole, several in a tile ---- */

/* *is_rows is 0 where not a group fits. */
static tg_status choose_rows(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                             const group_norm_shape *s, group_norm_strips *cut, int *is_rows)
{
    const int64_t lines = s->width * s->lines, rows = s->batches * s->groups * lines;
    *is_rows = rows > 0 && s->n > 0;
    if (!*is_rows)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, ub, x, rows, s->n, tg_type_of(x), 0));
    const int64_t most = ascend_most_rows(plan, lines) / lines;
    *is_rows = most > 0;
    if (!*is_rows)
        return TG_OK;
    const int64_t cores = plan->problem.cores;
    *cut = ascend_group_norm_strips(s, most, cores);
    ascend_fits(plan, cut->beside * cut->together * lines, s->n);
    const int64_t tasks = (s->groups + cut->beside - 1) / cut->beside * cut->shares;
    plan->layout.blocks = tasks < cores ? tasks : cores;
    return TG_OK;
}

/* ---- groups of few elements, a lane each ---- */

static int64_t lcm_of_64(int64_t n)
{
    int64_t odd = n;
    for (int i = 0; i < 6 && odd % 2 == 0; i++)
        odd /= 2;
    return 64 * odd;
}

/* Tiles of whole batches' groups, of tensors without gaps; *is_short is 0 if
 * that is not for them. */
static tg_status choose_short(ascend_plan *plan, const tg_ub_kernel *ub,
                              const tg_tensor *const tensors[], int count,
                              const group_norm_shape *s, int *is_short)
{
    const int64_t n = s->width * s->n, groups = s->batches * s->groups;
    *is_short = s->lines == 1 && groups > 0 && n > 0 && n <= ub->max_rows &&
                s->channels <= GROUP_NORM_CHANNELS;
    for (int i = 0; i < count && *is_short; i++)
        *is_short = tg_is_compact(tensors[i]);
    if (!*is_short)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, ub, tensors[0], n, groups, tg_type_of(tensors[0]), 0));
    *is_short = ascend_choose_lanes(plan, lcm_of_64(s->groups));
    return TG_OK;
}

static tg_status forward_short(tg_ctx *ctx, const ascend_plan *plan, const group_norm_shape *s,
                               const tg_group_norm_forward_args *a)
{
    const ascend_memory x = ascend_memory_of(a->x), y = ascend_memory_of(a->y);
    return ASCEND_LAUNCH(ctx, plan, group_norm_forward_short, .x = &x, .y = &y, .weight = a->weight,
                         .bias = a->bias, .mean = a->mean, .rstd = a->rstd, .groups = s->groups,
                         .width = s->width, .part = part_of(s), .weight_f32 = is_f32(a->weight),
                         .bias_f32 = is_f32(a->bias), .eps = a->eps);
}

/* The sums of a block, lanes of so many groups, are folded to one for each channel; or, where
 * channels are no multiple of 32 B, halved as long as halves are that. */
static int64_t rest_of(int64_t lanes, const group_norm_shape *s)
{
    int64_t rest = s->channels % 8 ? lanes / s->groups : 1;
    while (rest % 2 == 0 && rest / 2 * s->channels % 8 == 0)
        rest /= 2;
    return rest;
}

static tg_status backward_short(tg_ctx *ctx, const ascend_plan *plan, const group_norm_shape *s,
                                const tg_group_norm_backward_args *a)
{
    const ascend_memory none = {NULL, 0}, dy = ascend_memory_of(a->dy);
    const ascend_memory x = ascend_memory_of(a->x), dx = ascend_memory_of(a->dx);
    const int64_t rest = rest_of(plan->layout.tile_columns, s), count = plan->layout.blocks * rest;
    const size_t bytes = (size_t)(count * s->channels) * sizeof(float);
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, 2 * bytes, &memory));
    const ascend_partial_sums dweight = {{memory, bytes}, count, s->channels};
    const ascend_partial_sums dbias = {{(char *)memory + bytes, bytes}, count, s->channels};
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, plan, group_norm_backward_short, .dy = &dy, .x = &x, .dx = &dx, .weight = a->weight,
        .mean = a->mean, .rstd = a->rstd, .dweights = a->dweight ? &dweight.memory : &none,
        .dbiases = a->dbias ? &dbias.memory : &none, .groups = s->groups, .width = s->width,
        .rest = rest, .part = part_of(s), .weight_f32 = is_f32(a->weight)));
    if (a->dweight)
        ASCEND_TRY(ascend_sum_partials(ctx, &dweight, a->dweight, a->accumulate));
    return a->dbias ? ascend_sum_partials(ctx, &dbias, a->dbias, a->accumulate) : TG_OK;
}

/* ---- the operators ---- */

/* What both kernels of a way are given. */
#define GROUP_NORM_GIVEN                                                          \
    .batches = s.batches, .groups = s.groups, .width = s.width, .lines = s.lines, \
    .part = part_of(&s)
#define STRIPS_GIVEN .beside = cut.beside, .together = cut.together, .shares = cut.shares

ASCEND_OPERATOR(group_norm_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(group_norm_backward, TG_TAKES_FLOATS);

tg_status ascend_group_norm_forward(tg_ctx *ctx, const tg_group_norm_forward_args *a)
{
    const tg_tensor *const tensors[] = {a->x, a->y};
    const group_norm_shape s = shape_of(tensors, 2, a->num_groups);
    const group_tensor x = merged(a->x, &s), y = merged(a->y, &s);
    ascend_plan plan;
    group_norm_strips cut;
    int fits;
    ASCEND_TRY(choose_short(&plan, &ascend_ub_group_norm[FORWARD_SHORT], tensors, 2, &s, &fits));
    if (fits)
        return forward_short(ctx, &plan, &s, a);
#define FORWARD_GIVEN                                                                            \
    .x = &x.memory, .y = &y.memory, .weight = a->weight, .bias = a->bias, .mean = a->mean,       \
    .rstd = a->rstd, .x_batch = x.batch, .x_line = x.line, .y_batch = y.batch, .y_line = y.line, \
    .weight_f32 = is_f32(a->weight), .bias_f32 = is_f32(a->bias), .eps = a->eps, GROUP_NORM_GIVEN
    ASCEND_TRY(choose_rows(&plan, &ascend_ub_group_norm[FORWARD_ROWS], a->x, &s, &cut, &fits));
    if (fits)
        return ASCEND_LAUNCH(ctx, &plan, group_norm_forward_rows, FORWARD_GIVEN, STRIPS_GIVEN);
    ASCEND_TRY(choose(&plan, &ascend_ub_group_norm[FORWARD], a->x, &s));
    const int64_t shares = ascend_group_norm_shares(&plan, &s),
                  units = s.batches * s.groups * shares;
    const int64_t cores = plan.problem.cores;
    const size_t bytes = (size_t)(3 * s.batches * s.groups * GROUP_NORM_SHARES) * sizeof(float);
    void *memory = NULL;
    if (shares > 1) {
        ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
        plan.layout.blocks = units < cores ? units : cores;
    }
    const ascend_memory parts = {memory, memory ? bytes : 0};
#define SHARES_GIVEN FORWARD_GIVEN, .parts = &parts, .shares = shares
    if (shares > 1)
        ASCEND_TRY(
            ASCEND_LAUNCH(ctx, &plan, group_norm_forward, SHARES_GIVEN, .sums = 1, .writes = 0));
    return ASCEND_LAUNCH(ctx, &plan, group_norm_forward, SHARES_GIVEN, .sums = shares == 1,
                         .writes = 1);
}

tg_status ascend_group_norm_backward(tg_ctx *ctx, const tg_group_norm_backward_args *a)
{
    const tg_tensor *const tensors[] = {a->x, a->dy, a->dx};
    const group_norm_shape s = shape_of(tensors, 3, a->num_groups);
    const group_tensor dy = merged(a->dy, &s), x = merged(a->x, &s), dx = merged(a->dx, &s);
    const ascend_memory none = {NULL, 0};
    ascend_partial_sums dweight, dbias;
    ascend_plan plan;
    group_norm_strips cut;
    int fits;
    ASCEND_TRY(choose_short(&plan, &ascend_ub_group_norm[BACKWARD_SHORT], tensors, 3, &s, &fits));
    if (fits)
        return backward_short(ctx, &plan, &s, a);
    ASCEND_TRY(choose_rows(&plan, &ascend_ub_group_norm[BACKWARD_ROWS], a->x, &s, &cut, &fits));
    if (!fits)
        ASCEND_TRY(choose(&plan, &ascend_ub_group_norm[BACKWARD], a->x, &s));
    const int64_t count = plan.layout.blocks > 0 ? fits ? cut.shares : s.batches : 0;
    ASCEND_TRY(ascend_partials(ctx, 2 * count, s.channels, &dweight));
    dweight.count = count;
    dweight.memory.bytes /= 2;
    dbias = dweight;
    dbias.memory.at = (const char *)dweight.memory.at + dweight.memory.bytes;
#define BACKWARD_GIVEN                                                                        \
    .dy = &dy.memory, .x = &x.memory, .dx = &dx.memory, .weight = a->weight, .mean = a->mean, \
    .rstd = a->rstd, .dweights = a->dweight ? &dweight.memory : &none,                        \
    .dbiases = a->dbias ? &dbias.memory : &none, .partials_stride = dweight.stride,           \
    .dy_batch = dy.batch, .dy_line = dy.line, .x_batch = x.batch, .x_line = x.line,           \
    .dx_batch = dx.batch, .dx_line = dx.line, .weight_f32 = is_f32(a->weight), GROUP_NORM_GIVEN
    if (fits)
        ASCEND_TRY(
            ASCEND_LAUNCH(ctx, &plan, group_norm_backward_rows, BACKWARD_GIVEN, STRIPS_GIVEN));
    else
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, group_norm_backward, BACKWARD_GIVEN));
    if (a->dweight)
        ASCEND_TRY(ascend_sum_partials(ctx, &dweight, a->dweight, a->accumulate));
    return a->dbias ? ascend_sum_partials(ctx, &dbias, a->dbias, a->accumulate) : TG_OK;
}
