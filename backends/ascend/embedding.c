/* embedding.c - host of kernels/tables/embedding.asc.c. */
#include "ascend.h"
#include "kernels/tables/embedding.args.h"

enum { FORWARD, BACKWARD, SORT, SHARE };

ASCEND_KERNEL(embedding_forward, EMBEDDING_FORWARD);
ASCEND_KERNEL(embedding_backward, EMBEDDING_BACKWARD);
ASCEND_KERNEL(embedding_share, EMBEDDING_SHARE);
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
    [SHARE] = {.name = "embedding_backward.share",
               ASCEND_BUFFERS(embedding_share),
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
    return TG_OK;
}

/* Lists and pieces of the indices, from the largest on. */
static const struct {
    uint32_t option;
    int64_t list, piece;
} sorts[] = {{EMBEDDING_LARGE, EMBEDDING_LARGE_LIST, 1024},
             {EMBEDDING_MIDDLE, EMBEDDING_MIDDLE_LIST, 1024},
             {EMBEDDING_SMALL, EMBEDDING_SMALL_LIST, 256}};

/* The largest list that fits. */
static tg_status plan_list(ascend_plan *plan, int which, const tg_tensor *dweight, int64_t *list)
{
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        ASCEND_TRY(ascend_begin(plan, &ascend_ub_embedding[which], dweight, 1, sorts[i].piece,
                                TG_F32, sorts[i].option));
        if (!ascend_fits(plan, 1, sorts[i].piece))
            continue;
        *list = sorts[i].list;
        plan->type = TG_I64;
        return TG_OK;
    }
    return ascend_choose(plan); /* says what does not fit */
}

/* Shares of the positions that are sorted apart. */
typedef struct shares {
    int64_t chunk, chunks, pitch; /* chunks: 0: there are none */
} shares;

/* One a core; where lists hold less, more of them, and as many owners as it takes for the lists to
 * hold twice what each has on average. None of so few positions that each owner looks through them
 * all in less time than a launch takes. */
static shares shares_of(tile_order *order, int64_t n, int64_t row_tiles, int64_t list,
                        int64_t cores)
{
    enum { FEW = 4096, WHOLE = 64 };
    shares s = {0};
    const int64_t each = ((n + cores - 1) / cores + WHOLE - 1) / WHOLE * WHOLE;
    s.chunk = each < list ? each : list;
    if (n > FEW && n <= EMBEDDING_SHARES * s.chunk && order->owner_shift < 7) {
        s.chunks = (n + s.chunk - 1) / s.chunk;
        while (n >> order->owner_shift > list / 2 &&
               (int64_t)2 << order->owner_shift <= row_tiles &&
               (int64_t)2 << order->owner_shift <= EMBEDDING_OWNERS)
            order->owner_shift++;
    }
    const int64_t owners = (int64_t)1 << order->owner_shift;
    order->tiles_each = (row_tiles + owners - 1) / owners;
    s.pitch = (owners + 8) / 8 * 8;
    return s;
}

tg_status ascend_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    const int64_t n = tg_numel(args->indices);
    ascend_plan sums, sort, share;
    tile_order order;
    int64_t list = 0, share_list = 0;
    char *memory;
    if (tg_numel(args->dweight) == 0 || (args->accumulate && tg_numel(args->dy) == 0))
        return TG_OK;
    ASCEND_TRY(plan_sums(&sums, args->dy, args->dweight, &order));
    ASCEND_TRY(plan_list(&sort, SORT, args->dweight, &list));
    ASCEND_TRY(plan_list(&share, SHARE, args->dweight, &share_list));
    const int64_t cores = share.problem.cores;
    const shares cut =
        shares_of(&order, n, sums.layout.row_tiles, share_list < list ? share_list : list, cores);
    const int64_t owners = (int64_t)1 << order.owner_shift;
    const size_t slots = (size_t)(order.tiles_each * owners);
    const size_t of_records = (size_t)n * 8, of_starts = (size_t)(cut.chunks * cut.pitch) * 4;
    ASCEND_TRY(ascend_scratch(ctx, 2 * of_records + slots * 8 + of_starts, (void **)&memory));
    const ascend_memory records = {memory, of_records};
    const ascend_memory shares = {memory + of_records, of_records};
    const ascend_memory bounds = {memory + 2 * of_records, slots * 8};
    const ascend_memory starts = {memory + 2 * of_records + slots * 8, of_starts};
    sort.layout.blocks = owners < cores ? owners : cores;
    share.layout.blocks = cut.chunks < cores ? cut.chunks : cores;
    if (cut.chunks)
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &share, embedding_share, .indices = args->indices,
                                 .records = &shares, .starts = &starts, .n = n,
                                 .tile_shift = order.tile_shift, .owner_shift = order.owner_shift,
                                 .tiles_each = order.tiles_each, .chunk = cut.chunk,
                                 .pitch = cut.pitch, .list = share_list));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &sort, embedding_sort, .indices = args->indices, .shares = &shares, .starts = &starts,
        .records = &records, .bounds = &bounds, .n = n, .tile_shift = order.tile_shift,
        .owner_shift = order.owner_shift, .tiles_each = order.tiles_each, .chunk = cut.chunk,
        .chunks = cut.chunks, .pitch = cut.pitch, .list = list));
    return ASCEND_LAUNCH(ctx, &sums, embedding_backward, .dy = args->dy, .dweight = args->dweight,
                         .records = &records, .bounds = &bounds, .tile_shift = order.tile_shift,
                         .owner_shift = order.owner_shift, .tiles_each = order.tiles_each,
                         .size = (int64_t)tg_type_size(tg_type_of(args->dweight)),
                         .accumulate = args->accumulate);
}
