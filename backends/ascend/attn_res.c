/* attn_res.c - host of kernels/norms/attn_res.asc.c. A first launch leaves query weight, query and
 * weight in f32; what backward sums over tokens is added up by further ones. */
#include "ascend.h"
#include "kernels/norms/attn_res.args.h"

enum { PREPARE, FORWARD, KEPT, BACKWARD };

ASCEND_KERNEL(attn_res_prepare, ATTN_RES_PREPARE);
ASCEND_FAMILY(attn_res_forward, ATTN_RES_FORWARD_GIVEN);
ASCEND_KERNEL_OF(attn_res_forward, attn_res_forward, ATTN_RES_FORWARD);
ASCEND_KERNEL_OF(attn_res_forward, attn_res_forward_kept, ATTN_RES_FORWARD_KEPT);
ASCEND_KERNEL(attn_res_backward, ATTN_RES_BACKWARD);

/* 255 rows of 255 repeats are what one instruction takes. */
#define TOKENS_KERNEL(kernel)                                                            \
    {                                                                                    \
        .name = #kernel, ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_rows = 255, \
        .max_columns = 255 * 64                                                          \
    }

ASCEND_KERNELS(attn_res) = {[PREPARE] = ASCEND_FLAT(attn_res_prepare),
                            [FORWARD] = TOKENS_KERNEL(attn_res_forward),
                            [KEPT] = TOKENS_KERNEL(attn_res_forward_kept),
                            [BACKWARD] = TOKENS_KERNEL(attn_res_backward),
                            {0}};

static int is_f32(const tg_tensor *t)
{
    return tg_type_of(t) == TG_F32;
}

static uint32_t option_of(int64_t depth)
{
    return depth > ATTN_RES_USUAL ? ATTN_RES_DEEP : ATTN_RES_SHALLOW;
}

/* A block of the launch for each core that has a token. */
static void share_out(ascend_plan *plan, int64_t tokens)
{
    const int64_t cores = plan->problem.cores;
    plan->layout.tasks = tokens;
    plan->layout.blocks = tokens < cores ? tokens : cores;
}

/* Whole rows, of as many blocks of depth as fit; else pieces of one. */
static tg_status choose(ascend_plan *plan, int which, const tg_tensor *v)
{
    const tg_rows rows = tg_rows_of(v);
    const int64_t depth = v->shape[0];
    int fits = 0;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_attn_res[which], v, depth, rows.n, rows.type,
                            option_of(depth)));
    for (int64_t together = depth < 255 ? depth : 255; together > 0 && !fits; together /= 2)
        fits = ascend_fits(plan, together, rows.n);
    for (int64_t pieces = 2; !fits && pieces <= rows.n / 64; pieces++)
        fits = ascend_fits(plan, 1, ((rows.n + pieces - 1) / pieces + 63) / 64 * 64);
    if (!fits)
        return ascend_no_room(plan);
    share_out(plan, rows.rows / depth);
    return TG_OK;
}

/* Tiles of whole rows, of which UB holds all of a token. *fits is 0 if there are none. */
static tg_status choose_kept(ascend_plan *plan, const tg_tensor *v, int *fits)
{
    const tg_rows rows = tg_rows_of(v);
    const int64_t depth = v->shape[0], least = (depth + ATTN_RES_SLOTS - 1) / ATTN_RES_SLOTS;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_attn_res[KEPT], v, depth, rows.n, rows.type,
                            option_of(depth)));
    *fits = 0;
    for (int64_t together = (depth + 1) / 2; together >= least && !*fits; together--)
        *fits = together <= 255 && ascend_fits(plan, together, rows.n);
    if (*fits)
        share_out(plan, rows.rows / depth);
    return TG_OK;
}

/* The vectors, for tensors of the type of v. */
static tg_status prepare(tg_ctx *ctx, const tg_tensor *v, const tg_tensor *query,
                         const tg_tensor *weight, ascend_partial_sums *vectors)
{
    const tg_rows rows = tg_rows_of(v);
    ascend_plan plan;
    ASCEND_TRY(ascend_partials(ctx, ATTN_RES_VECTORS, rows.n, vectors));
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_attn_res[PREPARE], v, 1, rows.n, rows.type, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, attn_res_prepare, .query = query, .weight = weight,
                         .vectors = &vectors->memory, .vectors_stride = vectors->stride,
                         .query_f32 = is_f32(query), .weight_f32 = is_f32(weight));
}

ASCEND_OPERATOR_IF(attn_res_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(attn_res_backward, TG_TAKES_FLOATS);

/* More blocks of depth, or those of which UB has no room for a tile, are left to others. */
static int accepts(int which, const tg_tensor *v)
{
    ascend_plan plan;
    return v->shape[0] <= ATTN_RES_DEPTH && (tg_numel(v) == 0 || choose(&plan, which, v) == TG_OK);
}

int ascend_attn_res_forward_accepts(const tg_attn_res_forward_args *args)
{
    return accepts(FORWARD, args->v);
}

int ascend_attn_res_backward_accepts(const tg_attn_res_backward_args *args)
{
    return accepts(BACKWARD, args->v);
}

tg_status ascend_attn_res_forward(tg_ctx *ctx, const tg_attn_res_forward_args *a)
{
    const tg_rows y = tg_rows_of(a->y);
    ascend_partial_sums vectors;
    ascend_plan plan;
    int kept;
    if (y.rows == 0 || y.n == 0)
        return TG_OK;
    ASCEND_TRY(choose_kept(&plan, a->v, &kept));
    if (!kept)
        ASCEND_TRY(choose(&plan, FORWARD, a->v));
    ASCEND_TRY(prepare(ctx, a->v, a->query, a->weight, &vectors));
    return ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, kept ? &attn_res_forward_kept_kernel : &attn_res_forward_kernel, .v = a->v,
        .vectors = &vectors.memory, .y = a->y, .alpha = a->alpha, .rstd = a->rstd, .tokens = y.rows,
        .mean = 1.0 / (double)y.n, .eps = a->eps);
}

/* Rows [first, first + count) of the partial sums. */
static ascend_partial_sums part_of(const ascend_partial_sums *all, int64_t first, int64_t count)
{
    const size_t row = (size_t)all->stride * sizeof(float);
    const ascend_memory memory = {(const char *)all->memory.at + (size_t)first * row,
                                  (size_t)count * row};
    return (ascend_partial_sums){memory, count, all->stride};
}

tg_status ascend_attn_res_backward(tg_ctx *ctx, const tg_attn_res_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy);
    const int wanted = a->dquery || a->dweight;
    ascend_partial_sums vectors, partials;
    ascend_plan plan;
    int64_t blocks = 0;
    if (dy.n == 0)
        return TG_OK;
    if (dy.rows > 0) {
        ASCEND_TRY(choose(&plan, BACKWARD, a->v));
        blocks = plan.layout.blocks;
    }
    ASCEND_TRY(ascend_partials(ctx, wanted ? 2 * blocks : 0, dy.n, &partials));
    if (dy.rows > 0) {
        ASCEND_TRY(prepare(ctx, a->v, a->query, a->weight, &vectors));
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, attn_res_backward, .dy = a->dy, .v = a->v,
                                 .vectors = &vectors.memory, .alpha = a->alpha, .rstd = a->rstd,
                                 .dv = a->dv, .partials = &partials.memory, .tokens = dy.rows,
                                 .vectors_stride = vectors.stride,
                                 .partials_stride = partials.stride, .mean = 1.0 / (double)dy.n));
    }
    const ascend_partial_sums of_query = part_of(&partials, 0, blocks),
                              of_weight = part_of(&partials, blocks, blocks);
    if (a->dquery)
        ASCEND_TRY(ascend_sum_partials(ctx, &of_query, a->dquery, a->accumulate));
    return a->dweight ? ascend_sum_partials(ctx, &of_weight, a->dweight, a->accumulate) : TG_OK;
}
