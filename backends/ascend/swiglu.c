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

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    return ascend_run_flat(
        ctx, &(ascend_flat){
                 .kernel = "swiglu_forward",
                 .ub = &tg_ascend_ub_swiglu[0],
                 .tensors = 3,
                 .scalars = 2,
                 .places = 7,
                 .tensor = {{args->gate, "gate"}, {args->up, "up"}, {args->y, "y"}},
                 .scalar = {ascend_f32(args->gate_multiplier), ascend_f32(args->down_multiplier)},
                 .place = {F_GATE, F_UP, F_Y, F_A, F_U, F_H, F_E},
             });
}

tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    return ascend_run_flat(
        ctx, &(ascend_flat){
                 .kernel = "swiglu_backward",
                 .ub = &tg_ascend_ub_swiglu[1],
                 .tensors = 5,
                 .scalars = 2,
                 .places = 11,
                 .tensor = {{args->dy, "dy"},
                            {args->gate, "gate"},
                            {args->up, "up"},
                            {args->dgate, "dgate"},
                            {args->dup, "dup"}},
                 .scalar = {ascend_f32(args->gate_multiplier), ascend_f32(args->down_multiplier)},
                 .place = {B_DY, B_GATE, B_UP, B_DGATE, B_DUP, B_G, B_A, B_U, B_H, B_K, B_E},
             });
}
