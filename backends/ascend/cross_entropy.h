/* cross_entropy.h - what cross_entropy_ub.c says of UB and the launches go by; a call. */
#ifndef ASCEND_CROSS_ENTROPY_H
#define ASCEND_CROSS_ENTROPY_H

#include "ring.h"

/* Kernels: rows one by one in pieces, several rows, sums over rows and classes. */
enum { FORWARD, BACKWARD, FORWARD_ROWS, BACKWARD_ROWS, SUMS };
enum { MOST_ROWS = 128, ROW_LANES = 32 };
enum { LANES_BYTES = 32 * 256, BATCH = 64, MOST_COUNTS = 64, COUNT_BYTES = 32 };

/* The buffers of each, and when some are there. */
enum { X, W, PICK, E, T, S, MAXIMA, PAIRS, LANES, COUNTS, PREDICTIONS, BUFFERS };
#define WEIGHTED TG_UB_OPTION(0) /* weights take part element by element */
#define CAPPED TG_UB_OPTION(1)
#define SCRATCH TG_UB_OPTION(2) /* either */
#define ARGMAX TG_UB_OPTION(3)

enum {
    R_X,
    R_E,
    R_OUT,
    R_FOLD,
    R_EIGHTH,
    R_BLOCK,
    R_BIAS,
    R_AT_TARGET,
    R_T,
    R_S,
    R_LEVELS,
    R_TARGET,
    R_Y,
    R_PREDICTED,
    R_NUMBER,
    R_W,
    R_LIMIT,
    R_LANES,
    R_SUMS,
    R_COUNTS,
    R_BUFFERS
};
#define WRITES TG_UB_OPTION(0)
#define CLASS_WEIGHT TG_UB_OPTION(1)
#define LIMIT TG_UB_OPTION(2) /* WEIGHTED */
#define R_SCRATCH TG_UB_OPTION(3)
#define R_CAPPED TG_UB_OPTION(4)
#define R_ARGMAX TG_UB_OPTION(5)

enum { SUM_X, SUM_KEPT, SUM_INDEX, SUM_TARGET, SUM_WEIGHTS, SUM_LANES, SUM_VALUE, SUM_BUFFERS };
#define GATHERS TG_UB_OPTION(0)
enum { MOST_GATHERED = 8191 }; /* classes whose weights are gathered from UB */

/* ---- a call of either direction ---- */

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

typedef struct ce_call {
    const ascend_runtime *runtime;
    ascend_impls logits, dlogits;
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
ascend_arg ascend_ce_vector(const tg_tensor *t, const char *name);

/* The rows; tells c->summands. */
tg_status ascend_ce_run_rows(tg_ctx *ctx, ce_call *c);

#endif
