/* cross_kernel.c - runs a program of cross.c on each core that it names. */
#include "cross.h"

#include "c_api/asc_simd.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT cross_program cross_now;

static void arrive(const cross_step *s)
{
    if (s->mode == 1) {
        if (s->pipe)
            asc_sync_subblock_arrive(PIPE_MTE3, s->id);
        else
            asc_sync_subblock_arrive(PIPE_MTE2, s->id);
    } else if (!s->pipe) {
        asc_sync_block_arrive(PIPE_MTE2, s->id);
    } else if ASC_IS_AIC {
        asc_sync_block_arrive(PIPE_FIX, s->id);
    } else {
        asc_sync_block_arrive(PIPE_MTE3, s->id);
    }
}

/* Every read has a place of its own, at whose begin it stays. */
static void access_slot(const cross_step *s, __gm__ float *memory, int32_t i)
{
    __gm__ float *slot = memory + s->slot * CROSS_SLOT / 4;
    if ASC_IS_AIC {
        if (s->kind == READ)
            asc_copy_gm2l1((__cbuf__ void *)(asc_get_phy_buf_addr(0) + i * CROSS_SLOT),
                           (__gm__ void *)slot, CROSS_SLOT);
        else
            asc_copy_l0c2gm(slot, (__cc__ float *)asc_get_phy_buf_addr(0), 16, 1, 16, 16, 0,
                            NoQuant, 0, false, true);
    } else {
        __ubuf__ float *own = (__ubuf__ float *)(asc_get_phy_buf_addr(0) + i * CROSS_SLOT);
        if (s->kind == READ)
            asc_copy_gm2ub(own, slot, CROSS_SLOT);
        else
            asc_copy_ub2gm(slot, (__ubuf__ float *)asc_get_phy_buf_addr(8192), CROSS_SLOT);
    }
}

/* What a core writes: the cube core nothing but zeros, a vector core its number. */
static void prepare(int64_t core)
{
    if ASC_IS_AIC {
        asc_fill_value_config how = {0};
        how.repeat = 1, how.blk_num = 1;
        asc_set_l0c_copy_params(1, 0, 0);
        asc_fill_l0a((__ca__ half *)asc_get_phy_buf_addr(0), (half)0.0f, how);
        asc_fill_l0b((__cb__ half *)asc_get_phy_buf_addr(0), (half)0.0f, how);
        asc_sync();
        asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0), (__ca__ half *)asc_get_phy_buf_addr(0),
                 (__cb__ half *)asc_get_phy_buf_addr(0), 2, 16, 16, 0, false, false, true);
    } else {
        asc_duplicate((__ubuf__ float *)asc_get_phy_buf_addr(8192), (float)core, CROSS_SLOT / 4);
    }
    asc_sync();
}

EXPORT __global__ __mix__(1, 2) void cross_run(__gm__ float *memory, __gm__ float *seen)
{
    asc_set_ffts_base_addr(4096);
    asc_init();
    int64_t core = 0;
    if ASC_IS_AIV
        core = 1 + asc_get_sub_block_id();
    prepare(core);
    for (int32_t i = 0; i < cross_now.count; i++) {
        const cross_step *s = &cross_now.steps[i];
        if (s->core != core)
            continue;
        if (s->kind == ARRIVE)
            arrive(s);
        else if (s->kind == AWAIT)
            asc_sync_block_wait(PIPE_S, s->id);
        else if (s->kind == SYNC)
            asc_sync();
        else
            access_slot(s, memory, i);
    }
    asc_sync();
    for (int32_t i = 0; core && i < cross_now.count; i++)
        if (cross_now.steps[i].core == core && cross_now.steps[i].kind == READ)
            asc_copy_ub2gm(seen + i * CROSS_SLOT / 4,
                           (__ubuf__ float *)(asc_get_phy_buf_addr(0) + i * CROSS_SLOT),
                           CROSS_SLOT);
}
