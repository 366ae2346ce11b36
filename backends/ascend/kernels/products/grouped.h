/* grouped.h - where a core is in products of groups of rows; see grouped_gemm.cube.asc.c. */
#ifndef GROUPED_H
#define GROUPED_H

#include "gemm.h"
#include "grouped_gemm.args.h"

/* Groups, and how one is cut, whose rows are not in it. `step`: elements of k in a step. */
typedef struct grouped_cut {
    gemm_cut of;
    int64_t groups, rows, step;
    __gm__ int64_t *offset;
} grouped_cut;

/* All groups' rows by tiles of tile_m x tile_n; `packet` and `band` as in gemm_cut. */
static inline __aicore__ grouped_cut grouped_rows_of(int64_t rows, int64_t n, int64_t k,
                                                     int64_t tile_m, int64_t tile_n, int64_t packet,
                                                     int64_t band, int64_t groups, int64_t step,
                                                     __gm__ int64_t *offset)
{
    grouped_cut g;
    g.of.m = rows;
    g.of.n = n;
    g.of.k = g.of.share = k;
    g.of.tile_m = tile_m;
    g.of.tile_n = tile_n;
    g.of.tiles_m = 0;
    g.of.tiles_n = (n + tile_n - 1) / tile_n;
    g.of.splits = 1;
    g.of.packet = packet;
    g.of.band = band;
    g.of.units = 0;
    g.of.biased = 0;
    g.groups = groups;
    g.rows = rows;
    g.step = step;
    g.offset = offset;
    return g;
}

/* Where a core is: a tile of a group, whose rows are `begin` to `end`, and before which come the
 * tiles of all others, `before` of them; behind the last group comes what belongs to none. The
 * tile's row is counted in the group. */
typedef struct grouped_place {
    gemm_place at;
    int64_t group, begin, end, before;
    int none;
} grouped_place;

/* A boundary; it lies within the tensor and behind the one before, whatever it says. */
static inline __aicore__ int64_t grouped_end(const grouped_cut *g, int64_t group, int64_t begin)
{
    const int64_t end = group < g->groups ? g->offset[group + 1] : g->rows;
    return end < begin ? begin : asc_min_of(end, g->rows);
}

/* The cut of a place's group. What belongs to none is a step of zeros. */
static inline __aicore__ gemm_cut grouped_cut_of(const grouped_cut *g, const grouped_place *p)
{
    gemm_cut c = g->of;
    c.m = p->end - p->begin;
    c.tiles_m = (c.m + c.tile_m - 1) / c.tile_m;
    if (p->group == g->groups || c.k == 0)
        c.k = c.share = g->step;
    return c;
}

/* The tile of a number, behind which no earlier one comes up again. */
static inline __aicore__ void grouped_take(const grouped_cut *g, grouped_place *p, int64_t unit)
{
    for (;;) {
        const gemm_cut c = grouped_cut_of(g, p);
        const int64_t tiles = c.tiles_m * c.tiles_n;
        if (unit < p->before + tiles) {
            p->at = gemm_place_of(&c, unit - p->before, p->at.set);
            p->at.unit = unit;
            return;
        }
        if (p->group == g->groups) {
            p->none = 1;
            return;
        }
        p->before += tiles;
        p->group++;
        p->begin = p->end;
        p->end = grouped_end(g, p->group, p->begin);
    }
}

static inline __aicore__ grouped_place grouped_first(const grouped_cut *g)
{
    grouped_place p;
    p.none = 0;
    p.group = p.begin = p.before = 0;
    p.at.set = 0;
    p.end = grouped_end(g, 0, 0);
    grouped_take(g, &p, asc_get_block_idx());
    return p;
}

/* The next packet. */
static inline __aicore__ void grouped_go_on(const grouped_cut *g, grouped_place *p)
{
    p->at.k += g->of.packet;
    p->at.set = (p->at.set + 1) % GEMM_PACKETS;
    if (p->at.k >= p->at.end)
        grouped_take(g, p, p->at.unit + asc_get_block_num());
}

/* The row of a that row j is; it lies within a, whatever its index says. */
static inline __aicore__ int64_t grouped_row(__gm__ int64_t *gather, int64_t j, int64_t top_k,
                                             int64_t rows)
{
    const int64_t row = gather[j] / top_k;
    return row < 0 ? 0 : asc_min_of(row, rows - 1);
}

/* Where a core is in the gradients of matrices: a tile of a group's matrix, whose terms are rows
 * from `begin` on; k is counted in the group. empty: it has none, and the tile is zeros. */
typedef struct grouped_terms {
    gemm_place at;
    int64_t begin;
    int none, empty;
} grouped_terms;

static inline __aicore__ void grouped_terms_take(const grouped_cut *g, grouped_terms *p,
                                                 int64_t unit, int64_t add)
{
    for (;; unit += asc_get_block_num()) {
        p->none = unit >= g->of.units;
        if (p->none)
            return;
        p->at = gemm_place_of(&g->of, unit, p->at.set);
        p->begin = g->offset[p->at.product];
        p->at.end = g->offset[p->at.product + 1] - p->begin;
        p->empty = p->at.end <= 0;
        if (p->empty)
            p->at.end = g->step;
        if (!p->empty || !add)
            return;
    }
}

static inline __aicore__ grouped_terms grouped_terms_first(const grouped_cut *g, int64_t add)
{
    grouped_terms p;
    p.at.set = 0;
    p.begin = 0;
    p.empty = 0;
    grouped_terms_take(g, &p, asc_get_block_idx(), add);
    return p;
}

static inline __aicore__ void grouped_terms_go_on(const grouped_cut *g, grouped_terms *p,
                                                  int64_t add)
{
    p->at.k += g->of.packet;
    p->at.set = (p->at.set + 1) % GEMM_PACKETS;
    if (p->at.k >= p->at.end)
        grouped_terms_take(g, p, p->at.unit + asc_get_block_num(), add);
}

#endif
