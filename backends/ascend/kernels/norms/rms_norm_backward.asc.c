/* rms_norm_backward.asc.c - with m = dy (offset + weight) and n = x rstd:
 *   dx = rstd (m - n mean(m n)) + ds,   dweight = sum over rows of dy n, n rounded in llama mode.
 * Arithmetic is f32 in UB.
 *
 * .._rows has whole rows in UB and dweight's sum with them. .._wide walks groups of rows in pieces,
 * once for the mean and once for dx, a group behind: the second time it finds dy and x in L2, and
 * there, too, is the block's sum of dweight. Blocks' sums are added by
 * kernels/sums/partials.asc.c. */
#include "rms_norm_backward.args.h"
#include "rms_norm_gated.args.h"
#include "rms_norm_modulated.args.h"
#include "rms_norm_pieces.h"
#include "shared/asc_ring.h"
#include "shared/asc_short.h"
#include "shared/asc_silu.h"

/* factors: - rstd mean, spread for ASC_BY_ROW; sums: of a row each, of which mean is the part. */
static inline __aicore__ void rms_norm_spread(__ubuf__ float *factors, __ubuf__ float *sums,
                                              __ubuf__ float *rstd, float mean, int64_t rows)
{
    asc_mul_scalar(sums, sums, -mean, (uint32_t)rows);
    ASC_THEN();
    asc_mul(sums, sums, rstd, (uint32_t)rows);
    ASC_THEN();
    asc_spread(factors, sums, rows);
    ASC_THEN();
}

/* ---- the order of a block's work on wide rows ---- */

enum { RMS_NORM_SLOTS = 3 }; /* of what is copied in: two steps ahead */

/* `groups` of rows, each of at least two `pieces`. A step sums a piece or writes it. The steps of
 * sums of one group and those that write the group before take turns: the one fill the pipes
 * where the others wait. */
typedef struct rms_norm_walk {
    asc_grid grid;
    asc_share share;
    int64_t groups, pieces, steps;
} rms_norm_walk;

typedef struct rms_norm_step {
    asc_tile tile;
    int64_t group;
    int writes, slot;
    int copy;  /* of dweight's buffer, which the steps that write take in turns */
    int again; /* the columns are those of the step before */
} rms_norm_step;

static inline __aicore__ rms_norm_walk rms_norm_walk_of(asc_grid grid)
{
    rms_norm_walk walk;
    walk.grid = grid;
    walk.share = asc_share_of(grid.rows);
    walk.groups = (walk.share.end - walk.share.begin + grid.tile_rows - 1) / grid.tile_rows;
    walk.pieces = grid.column_tiles;
    walk.steps = 2 * walk.groups * walk.pieces;
    return walk;
}

/* Every other block has the turns the other way round, so that half of them read memory
 * while half read L2. */
static inline __aicore__ rms_norm_step rms_norm_step_at(const rms_norm_walk *walk, int64_t number)
{
    const int64_t pair = 2 * walk->pieces, behind = number - walk->pieces;
    const int64_t turn = (behind + asc_get_block_idx()) % 2;
    rms_norm_step step;
    int64_t piece;
    step.again = 0;
    if (behind < 0) { /* nothing to write yet */
        step.writes = 0;
        step.group = 0;
        piece = number;
    } else if (behind >= pair * (walk->groups - 1)) { /* nothing left to sum */
        step.writes = 1;
        step.group = walk->groups - 1;
        piece = behind - pair * step.group;
    } else {
        step.writes = turn == 0;
        step.group = behind / pair + !step.writes;
        piece = behind % pair / 2;
        step.again = behind % 2 == 1;
    }
    step.tile = asc_piece_at(walk->grid, walk->share,
                             walk->share.begin + step.group * walk->grid.tile_rows, piece);
    step.slot = (int)(number % RMS_NORM_SLOTS);
    step.copy = (int)((step.group * walk->pieces + piece) % 2);
    return step;
}

/* The group whose sums a step completes; -1 if none. */
static inline __aicore__ int64_t rms_norm_summed(const rms_norm_walk *walk, int64_t number)
{
    const int64_t done = number + 1 - walk->pieces, pair = 2 * walk->pieces;
    return done % pair == 0 ? done / pair : -1;
}

#define ASC_TEMPLATE "norms/rms_norm_backward.asc.h"
#include "shared/asc_each_type.h"
