/* gemm.c - host of kernels/products/gemm.cube.asc.c; how a product is cut: gemm_cut.c. What the
 * copy out of the cube cores cannot do, another alpha than 1, a sum with c in 16 bits or with
 * another tensor, and sums of several cores' parts, is done by sum_rows, from f32 in memory of the
 * device. */
#include <string.h>

#include "gemm_cut.h"

ASCEND_CUBE_KERNEL(gemm, GEMM);

/* Both are as one: a call of gemm is a batch of one product. Leading dimensions as two, of which
 * the inner one has `inner` products; of a, b and c the elements from one to the next. */
typedef struct batch {
    int64_t products, inner, inner_step[3], outer_step[3];
} batch;

/* 0 if two do not describe them. */
static int batch_of(const tg_gemm_args *args, batch *to)
{
    const tg_tensor *const tensors[] = {args->a, args->b, args->c};
    int64_t size[2] = {1, 1}, step[2][3] = {{0}};
    int groups = 0;
    for (int i = args->c->ndim - 3; i >= 0; i--) {
        const int64_t n = args->c->shape[i];
        int goes_on = groups > 0;
        for (int t = 0; t < 3 && goes_on; t++)
            goes_on = tg_stride(tensors[t], i) == size[groups - 1] * step[groups - 1][t];
        if (n == 1)
            continue;
        if (goes_on) {
            size[groups - 1] *= n;
            continue;
        }
        if (groups == 2)
            return 0;
        for (int t = 0; t < 3; t++)
            step[groups][t] = tg_stride(tensors[t], i);
        size[groups++] = n;
    }
    *to = (batch){.products = size[0] * size[1], .inner = size[0]};
    memcpy(to->inner_step, step[0], sizeof step[0]);
    memcpy(to->outer_step, step[1], sizeof step[1]);
    return 1;
}

/* Size of one of its matrices: -2 its rows, -1 its columns. */
static int64_t size_of(const tg_tensor *t, int dim)
{
    return t->shape[t->ndim + dim];
}

static int64_t inner_of(const tg_gemm_args *args)
{
    return args->alpha == 0 ? 0 : size_of(args->a, args->trans_a ? -2 : -1);
}

/* 1 if another tensor than c is added. */
static int adds(const tg_gemm_args *args)
{
    return args->addend && args->beta != 0;
}

/* Whether c is made by a second launch: the copy out of the cube cores adds to f32 alone. */
static int finishes(const tg_gemm_args *args)
{
    return args->alpha != 1 || adds(args) || (args->beta != 0 && tg_type_of(args->c) != TG_F32) ||
           inner_of(args) == 0;
}

/* What the sum of all parts is multiplied with. */
static double scale_of(const tg_gemm_args *args)
{
    return args->alpha != 0 ? args->alpha : 1;
}

/* The addend as one part more: f32, over what the sum will be multiplied with. */
static tg_status add_part(tg_ctx *ctx, const tg_gemm_args *args, const char *part)
{
    const tg_rows rows = tg_rows_of(args->addend);
    int64_t shape[] = {1, rows.rows, rows.n}, strides[] = {rows.rows * rows.stride, rows.stride, 1};
    tg_tensor from = tg_tensor_of(rows.data, rows.type, 3, shape);
    tg_tensor to = tg_tensor_of((void *)part, TG_F32, 2, &shape[1]);
    from.strides = strides;
    from.device = to.device = args->c->device;
    return ascend_sum_rows_forward(
        ctx,
        &(tg_sum_rows_forward_args){.x = &from, .y = &to, .scale = args->beta / scale_of(args)});
}

/* c = alpha times the sum of `count` tensors of its shape, f32; beta: + c, unless the addend is one
 * of these. Compact ones are added as one row. */
static tg_status finish(tg_ctx *ctx, const tg_gemm_args *args, const void *parts, int64_t count)
{
    const tg_rows rows = tg_rows_of(args->c);
    const int compact = rows.stride == rows.n || rows.rows <= 1;
    int64_t shape[] = {count, rows.rows, rows.n}, line[] = {count, rows.rows * rows.n};
    tg_tensor sums = tg_tensor_of((void *)parts, TG_F32, compact ? 2 : 3, compact ? line : shape);
    tg_tensor c = tg_tensor_of(rows.data, rows.type, 1, &line[1]);
    sums.device = c.device = args->c->device;
    return ascend_sum_rows_forward(
        ctx, &(tg_sum_rows_forward_args){.x = &sums,
                                         .y = compact ? &c : args->c,
                                         .scale = scale_of(args),
                                         .accumulate = args->beta != 0 && !adds(args)});
}

/* Memory for the parts of `splits`, one behind the other, in place of c. */
static tg_status take_parts(tg_ctx *ctx, const gemm_product *p, int64_t splits, batch *b,
                            ascend_memory *to)
{
    void *memory;
    to->bytes = (size_t)(splits * p->count * p->m * p->n) * sizeof(float);
    ASCEND_TRY(ascend_scratch(ctx, to->bytes, &memory));
    to->at = memory;
    b->inner_step[2] = p->m * p->n;
    b->outer_step[2] = b->inner * p->m * p->n;
    return TG_OK;
}

/* Without terms. */
static tg_status finish_alone(tg_ctx *ctx, const tg_gemm_args *args, const gemm_product *p,
                              batch *b)
{
    ascend_memory to = {0};
    if (!adds(args))
        return finish(ctx, args, NULL, 0);
    ASCEND_TRY(take_parts(ctx, p, 1, b, &to));
    ASCEND_TRY(add_part(ctx, args, to.at));
    return finish(ctx, args, to.at, 1);
}

static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *args, batch *b)
{
    const tg_rows a = tg_rows_of(args->a), c = tg_rows_of(args->c);
    ascend_plan plan;
    gemm_product p = {.m = size_of(args->c, -2),
                      .n = size_of(args->c, -1),
                      .k = inner_of(args),
                      .count = b->products,
                      .size = (int64_t)tg_type_size(a.type),
                      .a_turned = args->trans_a != 0,
                      .b_turned = args->trans_b != 0,
                      .out_bytes = (int)tg_type_size(c.type),
                      .finish = finishes(args),
                      .whole = !tg_even_rows(args->c)};
    if (p.m * p.n * p.count == 0)
        return TG_OK;
    const int64_t part = p.count * p.m * p.n;
    if (p.k == 0)
        return finish_alone(ctx, args, &p, b);
    ASCEND_TRY(ascend_begin(&plan, NULL, args->a, p.m, p.n, a.type, 0));
    p.cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    const gemm_cut t = ascend_gemm_cut(&p);
    const int direct = !p.finish && t.splits == 1;
    const int64_t step = GEMM_STEP_BYTES / p.size, units = ascend_gemm_units(&p, &t);
    ascend_memory to = ascend_memory_of(args->c);
    if (!direct)
        ASCEND_TRY(take_parts(ctx, &p, t.splits + adds(args), b, &to));
    plan.layout.blocks = units < p.cores ? units : p.cores;
    plan.cycles = ascend_gemm_cycles(&p, &t);
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, gemm, .a = args->a, .b = args->b, .c = &to, .c_stride = direct ? c.stride : p.n,
        .c_split = part, .c_type = direct ? ascend_any(args->c) : ASC_ANY_F32, .m = p.m, .n = p.n,
        .k = p.k, .a_turned = p.a_turned, .b_turned = p.b_turned, .add = direct && args->beta != 0,
        .tile_m = t.tile_m, .tile_n = t.tile_n, .k_share = t.share * step, .splits = t.splits,
        .packet = t.packet * step, .band = ascend_gemm_band(&p, &t), .products = p.count,
        .inner = b->inner, .a_inner = b->inner_step[0], .a_outer = b->outer_step[0],
        .b_inner = b->inner_step[1], .b_outer = b->outer_step[1], .c_inner = b->inner_step[2],
        .c_outer = b->outer_step[2]));
    if (adds(args))
        ASCEND_TRY(
            add_part(ctx, args, (const char *)to.at + t.splits * part * (int64_t)sizeof(float)));
    return direct ? TG_OK : finish(ctx, args, to.at, t.splits + adds(args));
}

ASCEND_OPERATOR(gemm, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(batched_gemm, TG_TAKES_FLOATS);

tg_status ascend_gemm(tg_ctx *ctx, const tg_gemm_args *args)
{
    batch one = {.products = 1, .inner = 1};
    return multiply(ctx, args, &one);
}

static tg_gemm_args as_gemm(const tg_batched_gemm_args *args)
{
    return (tg_gemm_args){args->a,       args->b,       args->addend, args->c,
                          args->trans_a, args->trans_b, args->alpha,  args->beta};
}

tg_status ascend_batched_gemm(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = as_gemm(args);
    batch b;
    return batch_of(&all, &b) ? multiply(ctx, &all, &b) : TG_EUNSUPPORTED;
}

/* Other batches are made product by product. */
int ascend_batched_gemm_accepts(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = as_gemm(args);
    batch b;
    return batch_of(&all, &b) && (tg_even_rows(args->c) || !finishes(&all)) &&
           (!adds(&all) || tg_even_rows(args->addend));
}
