/* cross_entropy_ub.c - what the kernels of kernels/cross_entropy*.asc.c keep in UB. */
#include "cross_entropy.h"

/* ---- rows ---- */

/* Steps: 0 copy in, 1 maxima and sums of all pieces, 2 gradient and copy out of all pieces. */
static const tg_ub_buffer row_buffers[BUFFERS] = {
    [X] = {.name = "logits", .to = 2, .copies = ASCEND_RING, .bank = TG_UB_BANK_LOW},
    [W] = {"class weights", .bytes = 4, .to = 2, .copies = ASCEND_RING, .bank = TG_UB_BANK_HIGH,
           .when = WEIGHTED},
    [PICK] = {"target's logit", TG_UB_FIXED, .bytes = 32, .to = 2, .copies = ASCEND_RING},
    [E] = {"e", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW},
    [T] = {"t", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = SCRATCH},
    [S] = {"s", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = CAPPED},
    [MAXIMA] = {"maxima of blocks", .bytes = 4, .every = 8, .from = 1, .to = 1, .when = ARGMAX},
    [PAIRS] = {"maxima", .bytes = 8, .every = 512, .from = 1, .to = 1, .when = ARGMAX},
    [LANES] = {"lanes", TG_UB_FIXED, .bytes = LANES_BYTES, .to = TG_UB_LAST,
               .bank = TG_UB_BANK_HIGH},
    [COUNTS] = {"counts", TG_UB_FIXED, .bytes = MOST_COUNTS * COUNT_BYTES},
    [PREDICTIONS] = {"predictions", TG_UB_FIXED, .bytes = BATCH * 8, .to = TG_UB_LAST},
};
static const char *const row_options[] = {"class weights", "softcap", "scratch", "argmax", NULL};

/* ---- several rows ---- */

/* Steps: 0 copy in, 1 maxima, exponentials and sums, 2 gradient, 3 copy out. */
static const tg_ub_buffer rows_buffers[R_BUFFERS] = {
    [R_X] = {.name = "logits", .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW},
    [R_E] = {"e", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [R_OUT] = {.name = "dlogits",
               .from = 2,
               .to = 3,
               .copies = 2,
               .bank = TG_UB_BANK_LOW,
               .when = WRITES},
    [R_FOLD] = {"lanes of rows", TG_UB_ROW, .bytes = 256, .from = 1, .to = 1,
                .bank = TG_UB_BANK_HIGH},
    [R_EIGHTH] = {"blocks of lanes", TG_UB_ROW, .bytes = 32, .from = 1, .to = 1, .align = 256},
    [R_BLOCK] = {"block", TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256},
    [R_BIAS] = {"bias", TG_UB_ROW, .bytes = 32, .from = 2, .to = 2, .align = 256, .when = WRITES},
    [R_AT_TARGET] = {"target's gradient", TG_UB_ROW, .bytes = 32, .from = 2, .to = 2, .align = 256,
                     .when = WRITES},
    [R_T] = {"t", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = R_SCRATCH},
    [R_S] = {"s", .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = R_CAPPED},
    [R_LEVELS] = {"maxima of blocks", .bytes = 8, .every = 8, .to = TG_UB_LAST, .when = R_ARGMAX},
    [R_TARGET] = {"targets", TG_UB_ROW, .bytes = 8, .to = 2, .copies = 2},
    [R_Y] = {"targets for S", TG_UB_ROW, .bytes = 2, .from = 1, .to = 2, .copies = 2},
    [R_PREDICTED] = {"predictions", TG_UB_ROW, .bytes = 8, .copies = 2, .when = R_ARGMAX},
    [R_NUMBER] = {"numbers of rows", TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST},
    [R_W] = {"class weights", TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .when = CLASS_WEIGHT},
    [R_LIMIT] = {"limits of classes", TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .when = LIMIT},
    [R_LANES] = {"lanes", TG_UB_FIXED, .bytes = ROW_LANES * MOST_ROWS * 4, .to = TG_UB_LAST,
                 .copies = 2},
    [R_SUMS] = {"sums", TG_UB_FIXED, .bytes = 3 * MOST_ROWS * 4, .to = TG_UB_LAST},
    [R_COUNTS] = {"counts", TG_UB_FIXED, .bytes = MOST_COUNTS * COUNT_BYTES},
};
static const char *const rows_options[] = {
    "gradient", "class weights", "weighted smoothing", "scratch", "softcap", "argmax", NULL};

/* ---- sums over rows and classes ---- */

static const tg_ub_buffer sum_buffers[SUM_BUFFERS] = {
    [SUM_X] = {.name = "x", .bytes = 4},
    [SUM_KEPT] = {.name = "kept", .bytes = 4},
    [SUM_INDEX] = {.name = "offsets", .bytes = 4, .when = GATHERS},
    [SUM_TARGET] = {.name = "targets", .bytes = 8},
    [SUM_WEIGHTS] = {"class weights", TG_UB_FIXED, .bytes = (MOST_GATHERED + 1) * 4,
                     .to = TG_UB_LAST, .when = GATHERS},
    [SUM_LANES] = {"lanes", TG_UB_FIXED, .bytes = 3 * 256, .to = TG_UB_LAST},
    [SUM_VALUE] = {"value", TG_UB_FIXED, .bytes = MOST_COUNTS * COUNT_BYTES, .to = TG_UB_LAST},
};

static const char *const sum_options[] = {"gathered class weights", NULL};

const tg_ub_kernel tg_ascend_ub_cross_entropy[] = {
    [FORWARD] = {.name = "cross_entropy_forward.ring",
                 .nbuffers = BUFFERS,
                 .buffers = row_buffers,
                 .max_rows = 1,
                 .option = row_options},
    [BACKWARD] = {.name = "cross_entropy_backward.ring",
                  .nbuffers = BUFFERS,
                  .buffers = row_buffers,
                  .max_rows = 1,
                  .option = row_options},
    [FORWARD_ROWS] = {.name = "cross_entropy_forward.rows",
                      .nbuffers = R_BUFFERS,
                      .buffers = rows_buffers,
                      .whole_rows = 1,
                      .max_rows = MOST_ROWS,
                      .option = rows_options},
    [BACKWARD_ROWS] = {.name = "cross_entropy_backward.rows",
                       .nbuffers = R_BUFFERS,
                       .buffers = rows_buffers,
                       .whole_rows = 1,
                       .max_rows = MOST_ROWS,
                       .option = rows_options},
    [SUMS] = {.name = "cross_entropy_forward.sums",
              .nbuffers = SUM_BUFFERS,
              .buffers = sum_buffers,
              .max_rows = 1,
              .option = sum_options},
    {0},
};
