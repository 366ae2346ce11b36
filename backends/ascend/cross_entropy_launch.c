/* cross_entropy_launch.c - how the rows of a call are cut, and the launch of their kernel: in pieces, one by one, or several at
 * once. */
#include "cross_entropy.h"

/* dlogits beside logits: of their type, or of 16 bits beside f32. */
enum { OUT_SAME, OUT_BF16, OUT_F16 };

ascend_arg ascend_ce_vector(const tg_tensor *t, const char *name)
{
    if (!t)
        return ascend_memory(NULL, 0, name);
    return ascend_memory((char *)t->data + t->byte_offset,
                         (size_t)tg_numel(t) * tg_type_size(tg_type_of(t)), name);
}

/* A result of each row by itself, or what a block's rows add to it. */
static ascend_arg result(const ce_call *c, const tg_tensor *t, ascend_arg sums, const char *name)
{
    return c->flags & F_EACH || !t ? ascend_ce_vector(t, name) : sums;
}

/* What either kernel begins with, and what it takes behind its grid. */
#define CE_TENSORS(c)                                                                          \
    ascend_tensor(&(c)->logits), ascend_tensor(&(c)->dlogits),                                 \
        ascend_ce_vector((c)->target, "target"),                                               \
        ascend_ce_vector((c)->class_weight, "class_weight"),                                   \
        ascend_ce_vector((c)->dloss, "dloss"), (c)->counts, ascend_ce_vector((c)->lse, "lse"), \
        result((c), (c)->loss, (c)->losses, "loss"),                                           \
        result((c), (c)->z_loss, (c)->z_losses, "z_loss"),                                     \
        result((c), (c)->accuracy, (c)->rights, "accuracy"),                                   \
        ascend_ce_vector((c)->predicted, "predicted"), ascend_i64((c)->logits.stride),         \
        ascend_i64((c)->dlogits.stride)
#define CE_OPTIONS(c)                                                                  \
    ascend_i64((c)->flags), ascend_i64((c)->ignore_index), ascend_f32((c)->smoothing), \
        ascend_f32((c)->z), ascend_f32((c)->softcap)

static int64_t out_type(const ce_call *c)
{
    if (!c->dlogits.data || c->dlogits.type == c->logits.type)
        return OUT_SAME;
    return c->dlogits.type == TG_BF16 ? OUT_BF16 : OUT_F16;
}

static uint32_t options_of(const ce_call *c)
{
    const uint32_t weighted = c->flags & F_CLASSES ? WEIGHTED | SCRATCH : 0;
    const uint32_t capped = c->softcap > 0 ? CAPPED | SCRATCH : 0;
    return weighted | capped | (c->flags & F_ARGMAX ? ARGMAX : 0);
}

/* Bytes of e in the 64 KiB of UB that the lanes lie in. e is folded into lanes: where they share a bank, each second
 * repeat waits. */
static int64_t in_the_way(const tg_ub_layout *layout)
{
    enum { BANKS = 65536 };
    const int64_t begin = layout->place[E].offset, end = begin + layout->place[E].bytes;
    const int64_t bank = layout->place[LANES].offset / BANKS * BANKS;
    return end < bank ? 0 : end - (begin > bank ? begin : bank);
}

/* Cuts a long row into somewhat smaller pieces, if these keep e and the lanes apart. */
static tg_status keep_apart(const tg_ub_kernel *kernel, const ce_call *c, int again,
                            tg_ub_layout *layout)
{
    enum { LINE = 512 };
    const int64_t line = LINE / (int64_t)tg_type_size(c->logits.type), most = layout->tile_columns;
    const tg_ub_problem problem =
        ascend_problem(c->runtime, c->rows, c->classes, c->logits.type, options_of(c));
    if (most == c->classes || in_the_way(layout) <= layout->place[E].bytes / 4)
        return TG_OK;
    for (int64_t piece = most / line * line; piece > most / 2; piece -= line) {
        tg_ub_layout smaller;
        if (!again && (c->classes + piece - 1) / piece >= ASCEND_RING)
            return TG_OK;
        ASCEND_TRY(tg_ub_plan_tile(kernel, &problem, 1, piece, &smaller));
        if (smaller.ub_bytes <= smaller.available &&
            in_the_way(&smaller) <= smaller.place[E].bytes / 4) {
            *layout = smaller;
            return TG_OK;
        }
    }
    return TG_OK;
}

static tg_status run_in_pieces(tg_ctx *ctx, const ce_call *c)
{
    const int64_t columns = c->classes > 0 ? c->classes : 1;
    const int writes = c->dlogits.data != NULL || (c->flags & F_SAVED);
    const tg_ub_kernel *kernel =
        &tg_ascend_ub_cross_entropy[c->flags & F_SAVED ? BACKWARD : FORWARD];
    tg_ub_layout layout;
    int again;
    ASCEND_TRY(ascend_plan_ring(c->runtime, kernel, c->rows, columns, c->logits.type, options_of(c),
                                &layout, &again));
    ASCEND_TRY(keep_apart(kernel, c, again, &layout));
    const int64_t share = (c->rows + layout.blocks - 1) / layout.blocks;
    const int64_t reads = !writes || (again && !(c->flags & F_SAVED));
    const ascend_arg kernel_args[] = {
        CE_TENSORS(c),
        ascend_i64(c->rows),
        ascend_i64(share),
        ascend_i64(c->classes),
        ascend_i64(layout.tile_columns),
        ascend_i64(reads),
        ascend_i64(writes),
        CE_OPTIONS(c),
        ascend_i64(out_type(c)),
        ascend_i64(c->count_blocks),
        ascend_place(&layout, X),
        ascend_place(&layout, W),
        ascend_place(&layout, PICK),
        ascend_place(&layout, E),
        ascend_place(&layout, T),
        ascend_place(&layout, S),
        ascend_place(&layout, MAXIMA),
        ascend_place(&layout, PAIRS),
        ascend_place(&layout, LANES),
        ascend_place(&layout, COUNTS),
        ascend_place(&layout, PREDICTIONS),
    };
    return ASCEND_RUN(ctx, c->runtime, "cross_entropy", c->logits.type,
                      (c->rows + share - 1) / share, kernel_args);
}

static uint32_t rows_options_of(const ce_call *c)
{
    return (c->dlogits.data ? WRITES : 0) | (c->class_weight ? CLASS_WEIGHT : 0) |
           (c->flags & F_CLASSES ? LIMIT | R_SCRATCH : 0) |
           (c->softcap > 0 ? R_CAPPED | R_SCRATCH : 0) | (c->flags & F_ARGMAX ? R_ARGMAX : 0);
}

/* Whether rows go several at once, as they do if two fit: layout is their plan then. */
static int are_short(const ce_call *c, const tg_ub_kernel *kernel, tg_ub_layout *layout)
{
    const tg_ub_problem problem =
        ascend_problem(c->runtime, c->rows, c->classes, c->logits.type, rows_options_of(c));
    if (c->classes == 0 || c->classes > INT16_MAX || out_type(c) != OUT_SAME ||
        tg_ub_plan_tile(kernel, &problem, 2, c->classes, layout) != TG_OK ||
        layout->ub_bytes > layout->available)
        return 0;
    return ascend_plan(c->runtime, kernel, c->rows, c->classes, c->logits.type, problem.options,
                       layout) == TG_OK;
}

tg_status ascend_ce_run_rows(tg_ctx *ctx, ce_call *c)
{
    tg_ub_layout layout;
    c->summands = c->rows;
    if (c->rows == 0)
        return TG_OK;
    if (!are_short(c,
                   &tg_ascend_ub_cross_entropy[c->flags & F_SAVED ? BACKWARD_ROWS : FORWARD_ROWS],
                   &layout))
        return run_in_pieces(ctx, c);
    c->summands = layout.blocks;
    const ascend_arg kernel_args[] = {
        CE_TENSORS(c),
        ASCEND_GRID(layout, c->rows, c->classes),
        CE_OPTIONS(c),
        ascend_i64(c->dlogits.data != NULL),
        ascend_i64(c->count_blocks),
        ascend_place(&layout, R_X),
        ascend_place(&layout, R_E),
        ascend_place(&layout, R_OUT),
        ascend_place(&layout, R_FOLD),
        ascend_place(&layout, R_EIGHTH),
        ascend_place(&layout, R_BLOCK),
        ascend_place(&layout, R_BIAS),
        ascend_place(&layout, R_AT_TARGET),
        ascend_place(&layout, R_T),
        ascend_place(&layout, R_S),
        ascend_place(&layout, R_LEVELS),
        ascend_place(&layout, R_TARGET),
        ascend_place(&layout, R_Y),
        ascend_place(&layout, R_PREDICTED),
        ascend_place(&layout, R_NUMBER),
        ascend_place(&layout, R_W),
        ascend_place(&layout, R_LIMIT),
        ascend_place(&layout, R_LANES),
        ascend_place(&layout, R_SUMS),
        ascend_place(&layout, R_COUNTS),
    };
    return ASCEND_RUN(ctx, c->runtime, "cross_entropy_rows", c->logits.type, layout.blocks,
                      kernel_args);
}
