/* embedding.c - host of kernels/tables/embedding.asc.c. */
#include "ascend.h"
#include "kernels/tables/embedding.args.h"

enum { FORWARD, BACKWARD, SORT };

ASCEND_KERNEL(embedding_forward, EMBEDDING_FORWARD);
ASCEND_KERNEL(embedding_backward, EMBEDDING_BACKWARD);
ASCEND_KERNEL(embedding_sort, EMBEDDING_SORT);

static const char *const backward_options[] = {"dweight of f32", "dweight of 16 bits", NULL};
static const char *const sort_options[] = {"large list", "middle list", "small list", NULL};

/* Backward: rows of a tile are bits of a word. */
ASCEND_KERNELS(embedding) = {
    [FORWARD] = ASCEND_FLAT(embedding_forward),
    [BACKWARD] = {.name = "embedding_backward.flat",
                  ASCEND_BUFFERS(embedding_backward),
                  .flat = 1,
                  .max_rows = 64,
                  .option = backward_options},
    [SORT] = {.name = "embedding_backward.sort",
              ASCEND_BUFFERS(embedding_sort),
              .flat = 1,
              .option = sort_options},
    {0},
};

ASCEND_OPERATOR(embedding_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(embedding_backward, TG_TAKES_FLOATS);

tg_status ascend_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *args)
{
    ascend_plan plan;
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_embedding[FORWARD], args->y, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, embedding_forward, .weight = args->weight,
                         .indices = args->indices, .y = args->y);
}

/* Sorting compares indices as f32, and positions have 32 bits. */
int ascend_embedding_backward_accepts(const tg_embedding_backward_args *args)
{
    return args->dweight->shape[0] <= 1 << 24 && tg_numel(args->indices) <= INT32_MAX;
}

/* Wide rows are cut into strips of this many columns or fewer, equal ones, so that several blocks
 * share an index that is everywhere, and a tile still has several rows. */
enum { STRIP = 1024 };

/* Rows of a tile and owners of tiles: powers of 2. */
typedef struct tile_order {
    int64_t tile_shift, owner_shift, tiles_each;
} tile_order;

static int64_t shift_of(int64_t n)
{
    int64_t shift = 0;
    while ((int64_t)2 << shift <= n)
        shift++;
    return shift;
}

static tg_status plan_sums(ascend_plan *plan, const tg_tensor *dy, const tg_tensor *dweight,
                           tile_order *order)
{
    const tg_rows table = tg_rows_of(dweight);
    const int64_t strips = (table.n + STRIP - 1) / STRIP;
    const int64_t strip = (table.n + strips - 1) / strips;
    const int64_t columns = strips > 1 ? (strip + 15) / 16 * 16 : strip;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_embedding[BACKWARD], dweight, table.rows, columns,
                            tg_type_of(dy),
                            table.type == TG_F32 ? EMBEDDING_WIDE_SUMS : EMBEDDING_NARROW_SUMS));
    ASCEND_TRY(ascend_choose(plan));
    tg_ub_layout *layout = &plan->layout;
    const int64_t cores = plan->problem.cores;
    plan->problem.columns = table.n;
    order->tile_shift = shift_of(layout->tile_rows);
    layout->tile_rows = (int64_t)1 << order->tile_shift;
    layout->row_tiles = (table.rows + layout->tile_rows - 1) / layout->tile_rows;
    layout->column_tiles = (table.n + layout->tile_columns - 1) / layout->tile_columns;
    layout->tasks = layout->row_tiles * layout->column_tiles;
    layout->blocks = layout->tasks < cores ? layout->tasks : cores;
    order->owner_shift = shift_of(layout->row_tiles < cores ? layout->row_tiles : cores);
    const int64_t owners = (int64_t)1 << order->owner_shift;
    order->tiles_each = (layout->row_tiles + owners - 1) / owners;
    return TG_OK;
}

/* Lists and pieces of the indices, from the largest on. */
static const struct {
    uint32_t option;
    int64_t list, piece;
} sorts[] = {{EMBEDDING_LARGE, EMBEDDING_LARGE_LIST, 1024},
             {EMBEDDING_MIDDLE, EMBEDDING_MIDDLE_LIST, 1024},
             {EMBEDDING_SMALL, EMBEDDING_SMALL_LIST, 256}};

/* The largest that fits. A block is an owner. */
static tg_status plan_sort(ascend_plan *plan, const tg_tensor *dweight, const tile_order *order,
                           int64_t *list)
{
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        ASCEND_TRY(ascend_begin(plan, &ascend_ub_embedding[SORT], dweight, 1, sorts[i].piece,
                                TG_F32, sorts[i].option));
        if (!ascend_fits(plan, 1, sorts[i].piece))
            continue;
        *list = sorts[i].list;
        plan->type = TG_I64;
        plan->layout.blocks = (int64_t)1 << order->owner_shift;
        return TG_OK;
    }
    return ascend_choose(plan); /* says what does not fit */
}

tg_status ascend_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    const int64_t n = tg_numel(args->indices);
    ascend_plan sums, sort;
    tile_order order;
    int64_t list = 0;
    char *memory;
    if (tg_numel(args->dweight) == 0 || (args->accumulate && tg_numel(args->dy) == 0))
        return TG_OK;
    ASCEND_TRY(plan_sums(&sums, args->dy, args->dweight, &order));
    ASCEND_TRY(plan_sort(&sort, args->dweight, &order, &list));
    const size_t slots = (size_t)(order.tiles_each << order.owner_shift);
    ASCEND_TRY(ascend_scratch(ctx, (size_t)n * 8 + slots * 4, (void **)&memory));
    const ascend_memory records = {memory, (size_t)n * 8};
    const ascend_memory ends = {memory + n * 8, slots * 4};
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &sort, embedding_sort, .indices = args->indices,
                             .records = &records, .ends = &ends, .n = n,
                             .tile_shift = order.tile_shift, .owner_shift = order.owner_shift,
                             .tiles_each = order.tiles_each, .list = list));
    return ASCEND_LAUNCH(ctx, &sums, embedding_backward, .dy = args->dy, .dweight = args->dweight,
                         .records = &records, .ends = &ends, .tile_shift = order.tile_shift,
                         .owner_shift = order.owner_shift, .tiles_each = order.tiles_each,
                         .size = (int64_t)tg_type_size(tg_type_of(args->dweight)),
                         .accumulate = args->accumulate);
}
