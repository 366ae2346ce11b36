/* fused_moe.mix.asc.c - the first product of experts' layers, on the cube cores, and the gate
 * behind it, on the vector cores beside them: a block is a cube core and its two vector cores,
 * which take half of a tile's rows each while the next tile is multiplied. Tiles go through slots
 * of memory that L2 holds, in f32. Cores of a block find the same tiles in the same order, from
 * the boundaries of the groups. */
#include "moe_gate.h"
#include "products/grouped.h"
#include "shared/asc_neighbours.h"
#include "shared/asc_row_tile.h"

/* Flags between the cores of a block: a tile is there; both vector cores have read it; a panel is
 * there; the cube core has read it. */
enum { MOE_MADE, MOE_TAKEN, MOE_GATHERED, MOE_FREE };

/* Columns of a tile, of `columns` gates: what they multiply begins at whole fractals. */
static inline __aicore__ int64_t moe_half(int64_t columns)
{
    return asc_round_up(columns, 16);
}

/* Where a core is: a task, and of its columns the tile at `at`. turn: of the tasks whose rows were
 * gathered. */
typedef struct moe_place {
    grouped_place task;
    gemm_place at;
    int64_t turn;
} moe_place;

/* The tile of a task that begins at column `column`. */
static inline __aicore__ void moe_see(moe_place *p, int64_t column, int64_t side)
{
    const gemm_place *task = &p->task.at;
    const int set = p->at.set;
    p->at = *task;
    p->at.set = set;
    p->at.column = column;
    p->at.columns = asc_min_of(side, task->column + task->columns - column);
}

static inline __aicore__ moe_place moe_first(const grouped_cut *g, int64_t side)
{
    moe_place p;
    p.task = grouped_first(g);
    p.turn = 0;
    p.at.set = 0;
    if (!p.task.none)
        moe_see(&p, p.task.at.column, side);
    return p;
}

/* Whether the place's rows are gathered. */
static inline __aicore__ int moe_gathers(const grouped_cut *g, const moe_place *p, int64_t gathered)
{
    return gathered && p->task.group < g->groups && g->of.k > 0;
}

static inline __aicore__ void moe_next_task(const grouped_cut *g, moe_place *p, int64_t side,
                                            int64_t gathered)
{
    p->turn += moe_gathers(g, p, gathered);
    grouped_take(g, &p->task, p->task.at.unit + asc_get_block_num());
    if (!p->task.none)
        moe_see(p, p->task.at.column, side);
}

/* Whether the tile is its task's last. */
static inline __aicore__ int moe_is_last(const moe_place *p)
{
    return p->at.column + p->at.columns >= p->task.at.column + p->task.at.columns;
}

/* The next tile. */
static inline __aicore__ void moe_next_tile(const grouped_cut *g, moe_place *p, int64_t side,
                                            int64_t gathered)
{
    if (moe_is_last(p))
        moe_next_task(g, p, side, gathered);
    else
        moe_see(p, p->at.column + side, side);
}

/* The next packet. */
static inline __aicore__ void moe_go_on(const grouped_cut *g, moe_place *p, int64_t side,
                                        int64_t gathered)
{
    p->at.k += g->of.packet;
    p->at.set = (p->at.set + 1) % GEMM_PACKETS;
    if (p->at.k >= p->at.end)
        moe_next_tile(g, p, side, gathered);
}

/* The place of all columns of a tile. */
static inline __aicore__ gemm_place moe_both(const gemm_place *at, int64_t interleaved)
{
    gemm_place p = *at;
    p.columns = interleaved ? 2 * at->columns : 2 * moe_half(at->columns);
    return p;
}

/* A vector core's rows of a task. */
static inline __aicore__ int64_t moe_own(const moe_place *p, int64_t *first)
{
    const int64_t upper = (p->task.at.rows + 1) / 2;
    *first = asc_get_sub_block_id() ? upper : 0;
    return *first ? p->task.at.rows - upper : upper;
}

#define ASC_TEMPLATE "experts/fused_moe.asc.h"
#include "shared/asc_each_type.h"
