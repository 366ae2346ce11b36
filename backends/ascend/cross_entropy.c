/* cross_entropy.c - host of kernels/cross_entropy*.asc.c: their launches; see cross_entropy_ub.c for what they keep in UB.
 *
 * Up to three launches a call: the divisors of a mean, the rows, the sum of their losses. One kernel does the
 * rows of both directions. */
#include "cross_entropy.h"

/* ---- one call of either direction ---- */

/* The kernel's flags. */
enum {
    F_MEAN = 1,
    F_EACH = 2,
    F_TOKEN = 4,
    F_ARGMAX = 8,
    F_SAVED = 16,
    F_COUNTED = 32,
    F_CLASSES = 64
};

/* dlogits beside logits: of their type, or of 16 bits beside f32. */
enum { OUT_SAME, OUT_BF16, OUT_F16 };

typedef struct ce_call {
    const ascend_runtime *runtime;
    ascend_rows logits, dlogits;
    int64_t rows, classes, ignore_index, flags;
    const tg_tensor *target, *class_weight, *dloss, *lse, *loss, *z_loss, *accuracy, *predicted;
    double smoothing, z, softcap;
    ascend_arg counts, losses, z_losses, rights; /* memory between the launches */
    int64_t count_blocks;
    int gathers;      /* class weights, from UB */
    int64_t summands; /* losses, z_losses: one a row, or one a block */
    tg_ub_layout sums;
} ce_call;

/* An argument that may be absent. */
static ascend_arg vector(const tg_tensor *t, const char *name)
{
    if (!t)
        return ascend_memory(NULL, 0, name);
    return ascend_memory((char *)t->data + t->byte_offset,
                         (size_t)tg_numel(t) * tg_type_size(tg_type_of(t)), name);
}

static int64_t ignored(int64_t option)
{
    return option == 0 ? -100 : option == TG_IGNORE_CLASS_0 ? 0 : option;
}

#define CE_CALL(args)                                                                            \
    {                                                                                            \
        .logits = ascend_rows_of((args)->logits, "logits"),                                      \
        .dlogits = ascend_rows_of((args)->dlogits, "dlogits"), .rows = tg_numel((args)->target), \
        .classes = (args)->logits->shape[(args)->logits->ndim - 1],                              \
        .ignore_index = ignored((args)->ignore_index),                                           \
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
        vector(c->target, "target"),
        vector(c->class_weight, "class_weight"),
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
static tg_status keep_apart(const ascend_runtime *runtime, const tg_ub_kernel *kernel,
                            const ce_call *c, int again, tg_ub_layout *layout)
{
    enum { LINE = 512 };
    const int64_t line = LINE / (int64_t)tg_type_size(c->logits.type), most = layout->tile_columns;
    const tg_ub_problem problem = {.rows = c->rows,
                                   .columns = c->classes,
                                   .dtype_bytes = (int)tg_type_size(c->logits.type),
                                   .cores = runtime->info()->cores,
                                   .ub_bytes = runtime->info()->ub_bytes,
                                   .options = options_of(c)};
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
    const int writes = c->dlogits.data != NULL || (c->flags & F_SAVED),
              each = (c->flags & F_EACH) != 0;
    const tg_ub_kernel *kernel =
        &tg_ascend_ub_cross_entropy[c->flags & F_SAVED ? BACKWARD : FORWARD];
    tg_ub_layout layout;
    int again;
    ASCEND_TRY(ascend_plan_ring(c->runtime, kernel, c->rows, columns, c->logits.type, options_of(c),
                                &layout, &again));
    ASCEND_TRY(keep_apart(c->runtime, kernel, c, again, &layout));
    const int64_t share = (c->rows + layout.blocks - 1) / layout.blocks;
    const int64_t reads = !writes || (again && !(c->flags & F_SAVED));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&c->logits),
        ascend_tensor(&c->dlogits),
        vector(c->target, "target"),
        vector(c->class_weight, "class_weight"),
        vector(c->dloss, "dloss"),
        c->counts,
        vector(c->lse, "lse"),
        each || !c->loss ? vector(c->loss, "loss") : c->losses,
        each || !c->z_loss ? vector(c->z_loss, "z_loss") : c->z_losses,
        each || !c->accuracy ? vector(c->accuracy, "accuracy") : c->rights,
        vector(c->predicted, "predicted"),
        ascend_i64(c->logits.stride),
        ascend_i64(c->dlogits.stride),
        ascend_i64(c->rows),
        ascend_i64(share),
        ascend_i64(c->classes),
        ascend_i64(layout.tile_columns),
        ascend_i64(reads),
        ascend_i64(writes),
        ascend_i64(c->flags),
        ascend_i64(c->ignore_index),
        ascend_f32(c->smoothing),
        ascend_f32(c->z),
        ascend_f32(c->softcap),
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
    const ascend_info *info = c->runtime->info();
    const tg_ub_problem problem = {.rows = c->rows,
                                   .columns = c->classes,
                                   .dtype_bytes = (int)tg_type_size(c->logits.type),
                                   .cores = info->cores,
                                   .ub_bytes = info->ub_bytes,
                                   .options = rows_options_of(c)};
    if (c->classes == 0 || out_type(c) != OUT_SAME ||
        tg_ub_plan_tile(kernel, &problem, 2, c->classes, layout) != TG_OK ||
        layout->ub_bytes > layout->available)
        return 0;
    return ascend_plan(c->runtime, kernel, c->rows, c->classes, c->logits.type, problem.options,
                       layout) == TG_OK;
}

static tg_status run_rows(tg_ctx *ctx, ce_call *c)
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
    const int each = (c->flags & F_EACH) != 0;
    const ascend_arg kernel_args[] = {
        ascend_tensor(&c->logits),
        ascend_tensor(&c->dlogits),
        vector(c->target, "target"),
        vector(c->class_weight, "class_weight"),
        vector(c->dloss, "dloss"),
        c->counts,
        vector(c->lse, "lse"),
        each || !c->loss ? vector(c->loss, "loss") : c->losses,
        each || !c->z_loss ? vector(c->z_loss, "z_loss") : c->z_losses,
        each || !c->accuracy ? vector(c->accuracy, "accuracy") : c->rights,
        vector(c->predicted, "predicted"),
        ascend_i64(c->logits.stride),
        ascend_i64(c->dlogits.stride),
        ASCEND_GRID(layout, c->rows, c->classes),
        ascend_i64(c->flags),
        ascend_i64(c->ignore_index),
        ascend_f32(c->smoothing),
        ascend_f32(c->z),
        ascend_f32(c->softcap),
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

static tg_status finish(tg_ctx *ctx, const ce_call *c)
{
    if (c->flags & F_EACH)
        return TG_OK;
    const ascend_arg kernel_args[] = {
        c->losses,
        c->z_losses,
        c->rights,
        c->counts,
        vector(c->loss, "loss"),
        vector(c->z_loss, "z_loss"),
        vector(c->accuracy, "accuracy"),
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
    ASCEND_TRY(run_rows(ctx, &c));
    return finish(ctx, &c);
}

tg_status ascend_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    ce_call c = CE_CALL(args);
    c.flags |= F_SAVED;
    ASCEND_TRY(prepare(ctx, &c));
    ASCEND_TRY(count(ctx, &c));
    return run_rows(ctx, &c);
}
