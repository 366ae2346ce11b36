/* geglu.c - host of kernels/geglu.asc.c: what the kernels keep in UB, and their launches. */
#include "ascend.h"

enum { EXACT = TG_UB_OPTION(0) };
static const char *const options[] = {"exact", NULL};

/* ---- forward ---- */

enum { F_H, F_A, F_GATE, F_UP, F_C, F_E, F_U, F_P, F_Q, F_BUFFERS };

/* Steps: 0 copy in, 1 magnitudes, 2 exponent, 3 quotient, 4 gelu, 5 product and copy out, from where gate was. Of two
 * sources of one instruction, one lies LOW, one HIGH. What the LOW ones are computed with or become lies behind what is
 * copied, in another bank: there, a result does not meet what is being read. */
static const tg_ub_buffer forward_buffers[F_BUFFERS] = {
    [F_H] = {.name = "h", .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW},
    [F_A] = {"gate32", .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [F_GATE] = {.name = "gate", .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW},
    [F_UP] = {.name = "up", .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [F_C] = {"coefficients", TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST, .when = EXACT},
    [F_E] = {.name = "e", .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH},
    [F_U] = {"up32", .bytes = 4, .from = 4, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [F_P] = {"p", .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH, .when = EXACT},
    [F_Q] = {"q", .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH, .when = EXACT},
};

/* ---- backward ---- */

enum { B_G, B_K, B_R, B_DY, B_GATE, B_UP, B_DGATE, B_DUP, B_A, B_U, B_Q, B_W, B_H, B_C, B_BUFFERS };

/* Steps: 0 copy in, 1 widen, 2 magnitudes, 3 exponents, 4 slopes, 5 products, 6 copy out. */
static const tg_ub_buffer backward_buffers[B_BUFFERS] = {
    [B_G] = {"dy32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [B_K] = {.name = "k", .bytes = 4, .from = 2, .to = 6, .bank = TG_UB_BANK_LOW},
    [B_R] = {"r", .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_LOW, .when = EXACT},
    [B_DY] = {.name = "dy", .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW},
    [B_GATE] = {.name = "gate", .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_UP] = {.name = "up", .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_DGATE] = {.name = "dgate", .from = 5, .to = 6, .copies = 2},
    [B_DUP] = {.name = "dup", .from = 5, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [B_A] = {"gate32", .bytes = 4, .from = 1, .to = 6, .bank = TG_UB_BANK_HIGH,
             .when = TG_UB_16BIT},
    [B_U] = {"up32", .bytes = 4, .from = 4, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [B_Q] = {.name = "q", .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH},
    [B_W] = {.name = "w", .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH},
    [B_H] = {.name = "h", .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH},
    [B_C] = {"coefficients", TG_UB_FIXED, .bytes = 9 * 32, .to = TG_UB_LAST, .when = EXACT},
};

const tg_ub_kernel tg_ascend_ub_geglu[] = {
    {.name = "geglu_forward.flat",
     .nbuffers = F_BUFFERS,
     .buffers = forward_buffers,
     .flat = 1,
     .option = options},
    {.name = "geglu_backward.flat",
     .nbuffers = B_BUFFERS,
     .buffers = backward_buffers,
     .flat = 1,
     .option = options},
    {0},
};

/* ---- launches ---- */

tg_status ascend_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    return ascend_run_flat(ctx,
                           &(ascend_flat){
                               .kernel = "geglu_forward",
                               .ub = &tg_ascend_ub_geglu[0],
                               .options = args->exact ? EXACT : 0,
                               .tensors = 3,
                               .scalars = 1,
                               .places = 9,
                               .tensor = {{args->gate, "gate"}, {args->up, "up"}, {args->y, "y"}},
                               .scalar = {ascend_i64(args->exact)},
                               .place = {F_GATE, F_UP, F_A, F_U, F_H, F_E, F_P, F_Q, F_C},
                           });
}

tg_status ascend_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    return ascend_run_flat(ctx, &(ascend_flat){
                                    .kernel = "geglu_backward",
                                    .ub = &tg_ascend_ub_geglu[1],
                                    .options = args->exact ? EXACT : 0,
                                    .tensors = 5,
                                    .scalars = 1,
                                    .places = 14,
                                    .tensor = {{args->dy, "dy"},
                                               {args->gate, "gate"},
                                               {args->up, "up"},
                                               {args->dgate, "dgate"},
                                               {args->dup, "dup"}},
                                    .scalar = {ascend_i64(args->exact)},
                                    .place = {B_DY, B_GATE, B_UP, B_DGATE, B_DUP, B_G, B_A, B_U,
                                              B_K, B_Q, B_W, B_H, B_R, B_C},
                                });
}
