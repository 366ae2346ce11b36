/* swiglu.c - host of kernels/swiglu.asc.c: what the kernels keep in UB, and their launches. */
#include "ascend.h"

/* ---- forward ---- */

enum { F_GATE, F_UP, F_Y, F_A, F_U, F_H, F_E, F_BUFFERS };

/* Steps: 0 copy in, 1 scale (and widen), 2 exponents, 3 products, 4 quotient, 5 copy out. For f32 the
 * input buffers themselves are a and u. Of two sources of one instruction, one lies LOW, one HIGH. */
static const tg_ub_buffer forward_buffers[F_BUFFERS] = {
    [F_GATE] = {.name = "gate", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [F_UP] = {.name = "up", .to = 3, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [F_Y] = {.name = "y", .from = 4, .to = 5, .copies = 2},
    [F_A] = {"gate32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [F_U] = {"up32", .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [F_H] = {.name = "h", .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH},
    [F_E] = {.name = "e", .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_HIGH},
};

/* ---- backward ---- */

enum { B_DY, B_GATE, B_UP, B_DGATE, B_DUP, B_G, B_A, B_U, B_H, B_K, B_E, B_BUFFERS };

/* Steps: 0 copy in, 1 scale (and widen), 2 exponents, 3 derivatives, 4 quotients, 5 copy out. */
static const tg_ub_buffer backward_buffers[B_BUFFERS] = {
    [B_DY] = {.name = "dy", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [B_GATE] = {.name = "gate", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [B_UP] = {.name = "up", .to = 4, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_DGATE] = {.name = "dgate", .from = 4, .to = 5, .copies = 2},
    [B_DUP] = {.name = "dup", .from = 4, .to = 5, .copies = 2},
    [B_G] = {"dy32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [B_A] = {"gate32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [B_U] = {"up32", .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [B_H] = {.name = "h", .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH},
    [B_K] = {.name = "k", .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_LOW},
    [B_E] = {.name = "e", .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_HIGH},
};

const tg_ub_kernel tg_ascend_ub_swiglu[] = {
    {.name = "swiglu_forward.flat", .nbuffers = F_BUFFERS, .buffers = forward_buffers, .flat = 1},
    {.name = "swiglu_backward.flat", .nbuffers = B_BUFFERS, .buffers = backward_buffers, .flat = 1},
    {0},
};

/* ---- launches ---- */

static double or_one(double multiplier)
{
    return multiplier == 0.0 ? 1.0 : multiplier;
}

/* Elements are independent: compact tensors are one long row. */
static void flatten(ascend_rows *const *tensors, int n, int64_t *rows, int64_t *columns)
{
    *rows = tensors[0]->rows;
    *columns = tensors[0]->n;
    for (int i = 0; i < n; i++)
        if (tensors[i]->stride != *columns && *rows > 1)
            return;
    *columns *= *rows;
    *rows = *columns > 0;
    for (int i = 0; i < n; i++)
        tensors[i]->stride = *columns;
}

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    ascend_rows gate = ascend_rows_of(args->gate, "gate"), up = ascend_rows_of(args->up, "up");
    ascend_rows y = ascend_rows_of(args->y, "y");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    int64_t rows, columns;
    ASCEND_TRY(ascend_runtime_for(args->gate, &runtime));
    flatten((ascend_rows *[]){&gate, &up, &y}, 3, &rows, &columns);
    if (rows == 0)
        return TG_OK;
    ASCEND_TRY(ascend_plan(runtime, &tg_ascend_ub_swiglu[0], rows, columns, y.type, 0, &layout));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&gate),
        ascend_tensor(&up),
        ascend_tensor(&y),
        ascend_i64(gate.stride),
        ascend_i64(up.stride),
        ascend_i64(y.stride),
        ASCEND_GRID(layout, rows, columns),
        ascend_f32(or_one(args->gate_multiplier)),
        ascend_f32(or_one(args->down_multiplier)),
        ascend_place(&layout, F_GATE),
        ascend_place(&layout, F_UP),
        ascend_place(&layout, F_Y),
        ascend_place(&layout, F_A),
        ascend_place(&layout, F_U),
        ascend_place(&layout, F_H),
        ascend_place(&layout, F_E),
    };
    return ASCEND_RUN(ctx, runtime, "swiglu_forward", y.type, layout.blocks, kernel_args);
}

tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    ascend_rows dy = ascend_rows_of(args->dy, "dy"), gate = ascend_rows_of(args->gate, "gate");
    ascend_rows up = ascend_rows_of(args->up, "up"), dup = ascend_rows_of(args->dup, "dup");
    ascend_rows dgate = ascend_rows_of(args->dgate, "dgate");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    int64_t rows, columns;
    ASCEND_TRY(ascend_runtime_for(args->gate, &runtime));
    flatten((ascend_rows *[]){&dy, &gate, &up, &dgate, &dup}, 5, &rows, &columns);
    if (rows == 0)
        return TG_OK;
    ASCEND_TRY(ascend_plan(runtime, &tg_ascend_ub_swiglu[1], rows, columns, dy.type, 0, &layout));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&dy),
        ascend_tensor(&gate),
        ascend_tensor(&up),
        ascend_tensor(&dgate),
        ascend_tensor(&dup),
        ascend_i64(dy.stride),
        ascend_i64(gate.stride),
        ascend_i64(up.stride),
        ascend_i64(dgate.stride),
        ascend_i64(dup.stride),
        ASCEND_GRID(layout, rows, columns),
        ascend_f32(or_one(args->gate_multiplier)),
        ascend_f32(or_one(args->down_multiplier)),
        ascend_place(&layout, B_DY),
        ascend_place(&layout, B_GATE),
        ascend_place(&layout, B_UP),
        ascend_place(&layout, B_DGATE),
        ascend_place(&layout, B_DUP),
        ascend_place(&layout, B_G),
        ascend_place(&layout, B_A),
        ascend_place(&layout, B_U),
        ascend_place(&layout, B_H),
        ascend_place(&layout, B_K),
        ascend_place(&layout, B_E),
    };
    return ASCEND_RUN(ctx, runtime, "swiglu_backward", dy.type, layout.blocks, kernel_args);
}
