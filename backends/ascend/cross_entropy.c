/* cross_entropy.c - host of kernels/cross_entropy*.asc.c: a call as its launches; see cross_entropy_launch.c for that of the rows,
 * and cross_entropy_ub.c for what the kernels keep in UB.
 *
 * Up to three launches a call: the divisors of a mean, the rows, the sum of their losses. One kernel does the
 * rows of both directions. */
#include "cross_entropy.h"

/* ---- one call of either direction ---- */

#define CE_CALL(args)                                                                            \
    {                                                                                            \
        .logits = ascend_rows_of((args)->logits, "logits"),                                      \
        .dlogits = ascend_rows_of((args)->dlogits, "dlogits"), .rows = tg_numel((args)->target), \
        .classes = (args)->logits->shape[(args)->logits->ndim - 1],                              \
        .ignore_index = (args)->ignore_index,                                                    \
        .flags = ((args)->reduction == TG_MEAN ? F_MEAN : 0) |                                   \
                 ((args)->reduction == TG_NONE ? F_EACH : 0) |                                   \
                 ((args)->token_scaling ? F_TOKEN : 0),                                          \
        .target = (args)->target, .class_weight = (args)->class_weight, .dloss = (args)->dloss,  \
        .lse = (args)->lse, .smoothing = (args)->label_smoothing, .z = (args)->lse_square_scale, \
        .softcap = (args)->softcap                                                               \
    }

static tg_status prepare(tg_ctx *ctx, ce_call *c)
{
    const size_t counts = MOST_COUNTS * COUNT_BYTES, each = (size_t)c->rows * sizeof(float);
    char *memory;
    if (!ascend_type_suffix(c->logits.type))
        return ascend_host->fail(TG_EUNSUPPORTED,
                                 "cross_entropy: logits are f64, expected f32, bf16 or f16");
    if (c->classes == 0)
        c->smoothing = 0; /* all rows are ignored: there is nothing to smooth */
    if (c->accuracy || c->predicted)
        c->flags |= F_ARGMAX;
    if (c->class_weight && c->smoothing != 0)
        c->flags |= F_CLASSES;
    ASCEND_TRY(ascend_runtime_for(c->target, &c->runtime));
    ASCEND_TRY(ascend_scratch(ctx, c->runtime, counts + 3 * each, (void **)&memory));
    c->counts = ascend_memory(memory, counts, "counts");
    c->losses = ascend_memory(memory + counts, each, "losses");
    c->z_losses = ascend_memory(memory + counts + each, each, "z losses");
    c->rights = ascend_memory(memory + counts + 2 * each, each, "hits");
    const int64_t most = c->rows > c->classes ? c->rows : c->classes;
    c->gathers = c->class_weight && c->classes > 0 && c->classes <= MOST_GATHERED;
    return ascend_plan(c->runtime, &tg_ascend_ub_cross_entropy[SUMS], 1, most > 0 ? most : 1,
                       TG_F32, c->gathers ? GATHERS : 0, &c->sums);
}

/* n, D, W, where they are needed. */
static tg_status count(tg_ctx *ctx, ce_call *c)
{
    const int mean_hits = c->accuracy && !(c->flags & F_EACH);
    if (c->rows == 0 || !((c->flags & (F_MEAN | F_CLASSES)) || mean_hits))
        return TG_OK;
    const int cores = c->runtime->info()->cores, most = cores < MOST_COUNTS ? cores : MOST_COUNTS;
    const int64_t share = (c->rows + most - 1) / most;
    const int64_t class_share = c->flags & F_CLASSES ? (c->classes + most - 1) / most : 0;
    c->count_blocks = class_share ? most : (c->rows + share - 1) / share;
    c->flags |= F_COUNTED;
    const ascend_arg kernel_args[] = {
        ascend_ce_vector(c->target, "target"),
        ascend_ce_vector(c->class_weight, "class_weight"),
        c->counts,
        ascend_i64(c->rows),
        ascend_i64(share),
        ascend_i64(c->classes),
        ascend_i64(class_share),
        ascend_i64(c->sums.tile_columns),
        ascend_i64(c->gathers),
        ascend_i64(c->ignore_index),
        ascend_place(&c->sums, SUM_X),
        ascend_place(&c->sums, SUM_KEPT),
        ascend_place(&c->sums, SUM_INDEX),
        ascend_place(&c->sums, SUM_TARGET),
        ascend_place(&c->sums, SUM_WEIGHTS),
        ascend_place(&c->sums, SUM_LANES),
        ascend_place(&c->sums, SUM_VALUE),
    };
    return ASCEND_RUN(ctx, c->runtime, "cross_entropy_count", TG_F32, c->count_blocks, kernel_args);
}

static tg_status finish(tg_ctx *ctx, const ce_call *c)
{
    if (c->flags & F_EACH)
        return TG_OK;
    const ascend_arg kernel_args[] = {
        c->losses,
        c->z_losses,
        c->rights,
        c->counts,
        ascend_ce_vector(c->loss, "loss"),
        ascend_ce_vector(c->z_loss, "z_loss"),
        ascend_ce_vector(c->accuracy, "accuracy"),
        ascend_i64(c->summands),
        ascend_i64(c->count_blocks),
        ascend_i64(c->sums.tile_columns),
        ascend_place(&c->sums, SUM_X),
        ascend_place(&c->sums, SUM_LANES),
        ascend_place(&c->sums, SUM_VALUE),
    };
    return ASCEND_RUN(ctx, c->runtime, "cross_entropy_finish", TG_F32, 1, kernel_args);
}

tg_status ascend_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    ce_call c = CE_CALL(args);
    c.loss = args->loss;
    c.z_loss = args->z_loss;
    c.accuracy = args->accuracy;
    c.predicted = args->predicted;
    ASCEND_TRY(prepare(ctx, &c));
    ASCEND_TRY(count(ctx, &c));
    ASCEND_TRY(ascend_ce_run_rows(ctx, &c));
    return finish(ctx, &c);
}

tg_status ascend_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    ce_call c = CE_CALL(args);
    c.flags |= F_SAVED;
    ASCEND_TRY(prepare(ctx, &c));
    ASCEND_TRY(count(ctx, &c));
    return ascend_ce_run_rows(ctx, &c);
}
