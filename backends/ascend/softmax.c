/* softmax.c - host of kernels/softmax.asc.c: what the kernels keep in UB, and their launches. */
#include "ring.h"

enum { FORWARD_ROWS, FORWARD_WIDE, BACKWARD_ROWS, BACKWARD_WIDE };

/* ---- forward ---- */

enum { F_X, F_Y, F_E, F_LANES, F_VALUE, F_BLOCK, F_BUFFERS };

/* Steps: 0 copy in, 1 widen, shift and exponentials, 2 quotient, 3 copy out. A row's value is
 * spread eight rows at a time. */
static const tg_ub_buffer forward_rows[F_BUFFERS] = {
    [F_X] = {.name = "x", .to = 1, .copies = 2},
    [F_Y] = {.name = "y", .from = 1, .to = 3, .copies = 2},
    [F_E] = {.name = "e", .bytes = 4, .from = 1, .to = 3, .when = TG_UB_16BIT},
    [F_LANES] = {"lanes", TG_UB_ROW, .bytes = 256, .from = 1, .to = 2},
    [F_VALUE] = {"value", TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST},
    [F_BLOCK] = {"block", TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256},
};

enum { FW_X, FW_E, FW_MAX, FW_SUM, FW_OLD, FW_VALUE, FW_MAX_BLOCK, FW_SUM_BLOCK, FW_BUFFERS };

/* Steps: 0 copy in, 1 maximum and sum of all pieces, 2 quotient and copy out of all pieces. */
static const tg_ub_buffer forward_wide[FW_BUFFERS] = {
    [FW_X] = {.name = "x", .to = 2, .copies = ASCEND_RING, .bank = TG_UB_BANK_LOW},
    [FW_E] = {.name = "e", .bytes = 4, .from = 1, .to = 2},
    [FW_MAX] = {"max", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [FW_SUM] = {"sum", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [FW_OLD] = {"old", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW},
    [FW_VALUE] = {"value", TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST},
    [FW_MAX_BLOCK] = {"max block", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST},
    [FW_SUM_BLOCK] = {"sum block", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST},
};

/* ---- backward ---- */

enum { B_DY, B_Y, B_DX, B_G, B_P, B_LANES, B_VALUE, B_BLOCK, B_BUFFERS };

/* Steps: 0 copy in, 1 widen, products and their sums, 2 differences, 3 copy out. */
static const tg_ub_buffer backward_rows[B_BUFFERS] = {
    [B_DY] = {.name = "dy", .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW},
    [B_Y] = {.name = "y", .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_DX] = {.name = "dx", .from = 1, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW},
    [B_G] = {.name = "dy32",
             .bytes = 4,
             .from = 1,
             .to = 3,
             .bank = TG_UB_BANK_LOW,
             .when = TG_UB_16BIT},
    [B_P] = {.name = "y32",
             .bytes = 4,
             .from = 1,
             .to = 2,
             .bank = TG_UB_BANK_HIGH,
             .when = TG_UB_16BIT},
    [B_LANES] = {"lanes", TG_UB_ROW, .bytes = 256, .from = 1, .to = 2},
    [B_VALUE] = {"value", TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST},
    [B_BLOCK] = {"block", TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256},
};

enum { BW_DY, BW_Y, BW_G, BW_P, BW_SUM, BW_VALUE, BW_BLOCK, BW_BUFFERS };

/* Steps: 0 copy in, 1 sum of all pieces, 2 differences and copy out of all pieces. */
static const tg_ub_buffer backward_wide[BW_BUFFERS] = {
    [BW_DY] = {.name = "dy", .to = 2, .copies = ASCEND_RING, .bank = TG_UB_BANK_LOW},
    [BW_Y] = {.name = "y", .to = 2, .copies = ASCEND_RING, .bank = TG_UB_BANK_HIGH},
    [BW_G] = {.name = "dy32", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW},
    [BW_P] = {.name = "y32",
              .bytes = 4,
              .from = 1,
              .to = 2,
              .bank = TG_UB_BANK_HIGH,
              .when = TG_UB_16BIT},
    [BW_SUM] = {"sum", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [BW_VALUE] = {"value", TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST},
    [BW_BLOCK] = {"block", TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST},
};

const tg_ub_kernel tg_ascend_ub_softmax[] = {
    [FORWARD_ROWS] = {.name = "softmax_forward.rows",
                      .nbuffers = F_BUFFERS,
                      .buffers = forward_rows,
                      .whole_rows = 1,
                      .max_rows = 255},
    [FORWARD_WIDE] = {.name = "softmax_forward.wide",
                      .nbuffers = FW_BUFFERS,
                      .buffers = forward_wide,
                      .max_rows = 1},
    [BACKWARD_ROWS] = {.name = "softmax_backward.rows",
                       .nbuffers = B_BUFFERS,
                       .buffers = backward_rows,
                       .whole_rows = 1,
                       .max_rows = 255},
    [BACKWARD_WIDE] = {.name = "softmax_backward.wide",
                       .nbuffers = BW_BUFFERS,
                       .buffers = backward_wide,
                       .max_rows = 1},
    {0},
};

/* ---- launches ---- */

static tg_status forward_in_pieces(tg_ctx *ctx, const ascend_runtime *runtime,
                                   const ascend_impls *x, const ascend_impls *y)
{
    tg_ub_layout layout;
    int again;
    ASCEND_TRY(ascend_plan_ring(runtime, &tg_ascend_ub_softmax[FORWARD_WIDE], x->rows, x->n,
                                x->type, 0, &layout, &again));
    const ascend_arg kernel_args[] = {
        ascend_tensor(x),
        ascend_tensor(y),
        ascend_i64(x->stride),
        ascend_i64(y->stride),
        ascend_i64(x->rows),
        ascend_i64(x->n),
        ascend_i64(layout.tile_columns),
        ascend_i64(again),
        ascend_place(&layout, FW_X),
        ascend_place(&layout, FW_E),
        ascend_place(&layout, FW_MAX),
        ascend_place(&layout, FW_SUM),
        ascend_place(&layout, FW_OLD),
        ascend_place(&layout, FW_VALUE),
        ascend_place(&layout, FW_MAX_BLOCK),
        ascend_place(&layout, FW_SUM_BLOCK),
    };
    return ASCEND_RUN(ctx, runtime, "softmax_forward_wide", x->type, layout.blocks, kernel_args);
}

tg_status ascend_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    const ascend_impls x = ascend_rows_of(args->x, "x"), y = ascend_rows_of(args->y, "y");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    ASCEND_TRY(ascend_runtime_for(args->x, &runtime));
    if (x.rows == 0)
        return TG_OK;
    const tg_status planned =
        ascend_plan(runtime, &tg_ascend_ub_softmax[FORWARD_ROWS], x.rows, x.n, x.type, 0, &layout);
    if (planned == TG_ENOMEM)
        return forward_in_pieces(ctx, runtime, &x, &y);
    ASCEND_TRY(planned);
    const ascend_arg kernel_args[] = {
        ascend_tensor(&x),
        ascend_tensor(&y),
        ascend_i64(x.stride),
        ascend_i64(y.stride),
        ASCEND_GRID(layout, x.rows, x.n),
        ascend_place(&layout, F_X),
        ascend_place(&layout, F_Y),
        ascend_place(&layout, F_E),
        ascend_place(&layout, F_LANES),
        ascend_place(&layout, F_VALUE),
        ascend_place(&layout, F_BLOCK),
    };
    return ASCEND_RUN(ctx, runtime, "softmax_forward_rows", x.type, layout.blocks, kernel_args);
}

static tg_status backward_in_pieces(tg_ctx *ctx, const ascend_runtime *runtime,
                                    const ascend_impls *dy, const ascend_impls *y,
                                    const ascend_impls *dx)
{
    const int64_t row = y->n * (int64_t)tg_type_size(y->type);
    tg_ub_layout layout;
    int again;
    ASCEND_TRY(ascend_plan_ring(runtime, &tg_ascend_ub_softmax[BACKWARD_WIDE], y->rows, y->n,
                                y->type, 0, &layout, &again));
    const ascend_arg kernel_args[] = {
        ascend_tensor(dy),
        ascend_tensor(y),
        ascend_tensor(dx),
        ascend_i64(dy->stride),
        ascend_i64(y->stride),
        ascend_i64(dx->stride),
        ascend_i64(y->rows),
        ascend_i64(y->n),
        ascend_i64(layout.tile_columns),
        ascend_i64(again),
        ascend_i64(again && ascend_ring_behind(runtime, 2 * row, row)),
        ascend_place(&layout, BW_DY),
        ascend_place(&layout, BW_Y),
        ascend_place(&layout, BW_G),
        ascend_place(&layout, BW_P),
        ascend_place(&layout, BW_SUM),
        ascend_place(&layout, BW_VALUE),
        ascend_place(&layout, BW_BLOCK),
    };
    return ASCEND_RUN(ctx, runtime, "softmax_backward_wide", y->type, layout.blocks, kernel_args);
}

tg_status ascend_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    const ascend_impls dy = ascend_rows_of(args->dy, "dy"), y = ascend_rows_of(args->y, "y");
    const ascend_impls dx = ascend_rows_of(args->dx, "dx");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    ASCEND_TRY(ascend_runtime_for(args->dy, &runtime));
    if (y.rows == 0)
        return TG_OK;
    const tg_status planned =
        ascend_plan(runtime, &tg_ascend_ub_softmax[BACKWARD_ROWS], y.rows, y.n, y.type, 0, &layout);
    if (planned == TG_ENOMEM)
        return backward_in_pieces(ctx, runtime, &dy, &y, &dx);
    ASCEND_TRY(planned);
    const ascend_arg kernel_args[] = {
        ascend_tensor(&dy),
        ascend_tensor(&y),
        ascend_tensor(&dx),
        ascend_i64(dy.stride),
        ascend_i64(y.stride),
        ascend_i64(dx.stride),
        ASCEND_GRID(layout, y.rows, y.n),
        ascend_place(&layout, B_DY),
        ascend_place(&layout, B_Y),
        ascend_place(&layout, B_DX),
        ascend_place(&layout, B_G),
        ascend_place(&layout, B_P),
        ascend_place(&layout, B_LANES),
        ascend_place(&layout, B_VALUE),
        ascend_place(&layout, B_BLOCK),
    };
    return ASCEND_RUN(ctx, runtime, "softmax_backward_rows", y.type, layout.blocks, kernel_args);
}
