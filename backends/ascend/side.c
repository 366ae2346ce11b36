/* side.c - launches of a side, kept until they can be made beside others; see side.h. */
#include <stdlib.h>
#include <string.h>

#include "ascend.h"
#include "side.h"

enum { MOST_KEPT = 16 };

/* Of a context. */
typedef struct side {
    int open; /* it has not ended */
    int count;
    ascend_ready list[MOST_KEPT];
} side;

static side *side_of(tg_ctx *ctx)
{
    const ascend_state *state = ascend_state_of(ctx);
    return state ? state->side : NULL;
}

/* Products that are made beside other launches. The mix kernel has the type that is not named, of
 * the product or of the other; if neither is, both are of it. */
enum { ANY = -1 };
static const struct twin {
    const char *product, *kernel;
    int product_type, type;
    double elements; /* that a vector core does in a cycle, about */
    ascend_kernel both;
} twins[] = {
    {"gemm",
     "cross_entropy",
     ANY,
     TG_F32,
     3.8,
     {"gemm_beside_cross_entropy", ASCEND_MIX_CORES, 0, NULL, __FILE__}},
    {"gemm",
     "softmax_jsd",
     ANY,
     TG_F32,
     0.3,
     {"gemm_beside_softmax_jsd", ASCEND_MIX_CORES, 0, NULL, __FILE__}},
    {"gemm",
     "mhc_squares",
     ANY,
     ANY,
     12,
     {"gemm_beside_mhc_squares", ASCEND_MIX_CORES, 0, NULL, __FILE__}},
    {"gemm",
     "mhc_coeffs_dx",
     TG_F32,
     ANY,
     8,
     {"gemm_beside_mhc_coeffs_dx", ASCEND_MIX_CORES, 0, NULL, __FILE__}},
};

static int suits(const struct twin *twin, const ascend_ready *product, const ascend_ready *other)
{
    const int a = product->plan.type, b = other->plan.type;
    return (twin->product_type == ANY || twin->product_type == a) &&
           (twin->type == ANY || twin->type == b) &&
           (twin->product_type != ANY || twin->type != ANY || a == b);
}

static const struct twin *twin_of(const ascend_ready *product, const ascend_ready *other)
{
    for (int i = 0; i < ASCEND_COUNT(twins); i++)
        if (!strcmp(product->kernel->name, twins[i].product) &&
            !strcmp(other->kernel->name, twins[i].kernel) && suits(&twins[i], product, other) &&
            product->plan.runtime == other->plan.runtime)
            return &twins[i];
    return NULL;
}

static void forget_first(side *s, int count)
{
    s->count -= count;
    memmove(s->list, s->list + count, (size_t)s->count * sizeof *s->list);
}

/* Makes the first launches that are kept, and forgets them. */
static tg_status make_first(tg_ctx *ctx, side *s, int count)
{
    for (int i = 0; i < count; i++)
        ASCEND_TRY(ascend_make(ctx, &s->list[i]));
    forget_first(s, count);
    return TG_OK;
}

/* How many vector cores do the blocks of a kernel in about the product's time;
 * all if they do not. */
static int64_t vector_cores(const struct twin *twin, const ascend_ready *product,
                            const ascend_ready *other)
{
    const tg_ub_problem *p = &other->plan.problem;
    const int64_t blocks = other->plan.layout.blocks;
    const double block = (double)p->rows * (double)p->columns / (double)blocks / twin->elements;
    const int64_t each = block > 0 ? (int64_t)(product->plan.cycles / block) : 1;
    return each > 1 ? (blocks + each - 1) / each : blocks;
}

/* The mix kernel's arguments are the product's, the other's, how many blocks the other has and how
 * many vector cores do them. */
static tg_status make_both(tg_ctx *ctx, const struct twin *twin, const ascend_ready *product,
                           const ascend_ready *other)
{
    ascend_ready both = *other;
    ascend_arguments *args = &both.args;
    const int64_t blocks = other->plan.layout.blocks, mixed = (blocks + 1) / 2,
                  cubes = product->plan.layout.blocks;
    both.kernel = &twin->both;
    both.plan.type = twin->product_type == ANY ? product->plan.type : other->plan.type;
    both.plan.layout.blocks = mixed > cubes ? mixed : cubes;
    *args = product->args;
    memcpy(args->list + args->n, other->args.list, (size_t)other->args.n * sizeof *args->list);
    args->n += other->args.n;
    args->list[args->n++] = (ascend_arg){.word = (uint64_t)blocks};
    args->list[args->n++] = (ascend_arg){.word = (uint64_t)vector_cores(twin, product, other)};
    return ascend_make(ctx, &both);
}

static tg_status keep(tg_ctx *ctx, side *s, const ascend_ready *launch)
{
    if (s->count == MOST_KEPT)
        ASCEND_TRY(make_first(ctx, s, MOST_KEPT));
    s->list[s->count++] = *launch;
    return TG_OK;
}

tg_status ascend_make_or_keep(tg_ctx *ctx, const ascend_ready *launch)
{
    side *s = side_of(ctx);
    if (s && s->open)
        return keep(ctx, s, launch);
    for (int i = 0; s && i < s->count; i++) {
        const struct twin *twin = twin_of(launch, &s->list[i]);
        if (!twin)
            continue;
        ASCEND_TRY(make_first(ctx, s, i));
        ASCEND_TRY(make_both(ctx, twin, launch, &s->list[0]));
        forget_first(s, 1);
        return TG_OK;
    }
    return ascend_make(ctx, launch);
}

static tg_status begin(tg_ctx *ctx)
{
    ascend_state *state = ascend_state_of(ctx);
    if (state && !state->side)
        state->side = calloc(1, sizeof *state->side);
    if (!state || !state->side)
        return ascend_host->fail(TG_ENOMEM, "ascend: no memory for a side");
    state->side->open = 1;
    return TG_OK;
}

tg_status ascend_side(tg_ctx *ctx, tg_side_step step)
{
    if (step == TG_SIDE_BEGIN)
        return begin(ctx);
    side *s = side_of(ctx);
    if (!s) /* it could not begin */
        return TG_OK;
    s->open = 0;
    if (step == TG_SIDE_JOIN)
        return make_first(ctx, s, s->count);
    if (step == TG_SIDE_DROP)
        s->count = 0;
    return TG_OK;
}

tg_status ascend_side_so_far(tg_ctx *ctx)
{
    side *s = side_of(ctx);
    return s && s->open ? make_first(ctx, s, s->count) : TG_OK;
}
