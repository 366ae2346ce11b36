/* softmax.asc.h - the kernels of one type; see asc_each_type.h. */

ASC_STEP(softmax_forward_rows_begin, SOFTMAX_FORWARD_ROWS)
{
    asc_init();
    asc_duplicate(ASC_SCRATCH(value), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
}

ASC_STEP(softmax_forward_rows_in, SOFTMAX_FORWARD_ROWS)
{
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
}

ASC_STEP(softmax_forward_rows_tile, SOFTMAX_FORWARD_ROWS)
{
#if ASC_16BIT
    __ubuf__ float *e = ASC_SCRATCH(e);
    ASC_WIDEN(e, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_HAS_READ(p->slot);
    softmax_forward_tile(e, e, ASC_SCRATCH(lanes), ASC_SCRATCH(value), ASC_SCRATCH(block), p->rows,
                         columns, p->pitch, 1);
    ASC_MAY_WRITE(p->slot);
    ASC_NARROW(ASC_UB(ASC_T, y_at, p->slot), e, p->n);
    ASC_THEN(); /* e is the next tile's */
#else
    ASC_MAY_WRITE(p->slot);
    softmax_forward_tile(ASC_UB(float, y_at, p->slot), ASC_UB(float, x_at, p->slot),
                         ASC_SCRATCH(lanes), ASC_SCRATCH(value), ASC_SCRATCH(block), p->rows,
                         columns, p->pitch, 0);
    ASC_HAS_READ(p->slot);
#endif
}

ASC_STEP(softmax_forward_rows_out, SOFTMAX_FORWARD_ROWS)
{
    ASC_ROWS_OUT(ASC_T, y, y_stride, *p, y_at, p->slot, p->pitch);
}

#define ASC_PIPELINE(step) ASC_NAME(softmax_forward_rows##step)
#define ASC_PIPELINE_ARGS SOFTMAX_FORWARD_ROWS
#define ASC_PIPELINE_STEP (32 / sizeof(ASC_T))
#include "shared/asc_pipeline.asc.h"

ASC_KERNEL ASC_NAME(softmax_forward_wide)(ASC_PARAMS(SOFTMAX_FORWARD_WIDE))
{
    asc_ring ring = asc_ring_of(x, x_stride, x_at, sizeof(ASC_T), rows, columns, piece, again, 1);
    __ubuf__ float *e = ASC_UB(float, e_at, 0);
    __ubuf__ float *max = ASC_UB(float, max_at, 0);
    __ubuf__ float *sum = ASC_UB(float, sum_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    __ubuf__ float *max_block = ASC_UB(float, max_block_at, 0);
    __ubuf__ float *sum_block = ASC_UB(float, sum_block_at, 0);
    asc_ring_begin();
    asc_duplicate(value, 0.0f, 8);
    for (int64_t row = asc_get_block_idx(); row < rows; row += asc_get_block_num()) {
        asc_duplicate(max, ASC_LOWEST, ASC_LANES);
        asc_duplicate(sum, 0.0f, ASC_LANES);
        ASC_THEN();
        for (int64_t p = 0; p < ring.pieces; p++) {
            const uint32_t n = (uint32_t)asc_ring_columns(&ring, p);
            __ubuf__ ASC_T *in = ASC_UB(ASC_T, x_at, asc_ring_read(&ring));
#if ASC_16BIT
            ASC_WIDEN(e, in, n);
            asc_ring_has_read(&ring);
            exponentials_piece(e, e, max, sum, ASC_UB(float, old_at, 0), 1.0f, n);
#else
            exponentials_piece(e, in, max, sum, ASC_UB(float, old_at, 0), 1.0f, n);
            asc_ring_has_read(&ring);
#endif
        }
        exponentials_join(max_block, sum_block, value, max, sum, 1.0f);
#if ASC_16BIT
        softmax_raise(max_block, sum_block, max);
#endif
        asc_ring_rewind(&ring);
        for (int64_t p = 0; p < ring.pieces; p++) {
            const uint32_t n = (uint32_t)asc_ring_columns(&ring, p);
            const int slot = asc_ring_reread(&ring);
#if ASC_16BIT
            __ubuf__ float *a = e;
            ASC_WIDEN(a, ASC_UB(ASC_T, x_at, slot), n);
            ASC_THEN();
#else
            __ubuf__ float *a = ASC_UB(float, x_at, slot);
#endif
            softmax_quotient(a, max_block, sum_block, n, ASC_16BIT);
#if ASC_16BIT
            ASC_NARROW(ASC_UB(ASC_T, x_at, slot), a, n);
            ASC_THEN(); /* e is the next piece's */
#endif
            asc_ring_write(&ring, y + row * y_stride, p, sizeof(ASC_T), x_at);
        }
    }
    asc_ring_end(&ring);
}

ASC_STEP(softmax_backward_rows_begin, SOFTMAX_BACKWARD_ROWS)
{
    asc_init();
    asc_duplicate(ASC_SCRATCH(value), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
}

ASC_STEP(softmax_backward_rows_in, SOFTMAX_BACKWARD_ROWS)
{
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, y_at, p->slot, y, y_stride, *p, p->pitch);
}

ASC_STEP(softmax_backward_rows_tile, SOFTMAX_BACKWARD_ROWS)
{
#if ASC_16BIT
    __ubuf__ float *g = ASC_SCRATCH(dy32), *y32 = ASC_SCRATCH(y32);
    ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(y32, ASC_UB(ASC_T, y_at, p->slot), p->n);
    ASC_HAS_READ(p->slot);
    ASC_THEN();
    softmax_backward_tile(g, g, y32, ASC_SCRATCH(lanes), ASC_SCRATCH(value), ASC_SCRATCH(block),
                          p->rows, columns, p->pitch);
    ASC_MAY_WRITE(p->slot);
    ASC_NARROW(ASC_UB(ASC_T, dx_at, p->slot), g, p->n);
    ASC_THEN();
#else
    ASC_MAY_WRITE(p->slot);
    softmax_backward_tile(ASC_UB(float, dx_at, p->slot), ASC_UB(float, dy_at, p->slot),
                          ASC_UB(float, y_at, p->slot), ASC_SCRATCH(lanes), ASC_SCRATCH(value),
                          ASC_SCRATCH(block), p->rows, columns, p->pitch);
    ASC_HAS_READ(p->slot);
#endif
}

ASC_STEP(softmax_backward_rows_out, SOFTMAX_BACKWARD_ROWS)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
}

#define ASC_PIPELINE(step) ASC_NAME(softmax_backward_rows##step)
#define ASC_PIPELINE_ARGS SOFTMAX_BACKWARD_ROWS
#define ASC_PIPELINE_STEP (32 / sizeof(ASC_T))
#include "shared/asc_pipeline.asc.h"

/* sum += the products of piece i of the row that is read. */
static inline __aicore__ void ASC_NAME(softmax_backward_read)(asc_ring *ring, int64_t i,
                                                              __ubuf__ float *sum,
                                                              __ubuf__ float *g, __ubuf__ float *p)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, i);
    const int slot = asc_ring_read(ring);
    __ubuf__ ASC_T *dy = ASC_UB(ASC_T, ring->place[0], slot);
    __ubuf__ ASC_T *y = ASC_UB(ASC_T, ring->place[1], slot);
#if ASC_16BIT
    ASC_WIDEN(g, dy, n);
    ASC_WIDEN(p, y, n);
    asc_ring_has_read(ring);
    ASC_THEN();
    asc_mul(g, g, p, n);
#else
    asc_mul(g, dy, y, n);
    asc_ring_has_read(ring);
    (void)p;
#endif
    ASC_THEN();
    ASC_FOLD(asc_add, sum, g, 1, n, 0);
    ASC_THEN();
}

/* Piece i of the row that is written, with its sum as a block. */
static inline __aicore__ void ASC_NAME(softmax_backward_write)(asc_ring *ring, int64_t i,
                                                               __gm__ ASC_T *dx,
                                                               __ubuf__ float *block,
                                                               __ubuf__ float *g, __ubuf__ float *p)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, i);
    const int slot = asc_ring_reread(ring);
    __ubuf__ ASC_T *dy = ASC_UB(ASC_T, ring->place[0], slot);
    __ubuf__ ASC_T *y = ASC_UB(ASC_T, ring->place[1], slot);
#if ASC_16BIT
    ASC_WIDEN(g, dy, n);
    ASC_WIDEN(p, y, n);
    ASC_THEN();
#else
    g = dy;
    p = y;
#endif
    asc_mul(g, g, p, n);
    ASC_THEN();
    ASC_WITH_BLOCK(asc_mul, p, p, block, 1, n, 0);
    ASC_THEN();
    asc_sub(g, g, p, n);
    ASC_THEN();
#if ASC_16BIT
    ASC_NARROW(dy, g, n);
    ASC_THEN();
#endif
    asc_ring_write(ring, dx, i, sizeof(ASC_T), ring->place[0]);
}

ASC_KERNEL ASC_NAME(softmax_backward_wide)(ASC_PARAMS(SOFTMAX_BACKWARD_WIDE))
{
    asc_ring ring =
        asc_ring_of(dy, dy_stride, dy_at, sizeof(ASC_T), rows, columns, piece, again, 1);
    __ubuf__ float *g = ASC_UB(float, dy32_at, 0);
    __ubuf__ float *p = ASC_UB(float, y32_at, 0);
    __ubuf__ float *sum = ASC_UB(float, sum_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    __ubuf__ float *block = ASC_UB(float, block_at, 0);
    __gm__ ASC_T *to = dx + ring.first * dx_stride; /* the row that is written */
    asc_ring_add(&ring, y, y_stride, y_at, sizeof(ASC_T));
    if (behind)
        asc_ring_behind(&ring);
    asc_ring_begin();
    asc_duplicate(value, 0.0f, 8);
    for (int64_t r = 0; r < ring.rows + behind; r++) {
        const int reads = r < ring.rows, writes = behind && r > 0;
        asc_duplicate(sum, 0.0f, ASC_LANES); /* used behind the products of a piece */
        for (int64_t i = 0; i < ring.pieces; i++)
            for (int turn = 0; turn < 2; turn++)
                if (reads && !asc_ring_writes_at(&ring, turn))
                    ASC_NAME(softmax_backward_read)(&ring, i, sum, g, p);
                else if (writes && asc_ring_writes_at(&ring, turn))
                    ASC_NAME(softmax_backward_write)(&ring, i, to, block, g, p);
        if (writes)
            to += ring.step * dx_stride;
        asc_spread_sum(block, value, sum, 1);
        if (behind)
            continue;
        asc_ring_rewind(&ring);
        for (int64_t i = 0; i < ring.pieces; i++)
            ASC_NAME(softmax_backward_write)(&ring, i, to, block, g, p);
        to += ring.step * dx_stride;
    }
    asc_ring_end(&ring);
}

#define ASC_SHORT ASC_NAME(softmax_forward_short)
#define ASC_SHORT_ARGS SOFTMAX_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, x32)
#define ASC_SHORT_TILE                                                                            \
    softmax_forward_lines(ASC_SCRATCH(x32), ASC_SCRATCH(value), ASC_SCRATCH(one), columns, lanes, \
                          ASC_16BIT)
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(softmax_backward_short)
#define ASC_SHORT_ARGS SOFTMAX_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(y)
#define ASC_SHORT_WRITES ASC_WRITE(dx, dy32)
#define ASC_SHORT_TILE \
    softmax_backward_lines(ASC_SCRATCH(dy32), ASC_SCRATCH(y32), ASC_SCRATCH(value), columns, lanes)
#include "shared/asc_short.asc.h"
