/* grouped_bring.asc.h - operands of products of groups to L1, and their biases; of one type, see
 * asc_each_type.h. */
#include "gemm_body.asc.h"

/* The operand of rows, and where they are taken from. */
typedef struct ASC_NAME(grouped_rows) {
    __gm__ ASC_T *at;
    __gm__ int64_t *gather;
    int64_t top_k, rows;
} ASC_NAME(grouped_rows);

/* A packet of an operand is zeros. */
static inline __aicore__ void ASC_NAME(grouped_clear)(const gemm_side *s, int set, int64_t count,
                                                      int64_t depth)
{
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(set * s->room));
    asc_fill_value_config all;
    all.config = 0;
    all.repeat = 1;
    all.blk_num = (uint64_t)(asc_round_up(count, 16) * depth * (int64_t)sizeof(ASC_T) / 32);
    asc_fill_l1(to, (uint32_t)0, all);
}

/* A packet of rows that lie here and there, elements k to `end`, one by one. */
static inline __aicore__ void ASC_NAME(grouped_gather)(const gemm_side *s,
                                                       const ASC_NAME(grouped_rows) * x, int set,
                                                       int64_t row, int64_t count, int64_t k,
                                                       int64_t end)
{
    const int64_t block = 32 / (int64_t)sizeof(ASC_T), high = asc_round_up(count, 16);
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(set * s->room));
    for (int64_t r = 0; r < count; r++) {
        const int64_t from = grouped_row(x->gather, row + r, x->top_k, x->rows);
        /* one alone twice, as gemm_bring() has it */
        asc_copy_gm2l1_nd2nz(to + r * block, x->at + from * s->stride + k, count == 1 ? 2 : 1, 1,
                             end - k, 0, 1, high, 1, block);
    }
}

/* The bias of a tile's columns comes to L1, and from there to the table that its first product
 * reads, once earlier ones have read theirs. It has events of its own, and is free with the
 * packet. */
static inline __aicore__ __cbuf__ float *ASC_NAME(grouped_bias_of)(uint64_t l1, int set)
{
    return (__cbuf__ float *)(asc_get_phy_buf_addr(0) + l1) + set * GROUPED_COLUMNS;
}
static inline __aicore__ void ASC_NAME(grouped_bring_bias)(uint64_t l1, __gm__ float *bias,
                                                           const gemm_place *at)
{
    __cbuf__ float *to = ASC_NAME(grouped_bias_of)(l1, at->set);
    if (at->columns % 16) {
        asc_fill_value_config all;
        all.config = 0;
        all.repeat = 1;
        all.blk_num = 4 * GROUPED_COLUMNS / 32;
        asc_fill_l1(to, (uint32_t)0, all);
        asc_sync_pipe(PIPE_MTE2);
    }
    asc_copy_gm2l1_nd2nz(to, bias + at->column, 1, 1, at->columns, 0, 1, 1, 1, 0);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, GEMM_PACKETS + at->set);
}
static inline __aicore__ void ASC_NAME(grouped_load_bias)(uint64_t l1, const gemm_place *at)
{
    const int64_t bytes = asc_round_up(at->columns, 16) * 4;
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_MTE1, GEMM_PACKETS + at->set);
    ASC_FENCE(PIPE_M, PIPE_MTE1);
    asc_copy_l12bt(0, ASC_NAME(grouped_bias_of)(l1, at->set), 0, 1, bytes / 32, 0, 0);
}
