/* cross_entropy.c - host of kernels/losses/cross_entropy*.asc.c.
 *
 * Up to three launches a call: the divisors of a mean, the rows, the sum of their losses
 * (cross_entropy_sums.c has the first and the last). One kernel does the rows of both directions:
 * in pieces, one by one, or several whole ones at once. */
#include "cross_entropy.h"

ASCEND_KERNEL(cross_entropy, CROSS_ENTROPY);
ASCEND_KERNEL(cross_entropy_rows, CROSS_ENTROPY_ROWS);
ASCEND_KERNEL(cross_entropy_short, CROSS_ENTROPY_SHORT);

static const char *const ring_options[] = {"class weights", "softcap",     "scratch", "argmax",
                                           "gradient",      "no gradient", NULL};
static const char *const rows_options[] = {
    "gradient", "class weights", "weighted smoothing", "scratch", "softcap", "argmax", NULL};

enum { FORWARD, BACKWARD, FORWARD_ROWS, BACKWARD_ROWS, SHORT };

ASCEND_KERNELS(cross_entropy) = {
    [FORWARD] = {.name = "cross_entropy_forward.ring",
                 ASCEND_BUFFERS(cross_entropy),
                 .max_rows = 1,
                 .option = ring_options},
    [BACKWARD] = {.name = "cross_entropy_backward.ring",
                  ASCEND_BUFFERS(cross_entropy),
                  .max_rows = 1,
                  .option = ring_options},
    [FORWARD_ROWS] = {.name = "cross_entropy_forward.rows",
                      ASCEND_BUFFERS(cross_entropy_rows),
                      .whole_rows = 1,
                      .max_rows = CE_MOST_ROWS,
                      .option = rows_options},
    [BACKWARD_ROWS] = {.name = "cross_entropy_backward.rows",
                       ASCEND_BUFFERS(cross_entropy_rows),
                       .whole_rows = 1,
                       .max_rows = CE_MOST_ROWS,
                       .option = rows_options},
    [SHORT] = ASCEND_SHORT("cross_entropy_forward.short", cross_entropy_short),
    {0},
};

/* ---- a call of either direction ---- */

#define CE_CALL(args)                                                                       \
    {                                                                                       \
        .logits = (args)->logits, .dlogits = (args)->dlogits, .target = (args)->target,     \
        .class_weight = (args)->class_weight, .dloss = (args)->dloss, .lse = (args)->lse,   \
        .rows = tg_numel((args)->target),                                                   \
        .classes = (args)->logits->shape[(args)->logits->ndim - 1],                         \
        .ignore_index = (args)->ignore_index,                                               \
        .flags = ((args)->reduction == TG_MEAN ? CE_MEAN : 0) |                             \
                 ((args)->reduction == TG_NONE ? CE_EACH : 0) |                             \
                 ((args)->token_scaling ? CE_TOKEN : 0),                                    \
        .smoothing = (args)->label_smoothing, .z = (args)->lse_square_scale,                \
        .counted = (args)->batch_target ? (args)->batch_target : (args)->target,            \
        .softcap = (args)->softcap, .grad_scale = (args)->grad_scale, .scale = 1, .unit = 1 \
    }

static tg_status prepare(tg_ctx *ctx, ce_call *c)
{
    const size_t counts = CE_MOST_COUNTS * CE_COUNT_BYTES, each = (size_t)c->rows * sizeof(float);
    char *memory;
    if (c->classes == 0)
        c->smoothing = 0; /* all rows are ignored: there is nothing to smooth */
    if (c->accuracy || c->predicted)
        c->flags |= CE_ARGMAX;
    if (c->class_weight && c->smoothing != 0)
        c->flags |= CE_CLASSES;
    ASCEND_TRY(ascend_cross_entropy_plan_sums(c));
    ASCEND_TRY(ascend_scratch(ctx, counts + 3 * each, (void **)&memory));
    c->counts = (ascend_memory){memory, counts};
    c->losses = (ascend_memory){memory + counts, each};
    c->z_losses = (ascend_memory){memory + counts + each, each};
    c->rights = (ascend_memory){memory + counts + 2 * each, each};
    return TG_OK;
}

/* ---- rows in pieces ---- */

static uint32_t ring_options_of(const ce_call *c)
{
    const uint32_t weighted = c->flags & CE_CLASSES ? CE_WEIGHTED | CE_SCRATCH : 0;
    const uint32_t capped = c->softcap > 0 ? CE_CAPPED | CE_SCRATCH : 0;
    const uint32_t writes = c->dlogits ? CE_WRITES : CE_READS_ALONE;
    return weighted | capped | writes | (c->flags & CE_ARGMAX ? CE_BEST_CLASS : 0);
}

/* Bytes of e in the 64 KiB of UB that the lanes lie in. e is folded into lanes: where they share a
 * bank, each second repeat waits. */
static int64_t in_the_way(const tg_ub_place *e, const tg_ub_place *lanes)
{
    enum { BANKS = 65536 };
    const int64_t end = e->offset + e->bytes, bank = lanes->offset / BANKS * BANKS;
    return end < bank ? 0 : end - (e->offset > bank ? e->offset : bank);
}

static int are_apart(const ascend_plan *plan)
{
    const tg_ub_place *e = &plan->layout.place[ASCEND_NUMBER(cross_entropy, e)];
    return in_the_way(e, &plan->layout.place[ASCEND_NUMBER(cross_entropy, lanes)]) <= e->bytes / 4;
}

/* Rows that are read alone, in the fewest pieces that fit and keep e and the lanes apart. */
static tg_status choose_pieces(ascend_plan *plan)
{
    const int64_t columns = plan->problem.columns, line = 512 / plan->problem.dtype_bytes;
    for (int64_t pieces = 1; pieces <= ASC_RING; pieces++) {
        const int64_t piece = ((columns + pieces - 1) / pieces + line - 1) / line * line;
        if (ascend_fits(plan, 1, piece < columns ? piece : columns) && are_apart(plan))
            return TG_OK;
    }
    return ascend_choose(plan);
}

/* Cuts a long row into somewhat smaller pieces, if these keep e and the lanes apart. */
static void keep_apart(ascend_plan *plan, int again)
{
    enum { LINE = 512 };
    const int64_t line = LINE / plan->problem.dtype_bytes, most = plan->layout.tile_columns;
    const int64_t columns = plan->problem.columns;
    if (most == columns || are_apart(plan))
        return;
    for (int64_t piece = most / line * line; piece > most / 2; piece -= line) {
        ascend_plan smaller = *plan;
        if (!again && (columns + piece - 1) / piece >= ASC_RING)
            return;
        if (ascend_fits(&smaller, 1, piece) && are_apart(&smaller)) {
            *plan = smaller;
            return;
        }
    }
}

/* What both kernels of rows are given. */
#define CE_GIVEN_BY(c)                                                               \
    .logits = (c)->logits, .dlogits = (c)->dlogits, .target = (c)->target,           \
    .class_weight = (c)->class_weight, .dloss = (c)->dloss, .counts = &(c)->counts,  \
    .lse = (c)->lse, .loss = &(c)->loss_to, .z_loss = &(c)->z_loss_to,               \
    .accuracy = &(c)->accuracy_to, .predicted = (c)->predicted, .flags = (c)->flags, \
    .ignore_index = (c)->ignore_index, .smoothing = (c)->smoothing, .z = (c)->z,     \
    .softcap = (c)->softcap, .grad_scale = (c)->grad_scale, .scale = (c)->scale,     \
    .unit = (c)->unit, .logits_rows = ascend_groups_of((c)->logits).rows,            \
    .logits_group = ascend_groups_of((c)->logits).stride,                            \
    .dlogits_rows = ascend_groups_of((c)->dlogits).rows,                             \
    .dlogits_group = ascend_groups_of((c)->dlogits).stride, .count_blocks = (c)->count_blocks

static tg_status run_in_pieces(tg_ctx *ctx, const ce_call *c)
{
    const int saved = (c->flags & CE_SAVED) != 0, writes = c->dlogits != NULL;
    const int64_t columns = c->classes > 0 ? c->classes : 1;
    ascend_plan plan;
    int64_t again = 1;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_cross_entropy[saved ? BACKWARD : FORWARD], c->logits,
                            c->rows, columns, tg_type_of(c->logits), ring_options_of(c)));
    ASCEND_TRY(writes ? ascend_choose_ring(&plan, &again) : choose_pieces(&plan));
    if (c->once && again) {
        ce_call as_saved = *c;
        as_saved.flags ^= CE_TRIED | CE_SAVED;
        as_saved.once = 0;
        return run_in_pieces(ctx, &as_saved);
    }
    keep_apart(&plan, (int)again);
    const int64_t share = (c->rows + plan.layout.blocks - 1) / plan.layout.blocks;
    plan.layout.blocks = (c->rows + share - 1) / share;
    return ASCEND_LAUNCH(ctx, &plan, cross_entropy, CE_GIVEN_BY(c), .writes = writes,
                         .columns = c->classes, .share = share,
                         .reads = !writes || (again && !saved),
                         .out = cross_entropy_out(c->dlogits, c->logits),
                         .roundings = cross_entropy_roundings(c->classes));
}

/* ---- several rows at once ---- */

static uint32_t rows_options_of(const ce_call *c)
{
    return (c->dlogits ? CE_ROWS_WRITES : 0) | (c->class_weight ? CE_ROWS_CLASS_WEIGHT : 0) |
           (c->flags & CE_CLASSES ? CE_ROWS_LIMIT | CE_ROWS_SCRATCH : 0) |
           (c->softcap > 0 ? CE_ROWS_CAPPED | CE_ROWS_SCRATCH : 0) |
           (c->flags & CE_ARGMAX ? CE_ROWS_BEST_CLASS : 0);
}

/* Rows go several at once if two fit; 0 if they do not. */
static int plan_rows(ascend_plan *plan, const ce_call *c)
{
    const int which = c->flags & CE_SAVED ? BACKWARD_ROWS : FORWARD_ROWS;
    return c->classes > 0 && c->classes <= INT16_MAX &&
           cross_entropy_out(c->dlogits, c->logits) == CE_OUT_SAME &&
           ascend_begin(plan, &ascend_ub_cross_entropy[which], c->logits, c->rows, c->classes,
                        tg_type_of(c->logits), rows_options_of(c)) == TG_OK &&
           ascend_fits(plan, 2, c->classes) && ascend_choose(plan) == TG_OK;
}

/* Where a result goes: of each row to its tensor; or, if it is reduced, of each row or
 * block to be summed up. */
static ascend_memory result(const ce_call *c, const tg_tensor *t, ascend_memory sums)
{
    return c->flags & CE_EACH || !t ? ascend_memory_of(t) : sums;
}

/* Rows of few classes, transposed, without the options that are not for them. */
static tg_status plan_short(ascend_plan *plan, const ce_call *c, int *is_short)
{
    *is_short = 0;
    if (c->class_weight || c->softcap > 0 || c->flags & CE_ARGMAX ||
        cross_entropy_out(c->dlogits, c->logits) != CE_OUT_SAME)
        return TG_OK;
    return ASCEND_CHOOSE_SHORT(plan, &ascend_ub_cross_entropy[SHORT],
                               c->dlogits ? CE_ROWS_WRITES : 0, is_short, c->logits, c->dlogits);
}

static tg_status run_short(tg_ctx *ctx, const ascend_plan *plan, const ce_call *c)
{
    const int saved = (c->flags & CE_SAVED) != 0, each = (c->flags & CE_EACH) != 0;
    const ascend_memory none = {NULL, 0};
    const int apart = each && !saved, sums = !each && !saved;
    return ASCEND_LAUNCH(
        ctx, plan, cross_entropy_short, .logits = c->logits, .dlogits = c->dlogits,
        .target = c->target, .dloss = each ? NULL : c->dloss, .each = each ? c->dloss : NULL,
        .saved = saved ? c->lse : NULL, .counts = &c->counts, .lse = saved ? NULL : c->lse,
        .loss = apart ? &c->loss_to : &none, .z_loss = apart ? &c->z_loss_to : &none,
        .losses = sums ? &c->loss_to : &none, .z_losses = sums ? &c->z_loss_to : &none,
        .flags = c->flags, .ignore_index = c->ignore_index, .smoothing = c->smoothing, .z = c->z,
        .grad_scale = c->grad_scale, .scale = c->scale, .unit = c->unit,
        .count_blocks = c->count_blocks);
}

tg_status ascend_cross_entropy_rows(tg_ctx *ctx, ce_call *c)
{
    ascend_plan plan;
    int is_short;
    c->summands = c->rows;
    if (c->rows == 0)
        return TG_OK;
    c->loss_to = result(c, c->loss, c->losses);
    c->z_loss_to = result(c, c->z_loss, c->z_losses);
    c->accuracy_to = result(c, c->accuracy, c->rights);
    ASCEND_TRY(plan_short(&plan, c, &is_short));
    if (!is_short && !plan_rows(&plan, c))
        return run_in_pieces(ctx, c);
    if (c->flags & CE_TRIED) /* here all rows are summed */
        c->lse = NULL;
    c->summands = plan.layout.blocks;
    if (is_short)
        return run_short(ctx, &plan, c);
    return ASCEND_LAUNCH(ctx, &plan, cross_entropy_rows, CE_GIVEN_BY(c),
                         .writes = c->dlogits != NULL);
}

/* ---- the operators, of logits of all classes ---- */

ASCEND_OPERATOR_IF(cross_entropy_forward, TG_TAKES_FLOATS | TG_TAKES_PLANES);
ASCEND_OPERATOR_IF(cross_entropy_backward, TG_TAKES_FLOATS | TG_TAKES_PLANES);

int ascend_cross_entropy_forward_accepts(const tg_cross_entropy_forward_args *args)
{
    return !args->vocab_size;
}

int ascend_cross_entropy_backward_accepts(const tg_cross_entropy_backward_args *args)
{
    return !args->vocab_size;
}

tg_status ascend_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    ce_call c = CE_CALL(args);
    c.loss = args->loss;
    c.z_loss = args->z_loss;
    c.accuracy = args->accuracy;
    c.predicted = args->predicted;
    ASCEND_TRY(prepare(ctx, &c));
    ASCEND_TRY(ascend_cross_entropy_count(ctx, &c));
    ASCEND_TRY(ascend_cross_entropy_rows(ctx, &c));
    return ascend_cross_entropy_finish(ctx, &c);
}

tg_status ascend_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    ce_call c = CE_CALL(args);
    c.flags |= CE_TRIED;
    c.once = 1;
    ASCEND_TRY(prepare(ctx, &c));
    ASCEND_TRY(ascend_cross_entropy_count(ctx, &c));
    return ascend_cross_entropy_rows(ctx, &c);
}
