/* gemm.h - where a core is in a product: what the kernels that multiply matrices share with gemm;
 * see gemm.cube.asc.c. */
#ifndef GEMM_H
#define GEMM_H

#include "gemm.args.h"
#include "shared/asc_any.h"
#include "shared/asc_ring.h"

/* How a product is cut; see gemm.args.h. units: tiles of all splits of all products. biased: sums
 * begin with what the bias table has. */
typedef struct gemm_cut {
    int64_t m, n, k, tile_m, tile_n, tiles_m, tiles_n, share, splits, packet, band, units;
    int biased;
} gemm_cut;

/* Where a core is: at element k of the unit's share, which ends at `end`; set: where in
 * L1 the packet is. */
typedef struct gemm_place {
    int64_t unit, product, split, row, rows, column, columns, k, end;
    int set;
} gemm_place;

/* An operand: `turned` if its rows in global memory run along k's other side, so that a row
 * belongs to one k. */
typedef struct gemm_side {
    int64_t stride, turned, room; /* room: bytes of a packet in L1 */
    uint64_t l1;                  /* its first packet's offset there */
} gemm_side;

static inline __aicore__ gemm_side gemm_side_of(int64_t stride, int64_t turned, int64_t tile,
                                                int64_t packet_bytes, uint64_t l1)
{
    gemm_side s;
    s.stride = stride;
    s.turned = turned;
    s.room = tile * packet_bytes;
    s.l1 = l1;
    return s;
}

/* Where a product's matrix begins; see gemm.args.h. */
static inline __aicore__ int64_t gemm_matrix(const gemm_place *p, int64_t inner, int64_t inner_step,
                                             int64_t outer_step)
{
    return p->product / inner * outer_step + p->product % inner * inner_step;
}

/* Unit by number: a product after the other, of each a split after the other; in it bands of tiles,
 * each gone through down its columns. */
static inline __aicore__ gemm_place gemm_place_of(const gemm_cut *g, int64_t unit, int set)
{
    gemm_place p;
    const int64_t tiles = g->tiles_m * g->tiles_n, of_band = g->band * g->tiles_n;
    const int64_t tile = unit % tiles, band = tile / of_band, in_band = tile % of_band;
    const int64_t high = asc_min_of(g->band, g->tiles_m - band * g->band);
    p.unit = unit;
    p.product = unit / (tiles * g->splits);
    p.split = unit / tiles % g->splits;
    p.row = (band * g->band + in_band % high) * g->tile_m;
    p.rows = asc_min_of(g->tile_m, g->m - p.row);
    p.column = in_band / high * g->tile_n;
    p.columns = asc_min_of(g->tile_n, g->n - p.column);
    p.k = p.split * g->share;
    p.end = asc_min_of(p.k + g->share, g->k);
    p.set = set;
    return p;
}

/* The next packet. */
static inline __aicore__ void gemm_go_on(const gemm_cut *g, gemm_place *p)
{
    p->k += g->packet;
    p->set = (p->set + 1) % GEMM_PACKETS;
    if (p->k >= p->end)
        *p = gemm_place_of(g, p->unit + asc_get_block_num(), p->set);
}

/* All of L1 and both halves of L0 are free: op tells so, or waits for it. */
#define GEMM_BUFFERS(op)                              \
    for (int set = 0; set < GEMM_PACKETS; set++)      \
        ASC_RING_FLAG(op, PIPE_MTE1, PIPE_MTE2, set); \
    op(PIPE_M, PIPE_MTE1, EVENT_ID0);                 \
    op(PIPE_M, PIPE_MTE1, EVENT_ID1)

static inline __aicore__ void gemm_begin(int64_t add)
{
    asc_init();
    asc_set_ctrl(asc_get_ctrl() | ASC_CTRL_INFINITY);
    asc_set_mmad_direction_n(); /* as the copies out read it, row by row */
    asc_set_l0c_copy_params(1, 0, 0);
    if (add)
        asc_set_atomic_add_float();
    GEMM_BUFFERS(asc_sync_notify);
}

static inline __aicore__ void gemm_end(void)
{
    GEMM_BUFFERS(asc_sync_wait);
    asc_set_atomic_none();
    asc_set_mmad_direction_m();
    asc_modes_clear();
}

/* The first block of other work that a vector core does beside a product, one of `cores`; those
 * that take no part begin behind all. One of each cube core comes first: they do not share its way
 * to memory then. */
static inline __aicore__ int64_t gemm_beside_first(int64_t cores)
{
    const int64_t core = asc_get_sub_block_id() * asc_get_block_num() + asc_get_block_idx();
    return core < cores ? core : INT64_MAX;
}

#endif
