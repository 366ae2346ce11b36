/* terms.c - host of kernels/losses/terms.asc.h and kernels/losses/terms.asc.c: up to three launches
 * a call, which count rows, compute terms, add them up. */
#include "terms.h"

ASCEND_KERNEL(count_labels, COUNT_LABELS);
ASCEND_KERNEL(terms_total, TERMS_TOTAL);

enum { COUNT, TOTAL };

ASCEND_KERNELS(terms) = {
    [COUNT] = {.name = "count_labels.flat",
               ASCEND_BUFFERS(count_labels),
               .flat = 1,
               .max_columns = 512},
    [TOTAL] = ASCEND_FLAT(terms_total),
    {0},
};

const char *const ascend_terms_options[] = {
    "y of the same width", "y of f32 beside 16 bits", "y of 16 bits", "x",          "gradient",
    "every loss",          "every upstream gradient", "mixture",      "short rows", NULL};

/* Tensors without gaps, whose rows may be taken as one long row. */
static int are_compact(const terms_call *c, const tg_tensor *each, const tg_tensor *deach)
{
    const tg_tensor *const tensors[] = {c->y, c->x, c->d, each, deach};
    for (int i = 0; i < (int)(sizeof tensors / sizeof *tensors); i++)
        if (tensors[i] && !tg_is_compact(tensors[i]))
            return 0;
    return 1;
}

static uint32_t options_of(const terms_call *c, int type, const tg_tensor *each,
                           const tg_tensor *deach)
{
    const int y_f32 = ascend_any(c->y) == ASC_ANY_F32;
    return (y_f32 && type != TG_F32 ? TERMS_Y_WIDE : TERMS_Y_SAME) | (y_f32 ? 0 : TERMS_Y_NARROW) |
           (c->x ? TERMS_X : 0) | (c->d ? TERMS_GRADIENT : 0) | (each ? TERMS_EACH : 0) |
           (deach ? TERMS_EACH_DLOSS : 0) | c->options;
}

/* The part that a reduction gives to each term, but for the rows that labels leave. */
static double share_of(const terms_call *c, int64_t rows, int64_t columns)
{
    const double elements = c->reduction == TG_MEAN ? (double)columns : 1;
    const double divisor = c->labels ? elements : elements * (double)rows;
    if (c->reduction == TG_SUM || c->reduction == TG_NONE)
        return 1;
    return divisor != 0 ? 1 / divisor : 0;
}

tg_status ascend_count_labels(tg_ctx *ctx, const tg_tensor *labels, int64_t ignore_index,
                              terms_parts *p)
{
    const int64_t rows = tg_numel(labels);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_terms[COUNT], labels, rows > 0, rows, TG_F32, 0));
    ASCEND_TRY(ascend_choose(&plan));
    p->count_blocks = plan.layout.blocks;
    return ASCEND_LAUNCH(ctx, &plan, count_labels, .labels = labels, .counts = &p->counts,
                         .ignore_index = ignore_index);
}

tg_status ascend_terms_total(tg_ctx *ctx, const tg_tensor *loss, const terms_parts *p,
                             int64_t blocks, double scale)
{
    ascend_plan plan;
    const int64_t n = blocks > 0 ? blocks * TERMS_PARTIAL : 1;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_terms[TOTAL], loss, 1, n, TG_F32, 0));
    if (!ascend_fits(&plan, 1, n)) /* some bytes a core */
        return TG_ENOMEM;
    return ASCEND_LAUNCH(ctx, &plan, terms_total, .sums = &p->sums, .counts = &p->counts,
                         .result = loss, .blocks = blocks, .count_blocks = p->count_blocks,
                         .scale = scale);
}

tg_status ascend_begin_parts(tg_ctx *ctx, int cores, terms_parts *p)
{
    const size_t bytes = (size_t)cores * TERMS_PARTIAL * sizeof(float);
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, 2 * bytes, &memory));
    p->count_blocks = 0;
    p->counts = (ascend_memory){memory, bytes};
    p->sums = (ascend_memory){(char *)memory + bytes, bytes};
    return TG_OK;
}

/* Tiles of whole rows of `columns` each, of what is taken as one row; 0 if there are none. */
static int choose_short(ascend_plan *plan, int64_t columns)
{
    enum { MOST = 256 }; /* columns: longer rows are copied well one by one */
    if (columns < TERMS_LEAST_COLUMNS || columns > MOST || ascend_choose(plan) != TG_OK)
        return 0;
    const int64_t most = plan->layout.tile_columns;
    return most >= columns && ascend_fits(plan, 1, most / columns * columns);
}

tg_status ascend_terms(tg_ctx *ctx, const tg_ub_kernel *ub, const terms_alike *kernel,
                       const terms_call *c)
{
    const int none = c->reduction == TG_NONE, type = tg_type_of(c->x ? c->x : c->d);
    const tg_tensor *each = none ? c->loss : NULL, *deach = none && c->d ? c->dloss : NULL;
    const tg_rows y = tg_rows_of(c->y);
    const double scale = c->term * share_of(c, y.rows, y.n);
    const ascend_memory absent = {NULL, 0};
    const int sums = c->loss && !none;
    const uint32_t options = options_of(c, type, each, deach);
    ascend_plan plan;
    terms_parts p;
    int one_line = are_compact(c, each, deach), is_short = 0;
    if (one_line)
        ASCEND_TRY(ascend_begin(&plan, ub, c->y, y.rows * y.n > 0, y.rows * y.n, type,
                                options | (c->labels ? TERMS_SHORT : 0)));
    if (one_line && c->labels)
        one_line = is_short = choose_short(&plan, y.n);
    if (!one_line)
        ASCEND_TRY(ascend_begin(&plan, ub, c->y, y.rows, y.n, type, options));
    plan.one_line = one_line;
    if (!is_short)
        ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ascend_begin_parts(ctx, plan.problem.cores, &p));
    if (c->labels && c->reduction != TG_SUM && !none)
        ASCEND_TRY(ascend_count_labels(ctx, c->labels, c->ignore_index, &p));
    ASCEND_TRY(ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, kernel, .x = c->x, .y = c->y, .d = c->d, .each = each, .deach = deach,
        .upstream = none ? NULL : c->dloss, .labels = c->labels, .counts = &p.counts,
        .sums = sums ? &p.sums : &absent, .y_type = ascend_any(c->y),
        .ignore_index = c->ignore_index, .count_blocks = p.count_blocks, .scale = scale,
        .term = c->term, .variant = c->variant, .short_columns = is_short ? y.n : 0,
        .parameter = c->parameter, .rest = 1 - c->parameter));
    return sums ? ascend_terms_total(ctx, c->loss, &p, plan.layout.blocks, scale) : TG_OK;
}
