/* matmul_core.h - the cube core's part of matmul() and matmul_gelu(). */
#ifndef EXAMPLES_MATMUL_CORE_H
#define EXAMPLES_MATMUL_CORE_H

#include "c_api/asc_simd.h"
#include "matmul.h"

enum { DEPTH = 64, B_OF_L1 = 262144, SET_OF_L1 = 131072, A_OF_L0 = 16384, B_OF_L0 = 32768 };

typedef struct matmul_share {
    matmul_how how;
    __gm__ half *a, *b, *c;
    uint32_t row, column, rows, columns;  /* of C */
    uint32_t band_rows, tiles_m, tiles_n; /* tiles_m: of a band */
    uint32_t steps;                       /* of DEPTH in k */
} matmul_share;

typedef struct matmul_tile {
    uint32_t row, column, rows, columns;
} matmul_tile;

static inline __aicore__ uint32_t matmul_up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to;
}
static inline __aicore__ uint32_t matmul_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline __aicore__ matmul_share matmul_begin(__gm__ uint32_t *how, __gm__ half *a,
                                                   __gm__ half *b, __gm__ half *c)
{
    matmul_share s;
    s.how = *(__gm__ matmul_how *)how;
    s.a = a;
    s.b = b;
    s.c = c;
    const uint32_t core = (uint32_t)asc_get_block_idx();
    s.row = core / s.how.columns * s.how.share_m;
    s.column = core % s.how.columns * s.how.share_n;
    s.rows = s.row < s.how.m ? matmul_least(s.how.share_m, s.how.m - s.row) : 0;
    s.columns = s.column < s.how.n ? matmul_least(s.how.share_n, s.how.n - s.column) : 0;
    s.band_rows = matmul_up(matmul_up(s.rows, s.how.bands), s.how.tile_m) * s.how.tile_m;
    s.tiles_m = s.band_rows / s.how.tile_m;
    s.tiles_n = matmul_up(s.columns, s.how.tile_n);
    s.steps = s.how.k / DEPTH;
    return s;
}

static inline __aicore__ uint32_t matmul_tiles(const matmul_share *s)
{
    return s->columns && s->rows ? s->how.bands * s->tiles_m * s->tiles_n : 0;
}

/* Tile by number: down the rows of a band, then its next column. Behind the last row of the share
 * it is empty. */
static inline __aicore__ matmul_tile matmul_tile_at(const matmul_share *s, uint32_t number)
{
    const uint32_t of_band = s->tiles_m * s->tiles_n, band = number / of_band;
    const uint32_t row = band * s->band_rows + number % of_band % s->tiles_m * s->how.tile_m;
    const uint32_t column = number % of_band / s->tiles_m * s->how.tile_n;
    matmul_tile t = {s->row + row, s->column + column, 0, 0};
    if (row < s->rows) {
        t.rows = matmul_least(s->how.tile_m, s->rows - row);
        t.columns = matmul_least(s->how.tile_n, s->columns - column);
    }
    return t;
}

/* ---- packets: steps of k of one tile, numbered through ---- */

static inline __aicore__ void matmul_bring(__cbuf__ half *to, __gm__ half *from, uint32_t rows,
                                           uint32_t columns, uint32_t pitch, uint32_t high)
{
    asc_copy_gm2l1_nd2nz(to, from, 1, rows, columns, 0, pitch, high, 1, 0);
}

/* Blocks of a column of A in L1: a product of one row wants it as it lies. */
static inline __aicore__ uint32_t matmul_high(uint32_t rows)
{
    return rows == 1 ? 1 : matmul_up(rows, 16) * 16;
}

static inline __aicore__ __cbuf__ half *matmul_a1(uint32_t set)
{
    return (__cbuf__ half *)(asc_get_phy_buf_addr(0) + set * SET_OF_L1);
}
static inline __aicore__ __cbuf__ half *matmul_b1(uint32_t set)
{
    return (__cbuf__ half *)(asc_get_phy_buf_addr(B_OF_L1) + set * SET_OF_L1);
}

/* L1 is free when what was in the set has been loaded: events 0 and 1 of A, 2 and 3 of B. */
static inline __aicore__ void matmul_bring_a(const matmul_share *s, uint32_t packet)
{
    const uint32_t each = matmul_up(s->steps, s->how.packet_a), set = packet % s->how.sets;
    const matmul_tile t = matmul_tile_at(s, packet / each);
    const uint32_t k = packet % each * s->how.packet_a * DEPTH;
    asc_sync_wait(PIPE_MTE1, PIPE_MTE2, set);
    if (t.rows)
        matmul_bring(matmul_a1(set), s->a + (uint64_t)t.row * s->how.k + k, t.rows,
                     matmul_least(s->how.packet_a * DEPTH, s->how.k - k), s->how.k,
                     matmul_high(t.rows));
    asc_sync_notify(PIPE_MTE2, PIPE_MTE1, set);
}

static inline __aicore__ void matmul_bring_b(const matmul_share *s, uint32_t packet)
{
    const uint32_t each = matmul_up(s->steps, s->how.packet_b), set = packet % s->how.sets;
    const matmul_tile t = matmul_tile_at(s, packet / each);
    const uint32_t k = packet % each * s->how.packet_b * DEPTH;
    asc_sync_wait(PIPE_MTE1, PIPE_MTE2, 2 + set);
    if (t.rows)
        matmul_bring(matmul_b1(set), s->b + (uint64_t)t.column * s->how.k + k, t.columns,
                     matmul_least(s->how.packet_b * DEPTH, s->how.k - k), s->how.k,
                     matmul_up(t.columns, 16) * 16);
    asc_sync_notify(PIPE_MTE2, PIPE_MTE1, 2 + set);
}

/* ---- a step ---- */

/* Columns of blocks become rows of fractals by the 3D load; those of B are what L0B wants. */
static inline __aicore__ void matmul_load(const matmul_tile *t, __cbuf__ half *a1,
                                          __cbuf__ half *b1, uint32_t set)
{
    __ca__ half *a0 = (__ca__ half *)(asc_get_phy_buf_addr(0) + set * A_OF_L0);
    __cb__ half *b0 = (__cb__ half *)(asc_get_phy_buf_addr(0) + set * B_OF_L0);
    const uint32_t m1 = matmul_up(t->rows, 16), n1 = matmul_up(t->columns, 16);
    asc_l13d_fmatrix_config image = {0};
    image.l1_height = 1;
    image.l1_width = (uint16_t)(m1 * 16);
    asc_set_l13d_fmatrix(image);
    if (t->rows == 1)
        asc_copy_l12l0a(a0, a1, 0, 1, 1, 0);
    else
        asc_copy_l12l0a(a0, a1, DEPTH, m1 * 16, 0, 0, 1, 1, 1, 1, 1, 1, false, false, false, false,
                        DEPTH);
    asc_copy_l12l0b(b0, b1, 0, n1 * (DEPTH / 16), 1, 0);
}

static inline __aicore__ void matmul_multiply(const matmul_share *s, const matmul_tile *t,
                                              uint32_t step, uint32_t set)
{
    const int last = step + 1 == s->steps;
    const uint32_t flag = !s->how.unit_flag ? 0 : last ? 3 : 2;
    asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0),
             (__ca__ half *)(asc_get_phy_buf_addr(0) + set * A_OF_L0),
             (__cb__ half *)(asc_get_phy_buf_addr(0) + set * B_OF_L0), t->rows, DEPTH, t->columns,
             flag, false, false, step == 0);
    if (matmul_up(t->rows, 16) * matmul_up(t->columns, 16) < 10)
        asc_sync_pipe(
            PIPE_M); /* few results: the next product wants them while they are in flight */
}

/* All steps of a tile. What is first needed waits for its packet and sends for the next one. */
static inline __aicore__ void matmul_run_tile(const matmul_share *s, uint32_t number,
                                              uint32_t last_a, uint32_t last_b)
{
    const matmul_tile t = matmul_tile_at(s, number);
    const uint32_t each_a = matmul_up(s->steps, s->how.packet_a);
    const uint32_t each_b = matmul_up(s->steps, s->how.packet_b), ahead = s->how.sets - 1;
    for (uint32_t step = 0; step < s->steps; step++) {
        const uint32_t in_a = step % s->how.packet_a, in_b = step % s->how.packet_b;
        const uint32_t pa = number * each_a + step / s->how.packet_a;
        const uint32_t pb = number * each_b + step / s->how.packet_b;
        const uint32_t a = pa % s->how.sets, b = 2 + pb % s->how.sets, set = step % 2;
        if (in_a == 0 && pa + ahead < last_a)
            matmul_bring_a(s, pa + ahead);
        if (in_b == 0 && pb + ahead < last_b)
            matmul_bring_b(s, pb + ahead);
        if (in_a == 0)
            asc_sync_wait(PIPE_MTE2, PIPE_MTE1, a);
        if (in_b == 0)
            asc_sync_wait(PIPE_MTE2, PIPE_MTE1, b);
        asc_sync_wait(PIPE_M, PIPE_MTE1, set);
        if (t.rows)
            matmul_load(&t, matmul_a1(a) + in_a * DEPTH * matmul_high(t.rows),
                        matmul_b1(b - 2) + in_b * DEPTH * matmul_up(t.columns, 16) * 16, set);
        asc_sync_notify(PIPE_MTE1, PIPE_M, set);
        if (in_a + 1 == s->how.packet_a || step + 1 == s->steps)
            asc_sync_notify(PIPE_MTE1, PIPE_MTE2, a);
        if (in_b + 1 == s->how.packet_b || step + 1 == s->steps)
            asc_sync_notify(PIPE_MTE1, PIPE_MTE2, b);
        asc_sync_wait(PIPE_MTE1, PIPE_M, set);
        if (step == 0 && !s->how.unit_flag)
            asc_sync_wait(PIPE_FIX, PIPE_M, EVENT_ID0);
        if (t.rows)
            matmul_multiply(s, &t, step, set);
        asc_sync_notify(PIPE_M, PIPE_MTE1, set);
    }
}

static inline __aicore__ void matmul_copy_out(const matmul_share *s, uint32_t number)
{
    const matmul_tile t = matmul_tile_at(s, number);
    if (!s->how.unit_flag) {
        asc_sync_notify(PIPE_M, PIPE_FIX, EVENT_ID0);
        asc_sync_wait(PIPE_M, PIPE_FIX, EVENT_ID0);
    }
    __cc__ float *from = (__cc__ float *)asc_get_phy_buf_addr(0);
    const uint64_t at = (uint64_t)t.row * s->how.n + t.column;
    const uint32_t high = matmul_up(t.rows, 16) * 16, flag = s->how.unit_flag ? 3 : 0;
    if (t.rows && s->how.floats)
        asc_copy_l0c2gm((__gm__ float *)s->c + at, from, t.columns, t.rows, s->how.n, high, flag,
                        NoQuant, 0, false, true);
    else if (t.rows)
        asc_copy_l0c2gm(s->c + at, from, t.columns, t.rows, s->how.n, high, flag, F322F16, 0, false,
                        true);
    if (!s->how.unit_flag)
        asc_sync_notify(PIPE_FIX, PIPE_M, EVENT_ID0);
}

/* Backward flags: everything is free at the start, and taken back at the end. */
static inline __aicore__ void matmul_prime(const matmul_share *s)
{
    if (s->how.unit_flag) /* as the copies out read results, row by row */
        asc_set_mmad_direction_n();
    asc_set_l0c_copy_params(1, 0, 0);
    for (uint32_t set = 0; set < 2; set++) {
        asc_sync_notify(PIPE_M, PIPE_MTE1, set);
        if (set < s->how.sets) {
            asc_sync_notify(PIPE_MTE1, PIPE_MTE2, set);
            asc_sync_notify(PIPE_MTE1, PIPE_MTE2, 2 + set);
        }
    }
    if (!s->how.unit_flag)
        asc_sync_notify(PIPE_FIX, PIPE_M, EVENT_ID0);
}

static inline __aicore__ void matmul_drain(const matmul_share *s)
{
    for (uint32_t set = 0; set < 2; set++) {
        asc_sync_wait(PIPE_M, PIPE_MTE1, set);
        if (set < s->how.sets) {
            asc_sync_wait(PIPE_MTE1, PIPE_MTE2, set);
            asc_sync_wait(PIPE_MTE1, PIPE_MTE2, 2 + set);
        }
    }
    if (!s->how.unit_flag)
        asc_sync_wait(PIPE_FIX, PIPE_M, EVENT_ID0);
    asc_set_mmad_direction_m();
}

#endif
