/* grouped_gemm.c - host of kernels/products/grouped_gemm.cube.asc.c. How many rows a group has is
 * not known here: they are cut as groups of one size would be. */
#include "gemm_cut.h"
#include "kernels/products/grouped_gemm.args.h"

ASCEND_CUBE_KERNEL(grouped_gemm, GROUPED_GEMM);

ASCEND_OPERATOR(grouped_gemm_forward, TG_TAKES_FLOATS);

/* The bias as f32. */
static tg_status bias_of(tg_ctx *ctx, const tg_tensor *bias, ascend_memory *to)
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

tg_status ascend_grouped_gemm_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args)
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
    ASCEND_TRY(bias_of(ctx, args->bias, &bias));
    plan.layout.blocks = p.cores;
    return ASCEND_LAUNCH(
        ctx, &plan, grouped_gemm, .a = &memory[0], .b = &memory[1], .c = &memory[2], .bias = &bias,
        .offset = &memory[3], .gather = &memory[4], .top_k = args->top_k, .a_rows = a.rows,
        .a_stride = a.stride, .b_stride = tg_stride(args->b, 1), .b_step = tg_stride(args->b, 0),
        .b_turned = p.b_turned, .c_stride = c.stride, .c_type = ascend_any(args->c),
        .groups = groups, .rows = c.rows, .n = c.n, .k = a.n, .tile_m = t.tile_m,
        .tile_n = t.tile_n, .packet = t.packet * step, .band = ascend_gemm_band(&p, &t));
}
