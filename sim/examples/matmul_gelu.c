/* matmul_gelu.c - a product whose elements go through gelu: the cube core writes tiles, its two
 * vector cores read half of each while it works on the next. */
#include "examples.h"
#include "matmul_core.h"

/* Signals: a tile is there; RING tiles have been read. */
enum { THERE = 0, READ = 1, RING = 4, ROWS = 8, LANES = 256, ROOM = ROWS * LANES };

static __aicore__ void multiply_tiles(const matmul_share *s)
{
    const uint32_t tiles = matmul_tiles(s);
    const uint32_t last_a = tiles * matmul_up(s->steps, s->how.packet_a);
    const uint32_t last_b = tiles * matmul_up(s->steps, s->how.packet_b);
    matmul_prime(s);
    if (tiles) {
        matmul_bring_b(s, 0);
        matmul_bring_a(s, 0);
    }
    for (uint32_t tile = 0; tile < tiles; tile++) {
        if (tile >= 2 * RING && tile % RING == 0)
            asc_sync_block_wait(PIPE_S, READ);
        matmul_run_tile(s, tile, last_a, last_b);
        matmul_copy_out(s, tile);
        asc_sync_block_arrive(PIPE_FIX, THERE);
    }
    matmul_drain(s);
}

/* x / (1 + exp(-1.702 x)): y and z are where it works. */
static __aicore__ void gelu(__ubuf__ half *x, __ubuf__ float *y, __ubuf__ float *z, uint32_t count)
{
    asc_half2float(y, x, count);
    asc_sync_pipe(PIPE_V);
    asc_mul_scalar(z, y, -1.702f, count);
    asc_sync_pipe(PIPE_V);
    asc_exp(z, z, count);
    asc_sync_pipe(PIPE_V);
    asc_add_scalar(z, z, 1.0f, count);
    asc_sync_pipe(PIPE_V);
    asc_div(z, y, z, count);
    asc_sync_pipe(PIPE_V);
    asc_float2half_rn(x, z, count);
}

/* Two sets of buffers: the next rows come in while these are worked on. */
static __aicore__ void gelu_rows(const matmul_share *s, __gm__ half *out, uint32_t row,
                                 const matmul_tile *t, uint32_t rows, uint32_t set)
{
    __ubuf__ half *x = (__ubuf__ half *)asc_get_phy_buf_addr(0) + set * ROOM;
    __ubuf__ float *y = (__ubuf__ float *)(asc_get_phy_buf_addr(4 * ROOM)) + set * ROOM;
    __ubuf__ float *z = (__ubuf__ float *)(asc_get_phy_buf_addr(12 * ROOM + 256)) + set * ROOM;
    const uint64_t at = (uint64_t)row * s->how.n + t->column;
    const uint32_t bytes = t->columns * 2, gap = (s->how.n - t->columns) * 2;
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, set);
    const uint32_t pad = matmul_up(t->columns, 16) * 16 - t->columns;
    asc_copy_gm2ub_align(x, s->c + at, rows, bytes, 0, pad, gap, 0);
    asc_sync_notify(PIPE_MTE2, PIPE_V, set);
    asc_sync_wait(PIPE_MTE2, PIPE_V, set);
    gelu(x, y, z, rows * matmul_up(t->columns, 16) * 16);
    asc_sync_notify(PIPE_V, PIPE_MTE3, set);
    asc_sync_wait(PIPE_V, PIPE_MTE3, set);
    asc_copy_ub2gm_align(out + at, x, rows, bytes, 0, 0, 0, gap);
    asc_sync_notify(PIPE_MTE3, PIPE_MTE2, set);
}

static __aicore__ void gelu_tiles(const matmul_share *s, __gm__ half *out)
{
    const uint32_t tiles = matmul_tiles(s);
    uint32_t set = 0;
    asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    asc_set_copy_pad_val((half)0.0f);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        const matmul_tile t = matmul_tile_at(s, tile);
        const uint32_t upper = matmul_up(t.rows, 2), second = (uint32_t)asc_get_sub_block_id();
        const uint32_t rows = second ? t.rows - upper : upper;
        asc_sync_block_wait(PIPE_S, THERE);
        for (uint32_t row = 0; row < rows; row += ROWS, set ^= 1)
            gelu_rows(s, out, t.row + second * upper + row, &t, matmul_least(ROWS, rows - row),
                      set);
        if (tile % RING == RING - 1 && tile + RING + 1 < tiles)
            asc_sync_block_arrive(PIPE_MTE2, READ);
    }
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
}

EXAMPLE __global__ __mix__(1, 2) void matmul_gelu(__gm__ uint32_t *how, __gm__ half *a,
                                                  __gm__ half *b, __gm__ half *c, __gm__ half *out,
                                                  uint64_t sync)
{
    asc_set_ffts_base_addr(sync);
    asc_init();
    const matmul_share s = matmul_begin(how, a, b, c);
    if ASC_IS_AIC {
        multiply_tiles(&s);
    } else {
        gelu_tiles(&s, out);
    }
}
