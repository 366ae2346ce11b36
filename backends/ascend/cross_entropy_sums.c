/* cross_entropy_sums.c - host of kernels/losses/cross_entropy_sums.asc.c: the divisors of a mean,
 * and the sum of the losses. */
#include "cross_entropy.h"

ASCEND_KERNEL(cross_entropy_count, CROSS_ENTROPY_COUNT);
ASCEND_KERNEL(cross_entropy_finish, CROSS_ENTROPY_FINISH);

static const char *const options[] = {"gathered class weights", NULL};

/* `finish` has the buffers of `count`. */
ASCEND_KERNELS(cross_entropy_sums) = {{.name = "cross_entropy_forward.sums",
                                       ASCEND_BUFFERS(cross_entropy_count),
                                       .max_rows = 1,
                                       .option = options},
                                      {0}};

static int gathers(const ce_call *c)
{
    return c->class_weight && c->classes > 0 && c->classes <= CE_MOST_GATHERED;
}

tg_status ascend_cross_entropy_plan_sums(ce_call *c)
{
    const int64_t counted = tg_numel(c->counted);
    const int64_t most = counted > c->classes ? counted : c->classes;
    ASCEND_TRY(ascend_begin(&c->sums, &ascend_ub_cross_entropy_sums[0], c->target, 1,
                            most > 0 ? most : 1, TG_F32, gathers(c) ? CE_GATHERS : 0));
    return ascend_choose(&c->sums);
}

tg_status ascend_cross_entropy_count(tg_ctx *ctx, ce_call *c)
{
    const int mean_hits = c->accuracy && !(c->flags & CE_EACH);
    const int64_t rows = tg_numel(c->counted);
    if (rows == 0 || !((c->flags & (CE_MEAN | CE_CLASSES)) || mean_hits))
        return TG_OK;
    const int cores = c->sums.problem.cores, most = cores < CE_MOST_COUNTS ? cores : CE_MOST_COUNTS;
    const int64_t share = (rows + most - 1) / most;
    const int64_t class_share = c->flags & CE_CLASSES ? (c->classes + most - 1) / most : 0;
    c->count_blocks = class_share ? most : (rows + share - 1) / share;
    c->flags |= CE_COUNTED;
    c->sums.layout.blocks = c->count_blocks;
    return ASCEND_LAUNCH(ctx, &c->sums, cross_entropy_count, .target = c->counted,
                         .class_weight = c->class_weight, .counts = &c->counts, .rows = rows,
                         .share = share, .classes = c->classes, .class_share = class_share,
                         .gathers = gathers(c), .ignore_index = c->ignore_index);
}

tg_status ascend_cross_entropy_finish(tg_ctx *ctx, ce_call *c)
{
    if (c->flags & CE_EACH)
        return TG_OK;
    c->sums.layout.blocks = 1;
    return ASCEND_LAUNCH(ctx, &c->sums, cross_entropy_finish, .losses = &c->losses,
                         .z_losses = &c->z_losses, .rights = &c->rights, .counts = &c->counts,
                         .loss = c->loss, .z_loss = c->z_loss, .accuracy = c->accuracy,
                         .rows = c->summands, .count_blocks = c->count_blocks);
}
