/* grouped_gemm.c - host of kernels/products/grouped_gemm.cube.asc.c. How many rows a group has is
 * not known here: they are cut as groups of one size would be. */
#include "grouped_gemm.h"
#include "gemm_cut.h"
#include "indices.h"
#include "kernels/products/grouped_gemm.args.h"

ASCEND_CUBE_KERNEL(grouped_gemm, GROUPED_GEMM);

ASCEND_CUBE_KERNEL(grouped_matrices, GROUPED_MATRICES);

ASCEND_OPERATOR(grouped_gemm_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(grouped_gemm_backward, TG_TAKES_FLOATS);

tg_status ascend_wide_of(tg_ctx *ctx, const tg_tensor *bias, ascend_memory *to)
{
    *to = ascend_memory_of(bias);
    if (!bias || tg_type_of(bias) == TG_F32)
        return TG_OK;
    void *memory;
    to->bytes = (size_t)(bias->shape[0] * bias->shape[1]) * sizeof(float);
    ASCEND_TRY(ascend_scratch(ctx, to->bytes, &memory));
    tg_tensor wide = tg_tensor_of(memory, TG_F32, 2, bias->shape);
    wide.device = bias->device;
    to->at = memory;
    return ascend_convert(ctx, bias, &wide);
}

/* Beside the packets there is room for the bias. */
static gemm_cut cut_of(const gemm_product *p)
{
    gemm_cut t = ascend_gemm_cut(p);
    while (t.packet > 1 && GEMM_PACKETS * GEMM_STEP_BYTES * t.packet * (t.tile_m + t.tile_n) >
                               GEMM_L1 - GROUPED_BIAS)
        t.packet--;
    return t;
}

tg_status ascend_groups_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    const tg_rows a = tg_rows_of(args->a), c = tg_rows_of(args->c);
    const int64_t groups = args->b->shape[0],
                  each = groups > 0 ? (c.rows + groups - 1) / groups : 1;
    const ascend_memory memory[] = {ascend_memory_of(args->a), ascend_memory_of(args->b),
                                    ascend_memory_of(args->c), ascend_memory_of(args->offset),
                                    ascend_memory_of(args->gather)};
    ascend_plan plan;
    gemm_product p = {.m = each > 0 ? each : 1,
                      .n = c.n,
                      .k = a.n > 0 ? a.n : 1,
                      .count = groups > 0 ? groups : 1,
                      .size = (int64_t)tg_type_size(a.type),
                      .b_turned = !args->transposed,
                      .out_bytes = (int)tg_type_size(c.type),
                      .whole = 1};
    if (c.rows * c.n == 0)
        return TG_OK;
    ASCEND_TRY(ascend_begin(&plan, NULL, args->a, c.rows, c.n, a.type, 0));
    p.cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    const gemm_cut t = cut_of(&p);
    const int64_t step = GEMM_STEP_BYTES / p.size;
    ascend_memory bias;
    ASCEND_TRY(ascend_wide_of(ctx, args->bias, &bias));
    plan.layout.blocks = p.cores;
    return ASCEND_LAUNCH(
        ctx, &plan, grouped_gemm, .a = &memory[0], .b = &memory[1], .c = &memory[2], .bias = &bias,
        .offset = &memory[3], .gather = &memory[4], .top_k = args->top_k, .a_rows = a.rows,
        .a_stride = a.stride, .b_stride = tg_stride(args->b, 1), .b_step = tg_stride(args->b, 0),
        .b_turned = p.b_turned, .c_stride = c.stride, .c_type = ascend_any(args->c),
        .groups = groups, .rows = c.rows, .n = c.n, .k = a.n, .tile_m = t.tile_m,
        .tile_n = t.tile_n, .packet = t.packet * step, .band = ascend_gemm_band(&p, &t));
}

/* ---- gradients ---- */

/* The rows' gradients are products with the same matrices, turned. */
static tg_status rows_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    return ascend_groups_forward(ctx,
                                 &(tg_grouped_gemm_forward_args){.a = args->dc,
                                                                 .b = args->b,
                                                                 .offset = args->offset,
                                                                 .c = args->da,
                                                                 .transposed = !args->transposed});
}

/* db += f32 sums of its shape: rows of any stride, in its type. */
static tg_status add_matrices(tg_ctx *ctx, const tg_tensor *db, const ascend_memory *sums)
{
    const tg_rows to = tg_rows_of(db);
    int64_t shape[] = {1, to.rows, to.n}, strides[] = {to.stride, 1};
    tg_tensor from = tg_tensor_of((void *)sums->at, TG_F32, 3, shape);
    tg_tensor rows = tg_tensor_of(to.data, to.type, 2, &shape[1]);
    rows.strides = strides;
    from.device = rows.device = db->device;
    return ascend_sum_rows_forward(
        ctx, &(tg_sum_rows_forward_args){.x = &from, .y = &rows, .scale = 1, .accumulate = 1});
}

/* A result of 16 bits that is added to is made by a second launch. */
static tg_status matrices_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    const tg_tensor *db = args->db;
    const tg_rows to = tg_rows_of(db), dc = tg_rows_of(args->dc), a = tg_rows_of(args->a);
    const int apart = args->accumulate && to.type != TG_F32;
    const int64_t groups = db->shape[0], m = db->shape[1], each = (dc.rows + groups - 1) / groups;
    const ascend_memory rows[] = {ascend_memory_of(args->dc), ascend_memory_of(args->a)},
                        gather = ascend_memory_of(args->gather), none = {0},
                        offset = ascend_memory_of(args->offset);
    const int left = args->transposed != 0; /* of both, the one on the left */
    ascend_memory c = ascend_memory_of(db);
    ascend_plan plan;
    gemm_product p = {.m = m,
                      .n = to.n,
                      .k = each > 0 ? each : 1,
                      .count = groups,
                      .size = (int64_t)tg_type_size(a.type),
                      .a_turned = 1,
                      .out_bytes = apart ? 4 : (int)tg_type_size(to.type),
                      .whole = 1};
    ASCEND_TRY(ascend_begin(&plan, NULL, args->dc, m, to.n, a.type, 0));
    p.cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    const gemm_cut t = ascend_gemm_cut(&p);
    const int64_t units = ascend_gemm_units(&p, &t), step = GEMM_STEP_BYTES / p.size;
    if (apart) {
        void *memory;
        c.bytes = (size_t)(groups * m * to.n) * sizeof(float);
        ASCEND_TRY(ascend_scratch(ctx, c.bytes, &memory));
        c.at = memory;
    }
    plan.layout.blocks = units < p.cores ? units : p.cores;
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, grouped_matrices, .left = &rows[left], .right = &rows[!left], .c = &c,
        .offset = &offset, .left_gather = left ? &gather : &none,
        .right_gather = left ? &none : &gather, .top_k = args->top_k,
        .left_stride = left ? a.stride : dc.stride, .right_stride = left ? dc.stride : a.stride,
        .c_stride = apart ? to.n : to.stride, .c_step = m * (apart ? to.n : to.stride),
        .c_type = apart ? ASC_ANY_F32 : ascend_any(db), .groups = groups, .m = m, .n = to.n,
        .add = args->accumulate && !apart, .tile_m = t.tile_m, .tile_n = t.tile_n,
        .packet = t.packet * step, .band = ascend_gemm_band(&p, &t)));
    return apart ? add_matrices(ctx, db, &c) : TG_OK;
}

tg_status ascend_groups_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    if (args->da)
        ASCEND_TRY(rows_backward(ctx, args));
    if (args->db && tg_numel(args->db) > 0)
        ASCEND_TRY(matrices_backward(ctx, args));
    if (args->dbias)
        ASCEND_TRY(ascend_sum_groups(ctx, &(ascend_group_sums){.x = args->dc,
                                                               .y = args->dbias,
                                                               .offset = args->offset,
                                                               .accumulate = args->accumulate}));
    return TG_OK;
}

/* ---- the operators: indices first ---- */

typedef struct numbers {
    tg_tensor offset, gather;
} numbers;

static tg_status look(tg_ctx *ctx, const char *of_offset, const char *of_gather,
                      const tg_tensor *offset, const tg_tensor *gather, int64_t rows,
                      const tg_tensor *a, int64_t top_k, numbers *to)
{
    const int64_t last = gather ? tg_rows_of(a).rows * top_k - 1 : 0;
    ASCEND_TRY(ascend_look_rising(ctx, of_offset, offset, rows, &to->offset));
    return ascend_look(ctx, of_gather, gather, 0, last, 0, &to->offset, &to->gather);
}

tg_status ascend_grouped_gemm_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
{
    tg_grouped_gemm_forward_args good = *args;
    numbers n;
    ASCEND_TRY(look(ctx, "grouped_gemm_forward: offset", "grouped_gemm_forward: gather",
                    args->offset, args->gather, tg_rows_of(args->c).rows, args->a, args->top_k,
                    &n));
    good.offset = &n.offset;
    good.gather = args->gather ? &n.gather : NULL;
    return ascend_groups_forward(ctx, &good);
}

tg_status ascend_grouped_gemm_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args)
{
    tg_grouped_gemm_backward_args good = *args;
    numbers n;
    ASCEND_TRY(look(ctx, "grouped_gemm_backward: offset", "grouped_gemm_backward: gather",
                    args->offset, args->gather, tg_rows_of(args->dc).rows, args->a, args->top_k,
                    &n));
    good.offset = &n.offset;
    good.gather = args->gather ? &n.gather : NULL;
    return ascend_groups_backward(ctx, &good);
}
