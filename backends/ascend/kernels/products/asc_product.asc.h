/* asc_product.asc.h - products of one type; see asc_product.h and asc_each_type.h. */
#include "asc_fractals.asc.h"

/* Elements of k in a step. */
#define ASC_DEPTH (ASC_TILE_BYTES / ASC_SIDE / (int64_t)sizeof(ASC_T))

/* Groups of rows to L1, as asc_bring_rows() has them; they begin `step` apart. */
static inline __aicore__ void ASC_NAME(asc_bring_groups)(__cbuf__ ASC_T *to, __gm__ ASC_T *from,
                                                         int64_t groups, int64_t rows,
                                                         int64_t columns, int64_t step,
                                                         int64_t stride, int64_t high)
{
    if (groups > 1 && step >= 0 && step <= 65535 && stride > 0 && stride <= 65535) {
        asc_copy_gm2l1_nd2nz(to, from, groups, rows, columns, step, stride, high, 1,
                             rows * ASC_BLOCK);
        return;
    }
    for (int64_t g = 0; g < groups; g++)
        ASC_NAME(asc_bring_rows)
    (to + g * rows * ASC_BLOCK, from + g * step, rows, columns, stride, high);
}

/* A tile of an operand: `count` of its rows or columns, `depth` elements of k. x:
 * its first element. */
static inline __aicore__ void ASC_NAME(asc_bring_tile)(uint64_t l1, __gm__ ASC_T *x,
                                                       const asc_operand *o, int64_t count,
                                                       int64_t depth)
{
    __cbuf__ ASC_T *to = (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + l1);
    const int64_t high = asc_round_up(count, 16), band = ASC_16BIT ? ASC_DEPTH : 16;
    if (!o->turned && count == 1) { /* twice: a product of one row would read it in another order */
        asc_copy_gm2l1_nd2nz(to, x, 2, 1, depth, 0, 1, high, 1, ASC_BLOCK);
        return;
    }
    if (!o->turned) {
        const int64_t group = o->group ? o->group : count;
        ASC_NAME(asc_bring_groups)
        (to, x, count / group, group, depth, o->step, o->stride, high);
        return;
    }
    for (int64_t k = 0; k < depth; k += band) {
        const int64_t rows = asc_min_of(band, depth - k);
        ASC_NAME(asc_bring_rows)
        (to + k * high, x + k * o->stride, rows, count, o->stride, asc_round_up(rows, 16));
    }
}

/* Where a step's tile lies in L1: in the pair, after it has been brought there, or
 * where it is held. */
static inline __aicore__ __cbuf__ ASC_T *ASC_NAME(asc_tile_of)(int tile, __gm__ ASC_T *x,
                                                               const asc_operand *o, int64_t count,
                                                               int64_t k, int64_t depth)
{
    if (o->held >= 0)
        return (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + asc_l1_tile(o->held + k / ASC_DEPTH));
    ASC_NAME(asc_bring_tile)
    (asc_l1_tile(tile), x + (o->turned ? k * o->stride : k), o, count, depth);
    return (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + asc_l1_tile(tile));
}

/* `count` rows of an operand that is not turned, a tile for each ASC_SIDE, come to their places and
 * are held there until asc_let_go(). What another product takes turned can be held so, too, if it
 * is of 16 bits: the tiles lie the same. */
static inline __aicore__ void ASC_NAME(asc_hold)(__gm__ ASC_T *x, const asc_operand *o, int event,
                                                 int64_t count, int64_t depth)
{
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, event);
    for (int64_t at = 0; at < count; at += ASC_SIDE)
        ASC_NAME(asc_bring_tile)
    (asc_l1_tile(o->held + at / ASC_SIDE), x + at * o->stride, o, asc_min_of(ASC_SIDE, count - at),
     depth);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, event);
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_MTE1, event);
}

static inline __aicore__ void ASC_NAME(asc_let_go)(int event)
{
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE1, PIPE_MTE2, event);
}

/* The product of m x k by k x n elements, k at least 1, in the half of L0C that is next. */
static inline __aicore__ __cc__ float *
ASC_NAME(asc_multiply)(asc_products *p, __gm__ ASC_T *a, const asc_operand *left, __gm__ ASC_T *b,
                       const asc_operand *right, int64_t m, int64_t n, int64_t k)
{
    const int64_t m1 = (m + 15) / 16, n1 = (n + 15) / 16;
    __cc__ float *sums = (__cc__ float *)(asc_get_phy_buf_addr(0) + (uint64_t)(p->l0c * 65536));
    for (int64_t at = 0; at < k; at += ASC_DEPTH) {
        const int64_t depth = asc_min_of(ASC_DEPTH, k - at);
        __ca__ ASC_T *a0 =
            (__ca__ ASC_T *)(asc_get_phy_buf_addr(0) + (uint64_t)(p->l0 * ASC_TILE_BYTES));
        __cb__ ASC_T *b0 =
            (__cb__ ASC_T *)(asc_get_phy_buf_addr(0) + (uint64_t)(p->l0 * ASC_TILE_BYTES));
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, p->pair);
        __cbuf__ ASC_T *a1 = ASC_NAME(asc_tile_of)(2 * p->pair, a, left, m, at, depth);
        __cbuf__ ASC_T *b1 = ASC_NAME(asc_tile_of)(2 * p->pair + 1, b, right, n, at, depth);
        ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, p->pair);
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_MTE1, p->pair);
        ASC_WAIT(PIPE_M, PIPE_MTE1, p->l0);
        ASC_NAME(asc_load_a)(a0, a1, left->turned, m1, depth);
        ASC_NAME(asc_load_b)(b0, b1, right->turned, n1, depth);
        ASC_RING_FLAG(asc_sync_notify, PIPE_MTE1, PIPE_MTE2, p->pair);
        ASC_NOTIFY(PIPE_MTE1, PIPE_M, p->l0);
        ASC_WAIT(PIPE_MTE1, PIPE_M, p->l0);
        asc_mmad(sums, a0, b0, m > 1 ? m : 2, depth, n, at + depth == k ? 3 : 2,
                 !ASC_16BIT && left->turned, false, at == 0);
        if (m1 * n1 < 10) /* the next product wants results that are still in flight */
            asc_sync_pipe(PIPE_M);
        ASC_NOTIFY(PIPE_M, PIPE_MTE1, p->l0);
        p->pair = (p->pair + 1) % p->pairs;
        p->l0 ^= 1;
    }
    p->l0c ^= 1;
    return sums;
}

/* It goes to c, as f32. */
static inline __aicore__ void ASC_NAME(asc_product)(asc_products *p, __gm__ ASC_T *a,
                                                    const asc_operand *left, __gm__ ASC_T *b,
                                                    const asc_operand *right, int64_t m, int64_t n,
                                                    int64_t k, __gm__ float *c, int64_t c_stride)
{
    __cc__ float *sums = ASC_NAME(asc_multiply)(p, a, left, b, right, m, n, k);
    asc_copy_l0c2gm(c, sums, n, m, c_stride, asc_round_up(m, 16), 3, NoQuant, 0, false, true);
}

/* The same, rounded to the operands' type. */
static inline __aicore__ void
ASC_NAME(asc_product_rounded)(asc_products *p, __gm__ ASC_T *a, const asc_operand *left,
                              __gm__ ASC_T *b, const asc_operand *right, int64_t m, int64_t n,
                              int64_t k, __gm__ ASC_T *c, int64_t c_stride)
{
    __cc__ float *sums = ASC_NAME(asc_multiply)(p, a, left, b, right, m, n, k);
    asc_copy_l0c2gm(c, sums, n, m, c_stride, asc_round_up(m, 16), 3, ASC_ROUND, 0, false, true);
}

#undef ASC_BLOCK
#undef ASC_FRACTAL
