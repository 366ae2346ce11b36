/* whole_kernels.c - one kernel that runs any function of whole.inc; S reads back what registers
 * hold. */
#include "c_api/asc_simd.h"
#include "whole.h"

#define COUNTED(r) ((r)->form == FORM_COUNT || (r)->form == FORM_SYNC)
#define RUN(name) static void run_##name(const request *r, void *ub_dst, void *ub0, void *ub1)
#define OPERANDS(D, S)                    \
    D *dst = (D *)ub_dst;                 \
    S *src0 = (S *)ub0, *src1 = (S *)ub1; \
    (void)dst, (void)src0, (void)src1

#define REDUCE(function, T, ...)                                                 \
    RUN(function##_##T)                                                          \
    {                                                                            \
        OPERANDS(T, T);                                                          \
        if (r->form == FORM_COUNT)                                               \
            function(dst, src0, r->count);                                       \
        else if (r->form == FORM_SYNC)                                           \
            function##_sync(dst, src0, r->count);                                \
        else                                                                     \
            function(dst, src0, r->repeat, r->step[0], r->block[1], r->step[1]); \
    }
#define COMPARE(function, T, ...)                                                     \
    RUN(function##_##T)                                                               \
    {                                                                                 \
        OPERANDS(uint8_t, T);                                                         \
        const int n = r->repeat, b0 = r->block[1], b1 = r->block[2], s0 = r->step[1], \
                  s1 = r->step[2];                                                    \
        if (r->extra[0] == WITH_SCALAR) {                                             \
            function##_scalar(dst, src0, (T)r->value, n, 1, b0, 8, s0);               \
        } else if (r->extra[0] == INTO_BITS) {                                        \
            function(dst, src0, src1, n, 1, b0, b1, 8, s0, s1);                       \
        } else {                                                                      \
            asc_set_cmp_mask((void *)asc_get_phy_buf_addr(AT_BITS));                  \
            asc_sync_pipe(PIPE_V);                                                    \
            function(src0, src1, 1, 1, b0, b1, 8, s0, s1);                            \
            asc_sync_pipe(PIPE_V);                                                    \
            asc_get_cmp_mask(dst);                                                    \
        }                                                                             \
    }
#define SELECT(T)                                                                         \
    RUN(asc_select_##T)                                                                   \
    {                                                                                     \
        OPERANDS(T, T);                                                                   \
        asc_set_cmp_mask((void *)asc_get_phy_buf_addr(AT_BITS));                          \
        asc_sync_pipe(PIPE_V);                                                            \
        if (COUNTED(r))                                                                   \
            asc_select(dst, src0, src1, r->count);                                        \
        else                                                                              \
            asc_select(dst, src0, src1, r->repeat, r->block[0], r->block[1], r->block[2], \
                       r->step[0], r->step[1], r->step[2]);                               \
    }
#define BRCB(T)                                                  \
    RUN(asc_brcb_##T)                                            \
    {                                                            \
        OPERANDS(T, T);                                          \
        asc_brcb(dst, src0, r->block[0], r->step[0], r->repeat); \
    }
#define GATHER(T)                                                          \
    RUN(asc_gather_##T)                                                    \
    {                                                                      \
        OPERANDS(T, T);                                                    \
        if (COUNTED(r))                                                    \
            asc_gather(dst, src0, (uint32_t *)ub1, r->count);              \
        else                                                               \
            asc_gather(dst, src0, (uint32_t *)ub1, r->step[0], r->repeat); \
    }
#define GATHER_DATABLOCK(T)                                                                   \
    RUN(asc_gather_datablock_##T)                                                             \
    {                                                                                         \
        OPERANDS(T, T);                                                                       \
        asc_gather_datablock(dst, src0, (uint32_t *)ub1, r->step[0], r->block[0], r->repeat); \
    }
#define COMPACT(T)                                                                       \
    RUN(asc_reduce_##T)                                                                  \
    {                                                                                    \
        OPERANDS(T, T);                                                                  \
        if (COUNTED(r))                                                                  \
            asc_reduce(dst, src0, src1, r->count);                                       \
        else                                                                             \
            asc_reduce(dst, src0, src1, r->repeat, r->block[1], r->extra[0], r->step[1], \
                       r->step[2]);                                                      \
    }
#define TRANSPOSE(T)              \
    RUN(asc_transpose_##T)        \
    {                             \
        OPERANDS(T, T);           \
        (void)r;                  \
        asc_transpose(dst, src0); \
    }
#define BITSORT(T)                                          \
    RUN(asc_bitsort_##T)                                    \
    {                                                       \
        OPERANDS(T, T);                                     \
        asc_bitsort(dst, src0, (uint32_t *)ub1, r->repeat); \
    }
#define MRGSORT4(T)                                                                     \
    RUN(asc_mrgsort4_##T)                                                               \
    {                                                                                   \
        OPERANDS(T, T);                                                                 \
        T *lists[4] = {src0, src0, src0, src0};                                         \
        for (int i = 1; i < 4; i++)                                                     \
            lists[i] = lists[i - 1] + r->extra[i - 1] * (int)(8 / sizeof(T));           \
        asc_mrgsort4(dst, lists, 1, r->extra[0], r->extra[1], r->extra[2], r->extra[3], \
                     r->extra[4] != 0, r->extra[5]);                                    \
    }
#include "whole.inc"
#undef REDUCE
#undef COMPARE
#undef SELECT
#undef BRCB
#undef GATHER
#undef GATHER_DATABLOCK
#undef COMPACT
#undef TRANSPOSE
#undef BITSORT
#undef MRGSORT4

static void run(const request *r, void *dst, void *src0, void *src1)
{
    switch (r->function) {
#define CASE(name)                      \
    case name:                          \
        run_##name(r, dst, src0, src1); \
        break;
#define REDUCE(function, T, ...) CASE(function##_##T)
#define COMPARE(function, T, ...) CASE(function##_##T)
#define SELECT(T) CASE(asc_select_##T)
#define BRCB(T) CASE(asc_brcb_##T)
#define GATHER(T) CASE(asc_gather_##T)
#define GATHER_DATABLOCK(T) CASE(asc_gather_datablock_##T)
#define COMPACT(T) CASE(asc_reduce_##T)
#define TRANSPOSE(T) CASE(asc_transpose_##T)
#define BITSORT(T) CASE(asc_bitsort_##T)
#define MRGSORT4(T) CASE(asc_mrgsort4_##T)
#include "whole.inc"
    }
}

static void read_registers(const request *r, uint32_t *back)
{
    float value;
    uint32_t first;
    uint16_t merged[4];
    if (r->reads == READ_KEPT)
        back[0] = (uint32_t)asc_get_rsvd_count();
    if (r->reads == READ_SUM)
        back[1] = (uint32_t)asc_get_acc_val();
    if (r->reads == READ_MAX) {
        asc_get_reduce_max_cnt(value, first);
        back[2] = first;
    }
    if (r->reads == READ_MIN) {
        asc_get_reduce_min_cnt(value, first);
        back[3] = first;
    }
    if (r->reads == READ_MERGED) {
        asc_get_vms4_sr(merged);
        back[4] = merged[0] | (uint32_t)merged[1] << 16;
        back[5] = merged[2] | (uint32_t)merged[3] << 16;
    }
}

__global__ __vector__ void whole_kernel(__gm__ request *requests, __gm__ uint8_t *in,
                                        __gm__ uint8_t *out)
{
    asc_init();
    const int64_t block = asc_get_block_idx();
    const request *r = requests + block;
    __ubuf__ uint8_t *ub = (__ubuf__ uint8_t *)asc_get_phy_buf_addr(0);
    asc_copy_gm2ub(ub, in + block * IMAGE, IMAGE);
    asc_sync_mte2(0);
    if (r->form == FORM_COUNTER)
        asc_set_mask_count();
    asc_set_vector_mask(r->mask[1], r->mask[0]);
    run(r, ub + r->dst, ub + r->src0, ub + r->src1);
    asc_set_mask_norm();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID1);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID1);
    __ubuf__ uint32_t *back = (__ubuf__ uint32_t *)(ub + AT_BACK);
    read_registers(r, back);
    asc_sync_notify(PIPE_S, PIPE_MTE3, EVENT_ID1);
    asc_sync_wait(PIPE_S, PIPE_MTE3, EVENT_ID1);
    asc_copy_ub2gm(out + block * IMAGE, ub, IMAGE);
}
