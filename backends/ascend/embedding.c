/* embedding.c - host of kernels/embedding.asc.c: what the kernels keep in UB, and their launches. */
#include "ascend.h"

/* ---- what is kept ---- */

enum { F_ROWS, F_INDEX, F_BUFFERS };

/* Steps: 0 copy in, 1 copy out. */
static const tg_ub_buffer forward_buffers[F_BUFFERS] = {
    [F_ROWS] = {.name = "rows", .to = 1, .copies = 2},
    [F_INDEX] = {"index", TG_UB_ROW, .bytes = 8, .copies = 2},
};

/* dweight is of 4 bytes and its tile in UB is what is summed up in; or of 2, and sums are narrowed. */
enum { WIDE_SUMS = TG_UB_OPTION(0), NARROW_SUMS = TG_UB_OPTION(1) };
static const char *const backward_options[] = {"dweight of f32", "dweight of 16 bits", NULL};

enum { B_SUM, B_OUT, B_ACC, B_PIECE, B_WIDE, B_BUFFERS };

/* Steps: 0 old rows in, 1 rows of dy in, 2 sum, 3 narrow, 4 copy out. */
static const tg_ub_buffer backward_buffers[B_BUFFERS] = {
    [B_SUM] = {"sum", .bytes = 4, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW, .when = WIDE_SUMS},
    [B_OUT] = {"dweight", .bytes = 2, .to = 4, .copies = 2, .when = NARROW_SUMS},
    [B_ACC] = {"sum32", .bytes = 4, .to = 3, .bank = TG_UB_BANK_LOW, .when = NARROW_SUMS},
    [B_PIECE] = {.name = "dy", .from = 1, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_WIDE] = {"dy32", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH,
                .when = TG_UB_16BIT},
};

/* A block writes the records of its tiles by windows of them; a smaller one where UB is small. */
enum { LARGE = TG_UB_OPTION(0), SMALL = TG_UB_OPTION(1), LARGE_WINDOW = 8192, SMALL_WINDOW = 256 };
static const char *const sort_options[] = {"large window", "small window", NULL};

/* As in the kernel. */
enum { SCAN = 1024 };

enum { S_NEXT, S_ENDS, S_INDEX, S_VALUE, S_ABOVE, S_BELOW, S_LARGE, S_SMALL, S_BUFFERS };

/* A column is a tile of the table. */
static const tg_ub_buffer sort_buffers[S_BUFFERS] = {
    [S_NEXT] = {.name = "next", .bytes = 4},
    [S_ENDS] = {.name = "ends", .bytes = 4},
    [S_INDEX] = {"indices", TG_UB_FIXED, .bytes = 8 * SCAN},
    [S_VALUE] = {"values", TG_UB_FIXED, .bytes = 4 * SCAN},
    [S_ABOVE] = {"above", TG_UB_FIXED, .bytes = SCAN / 8},
    [S_BELOW] = {"below", TG_UB_FIXED, .bytes = SCAN / 8},
    [S_LARGE] = {"records", TG_UB_FIXED, .bytes = 8 * LARGE_WINDOW, .when = LARGE},
    [S_SMALL] = {"records", TG_UB_FIXED, .bytes = 8 * SMALL_WINDOW, .when = SMALL},
};

enum { FORWARD, BACKWARD, SORT };

/* Backward: rows of a tile are bits of a word. */
const tg_ub_kernel tg_ascend_ub_embedding[] = {
    [FORWARD] = {.name = "embedding_forward.flat",
                 .nbuffers = F_BUFFERS,
                 .buffers = forward_buffers,
                 .flat = 1},
    [BACKWARD] = {.name = "embedding_backward.flat",
                  .nbuffers = B_BUFFERS,
                  .buffers = backward_buffers,
                  .flat = 1,
                  .max_rows = 64,
                  .option = backward_options},
    [SORT] = {.name = "embedding_backward.sort",
              .nbuffers = S_BUFFERS,
              .buffers = sort_buffers,
              .flat = 1,
              .option = sort_options},
    {0},
};

/* ---- launches ---- */

static ascend_arg indices_of(const tg_tensor *t)
{
    return ascend_memory((char *)t->data + t->byte_offset, (size_t)tg_numel(t) * 8, "indices");
}

tg_status ascend_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *args)
{
    const ascend_impls weight = ascend_rows_of(args->weight, "weight");
    const ascend_impls y = ascend_rows_of(args->y, "y");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    ASCEND_TRY(ascend_runtime_for(args->y, &runtime));
    if (y.rows == 0)
        return TG_OK;
    ASCEND_TRY(
        ascend_plan(runtime, &tg_ascend_ub_embedding[FORWARD], y.rows, y.n, y.type, 0, &layout));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&weight),
        indices_of(args->indices),
        ascend_tensor(&y),
        ascend_i64(weight.stride),
        ascend_i64(y.stride),
        ASCEND_GRID(layout, y.rows, y.n),
        ascend_place(&layout, F_ROWS),
        ascend_place(&layout, F_INDEX),
    };
    return ASCEND_RUN(ctx, runtime, "embedding_forward", y.type, layout.blocks, kernel_args);
}

/* Sorting compares indices as f32, and positions have 32 bits. */
int ascend_embedding_backward_accepts(const tg_embedding_backward_args *args)
{
    return args->dweight->shape[0] <= 1 << 24 && tg_numel(args->indices) <= INT32_MAX;
}

/* Wide rows are cut into strips of this many columns or fewer, equal ones, so that several blocks share an index that
 * is everywhere, and a tile still has several rows. */
enum { STRIP = 1024 };

static tg_status plan_sums(const ascend_runtime *runtime, const ascend_impls *dweight, int type,
                           tg_ub_layout *layout)
{
    const int64_t strips = (dweight->n + STRIP - 1) / STRIP;
    const int64_t strip = (dweight->n + strips - 1) / strips;
    const int64_t columns = strips > 1 ? (strip + 15) / 16 * 16 : strip;
    ASCEND_TRY(ascend_plan(runtime, &tg_ascend_ub_embedding[BACKWARD], dweight->rows, columns, type,
                           dweight->type == TG_F32 ? WIDE_SUMS : NARROW_SUMS, layout));
    layout->column_tiles = (dweight->n + layout->tile_columns - 1) / layout->tile_columns;
    layout->tasks = layout->row_tiles * layout->column_tiles;
    const int64_t cores = runtime->info()->cores;
    layout->blocks = layout->tasks < cores ? layout->tasks : cores;
    return TG_OK;
}

/* What the two launches hand over. */
typedef struct sorted {
    ascend_arg records, ends;
} sorted;

static tg_status sort(tg_ctx *ctx, const ascend_runtime *runtime, const tg_tensor *indices,
                      int64_t rows, const tg_ub_layout *sums, sorted *s)
{
    const int64_t n = tg_numel(indices), tiles = sums->row_tiles;
    const tg_ub_kernel *kernel = &tg_ascend_ub_embedding[SORT];
    tg_ub_layout layout;
    int small = 0;
    if (ascend_plan(runtime, kernel, 1, tiles, TG_F32, LARGE, &layout) == TG_ENOMEM) {
        small = 1;
        ASCEND_TRY(ascend_plan(runtime, kernel, 1, tiles, TG_F32, SMALL, &layout));
    }
    const int64_t cores = runtime->info()->cores, share = (tiles + cores - 1) / cores;
    if (share < layout.tile_columns) { /* the planner keeps to whole blocks of counts */
        layout.tile_columns = share;
        layout.blocks = (tiles + share - 1) / share;
    }
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, runtime, (size_t)(8 * n + 4 * tiles), &memory));
    s->records = ascend_memory(memory, (size_t)n * 8, "records");
    s->ends = ascend_memory((char *)memory + 8 * n, (size_t)tiles * 4, "ends");
    const ascend_arg kernel_args[] = {
        indices_of(indices),
        s->records,
        s->ends,
        ascend_i64(n),
        ascend_i64(rows),
        ascend_i64(sums->tile_rows),
        ASCEND_GRID(layout, 1, tiles),
        ascend_i64(small ? SMALL_WINDOW : LARGE_WINDOW),
        ascend_place(&layout, S_NEXT),
        ascend_place(&layout, S_ENDS),
        ascend_place(&layout, S_INDEX),
        ascend_place(&layout, S_VALUE),
        ascend_place(&layout, S_ABOVE),
        ascend_place(&layout, S_BELOW),
        ascend_place(&layout, small ? S_SMALL : S_LARGE),
    };
    return ASCEND_RUN(ctx, runtime, "embedding_sort", TG_I64, layout.blocks, kernel_args);
}

tg_status ascend_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    const ascend_impls dy = ascend_rows_of(args->dy, "dy");
    const ascend_impls dweight = ascend_rows_of(args->dweight, "dweight");
    const int64_t size = (int64_t)tg_type_size(dweight.type);
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    sorted s;
    ASCEND_TRY(ascend_runtime_for(args->dweight, &runtime));
    if (dweight.rows == 0 || (args->accumulate && dy.rows == 0))
        return TG_OK;
    ASCEND_TRY(plan_sums(runtime, &dweight, dy.type, &layout));
    ASCEND_TRY(sort(ctx, runtime, args->indices, dweight.rows, &layout, &s));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&dy),
        ascend_tensor(&dweight),
        s.records,
        s.ends,
        ascend_i64(dy.stride),
        ascend_i64(dweight.stride),
        ASCEND_GRID(layout, dweight.rows, dweight.n),
        ascend_i64(size),
        ascend_i64(args->accumulate),
        ascend_place(&layout, size == 4 ? B_SUM : B_OUT),
        ascend_place(&layout, B_ACC),
        ascend_place(&layout, B_PIECE),
        ascend_place(&layout, B_WIDE),
    };
    return ASCEND_RUN(ctx, runtime, "embedding_backward", dy.type, layout.blocks, kernel_args);
}
