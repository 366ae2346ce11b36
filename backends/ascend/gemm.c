/* gemm.c - host of kernels/products/gemm.cube.asc.c: how a product is cut. What the copy out of the
 * cube cores cannot do, another alpha than 1, a sum with c in 16 bits or with another tensor, and
 * sums of several cores' parts, is done by sum_rows, from f32 in memory of the device. */
#include <math.h>
#include <string.h>

#include "ascend.h"
#include "kernels/products/gemm.args.h"

ASCEND_CUBE_KERNEL(gemm, GEMM);

typedef struct product {
    int64_t m, n, k, count; /* so many products of these sizes */
    int64_t size;           /* bytes of an element of a and b */
    int a_turned, b_turned, out_bytes, cores;
    int finish, whole; /* c is made by a second launch; no core's part is of a part of k */
} product;

/* splits: of k, each of `share` steps; packet: steps that come to L1 at a time. */
typedef struct cut {
    int64_t tile_m, tile_n, share, splits, packet;
} cut;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- the cut: the least time by these figures, in cycles of a core ---- */

enum {
    SIDE = 16, /* tiles are whole fractals */
    MOST_SIDE = GEMM_L0 / GEMM_STEP_BYTES,
    MOST_PACKET = 4,   /* rows of 512 B: longer ones that begin anywhere cost memory more */
    PRODUCT_START = 9, /* of mmad behind another */
    PRODUCT_WAIT = 70, /* where a barrier must stand between two */
    LOAD_START = 24,   /* of an instruction that fills L0 */
    COPY_START = 300,  /* until the first bytes have come */
    LAUNCH = 4000,     /* of a second kernel */
    OUT_BYTES = 70,    /* a cycle, of copies out of L0C */
    L2_BYTES = 85,     /* a cycle, of copies in */
    HBM_BYTES = 32,    /* a cycle and core, of the memory */
    SUM_BYTES = 40     /* a cycle and cube core, of the second kernel */
};
static const double row_cycles = 3.5; /* of a copy in, at least */

/* Cycles that a step of `count` rows or columns of an operand takes to come to L1. */
static double bring_cycles(const product *p, int turned, int64_t count, int64_t packet)
{
    if (turned)
        return (double)GEMM_STEP_BYTES / (double)p->size *
               fmax(row_cycles, (double)(count * p->size) / L2_BYTES);
    return (double)count * fmax(row_cycles / (double)packet, (double)GEMM_STEP_BYTES / L2_BYTES);
}

static double step_cycles(const product *p, const cut *c, double *bring)
{
    const double fractals = (double)(c->tile_m / SIDE * c->tile_n / SIDE);
    const double multiply =
        fractals * (p->size == 4 ? 8 : 4) + (fractals < 10 ? PRODUCT_WAIT : PRODUCT_START);
    const double load = (double)c->tile_m / 2 + (double)c->tile_n +
                        LOAD_START * (p->b_turned    ? 2
                                      : p->size == 4 ? 3
                                                     : 5);
    *bring = bring_cycles(p, p->a_turned, c->tile_m, c->packet) +
             bring_cycles(p, !p->b_turned, c->tile_n, c->packet);
    return fmax(fmax(multiply, load), *bring);
}

static double cycles(const product *p, const cut *c)
{
    const int64_t tiles = ceil_div(p->m, c->tile_m) * ceil_div(p->n, c->tile_n);
    const int64_t rounds = ceil_div(tiles * c->splits * p->count, p->cores);
    const double results = (double)p->m * (double)p->n * (double)p->count;
    const int out = c->splits > 1 || p->finish ? 4 : p->out_bytes;
    double bring;
    const double step = step_cycles(p, c, &bring);
    const double copy_out =
        (double)(c->tile_m * c->tile_n) * fmax(1.0 / 64, (double)out / OUT_BYTES);
    const double work = (double)rounds * fmax((double)c->share * step, copy_out) + copy_out;
    const double once =
        ((double)(p->m + p->n) * (double)(p->k * p->count * p->size) + results * p->out_bytes) /
        (HBM_BYTES * p->cores);
    const double sum =
        c->splits > 1 || p->finish
            ? LAUNCH + results * (double)(4 * c->splits + p->out_bytes) / (SUM_BYTES * p->cores)
            : 0;
    /* neither is hidden wholly behind the other */
    return COPY_START + bring * (double)c->packet + fmax(work, once) + fmin(work, once) / 8 + sum;
}

static void consider(const product *p, cut c, double *best, cut *to)
{
    const int64_t room = GEMM_L1 / (GEMM_PACKETS * GEMM_STEP_BYTES * (c.tile_m + c.tile_n));
    for (c.packet = 1; c.packet <= room && c.packet <= MOST_PACKET; c.packet++) {
        const double found = cycles(p, &c);
        if (found < *best) {
            *best = found;
            *to = c;
        }
    }
}

/* All tiles that L0 holds, with k whole or, if there are fewer tiles than cores, shared out. */
static cut choose(const product *p)
{
    const int64_t steps = ceil_div(p->k, GEMM_STEP_BYTES / p->size);
    const int64_t most_m = ceil_div(p->m, SIDE) * SIDE, most_n = ceil_div(p->n, SIDE) * SIDE;
    double best = INFINITY;
    cut found = {0};
    for (int64_t m = SIDE; m <= most_m && m <= MOST_SIDE; m += SIDE)
        for (int64_t n = SIDE; n <= most_n && n <= MOST_SIDE && m * n * 4 <= GEMM_L0C; n += SIDE) {
            const int64_t tiles = ceil_div(p->m, m) * ceil_div(p->n, n) * p->count;
            const int64_t most = p->whole ? 1 : steps;
            for (int64_t splits = 1; splits <= most && (splits == 1 || tiles * splits <= p->cores);
                 splits++) {
                const int64_t share = ceil_div(steps, splits);
                consider(p, (cut){m, n, share, ceil_div(steps, share), 0}, &best, &found);
            }
        }
    return found;
}

/* Rows of tiles that are gone through together: what the cores read at a time is about square. */
static int64_t band_of(const product *p, const cut *c)
{
    const int64_t rows = llround(sqrt((double)(p->cores * c->tile_n) / (double)c->tile_m));
    return rows < 1 ? 1 : rows;
}

/* ---- the operators ---- */

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
static tg_status take_parts(tg_ctx *ctx, const product *p, int64_t splits, batch *b,
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
static tg_status finish_alone(tg_ctx *ctx, const tg_gemm_args *args, const product *p, batch *b)
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
    product p = {.m = size_of(args->c, -2),
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
    const cut t = choose(&p);
    const int direct = !p.finish && t.splits == 1;
    const int64_t step = GEMM_STEP_BYTES / p.size,
                  units = ceil_div(p.m, t.tile_m) * ceil_div(p.n, t.tile_n) * t.splits * p.count;
    ascend_memory to = ascend_memory_of(args->c);
    if (!direct)
        ASCEND_TRY(take_parts(ctx, &p, t.splits + adds(args), b, &to));
    plan.layout.blocks = units < p.cores ? units : p.cores;
    plan.cycles = cycles(&p, &t);
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, gemm, .a = args->a, .b = args->b, .c = &to, .c_stride = direct ? c.stride : p.n,
        .c_split = part, .c_type = direct ? ascend_any(args->c) : ASC_ANY_F32, .m = p.m, .n = p.n,
        .k = p.k, .a_turned = p.a_turned, .b_turned = p.b_turned, .add = direct && args->beta != 0,
        .tile_m = t.tile_m, .tile_n = t.tile_n, .k_share = t.share * step, .splits = t.splits,
        .packet = t.packet * step, .band = band_of(&p, &t), .products = p.count, .inner = b->inner,
        .a_inner = b->inner_step[0], .a_outer = b->outer_step[0], .b_inner = b->inner_step[1],
        .b_outer = b->outer_step[1], .c_inner = b->inner_step[2], .c_outer = b->outer_step[2]));
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
