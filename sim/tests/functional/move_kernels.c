/* move_kernels.c - every form of copy, and atomic stores. */
#include "c_api/asc_simd.h"
#include "move.h"

#define MOVE_TYPED(T)                                                                           \
    static void move_##T(const move *m, void *ub, void *gm)                                     \
    {                                                                                           \
        if (m->pad)                                                                             \
            asc_set_copy_pad_val((T)m->pad);                                                    \
        if (m->form == MOVE_ALIGN_SIZE && m->out)                                               \
            asc_copy_ub2gm_align((T *)gm, (T *)ub, m->size);                                    \
        else if (m->form == MOVE_ALIGN_SIZE)                                                    \
            asc_copy_gm2ub_align((T *)ub, (T *)gm, m->size);                                    \
        else if (m->out)                                                                        \
            asc_copy_ub2gm_align((T *)gm, (T *)ub, m->n_burst, m->len_burst, 0, 0, m->src_gap,  \
                                 m->dst_gap);                                                   \
        else                                                                                    \
            asc_copy_gm2ub_align((T *)ub, (T *)gm, m->n_burst, m->len_burst, m->left, m->right, \
                                 m->src_gap, m->dst_gap);                                       \
    }
MOVE_TYPED(int8_t)
MOVE_TYPED(half)
MOVE_TYPED(float)

static void move_blocks(const move *m, void *ub, void *gm)
{
    if (m->form == MOVE_SIZE && m->out)
        asc_copy_ub2gm(gm, ub, m->size);
    else if (m->form == MOVE_SIZE)
        asc_copy_gm2ub(ub, gm, m->size);
    else if (m->form == MOVE_STRIDED && m->out)
        asc_copy_ub2gm(gm, ub, m->n_burst, m->len_burst, m->src_gap, m->dst_gap);
    else if (m->form == MOVE_STRIDED)
        asc_copy_gm2ub(ub, gm, m->n_burst, m->len_burst, m->src_gap, m->dst_gap);
    else if (m->form == MOVE_WITHIN_SIZE)
        asc_copy_ub2ub(ub, (void *)(asc_get_phy_buf_addr(UB_BYTES) + m->gm), m->size);
    else
        asc_copy_ub2ub(ub, (void *)(asc_get_phy_buf_addr(UB_BYTES) + m->gm), m->n_burst,
                       m->len_burst, m->src_gap, m->dst_gap);
}

/* UB is filled from `before`, then move i runs between UB and `gm`, then UB goes to `after`. */
__global__ __vector__ void move_kernel(__gm__ move *moves, __gm__ uint8_t *before,
                                       __gm__ uint8_t *gm, __gm__ uint8_t *after)
{
    asc_init();
    const int64_t block = asc_get_block_idx();
    const move *m = moves + block;
    uint8_t *ub = (uint8_t *)asc_get_phy_buf_addr(0);
    asc_copy_gm2ub_sync(ub, before + block * 2 * UB_BYTES, 2 * UB_BYTES);
    uint8_t *there = gm + block * GM_BYTES + m->gm;
    if (m->form != MOVE_ALIGN && m->form != MOVE_ALIGN_SIZE)
        move_blocks(m, ub + m->ub, there);
    else if (m->element == 1)
        move_int8_t(m, ub + m->ub, there);
    else if (m->element == 2)
        move_half(m, ub + m->ub, there);
    else
        move_float(m, ub + m->ub, there);
    asc_sync();
    asc_copy_ub2gm_sync(after + block * UB_BYTES, ub, UB_BYTES);
}

static void set_atomic(int kind, int type)
{
#define USE(name, T)                                   \
    if (type == ATOMIC_##T && kind == ATOMIC_ADD)      \
        asc_set_atomic_add_##name();                   \
    else if (type == ATOMIC_##T && kind == ATOMIC_MAX) \
        asc_set_atomic_max_##name();                   \
    else if (type == ATOMIC_##T)                       \
        asc_set_atomic_min_##name();
    ATOMIC_TYPES(USE)
#undef USE
}

/* Every block adds (or compares) its row to one row, then stores plainly to its own. */
__global__ __vector__ void atomic_kernel(__gm__ uint8_t *rows, __gm__ uint8_t *total,
                                         __gm__ uint8_t *own, int kind, int type)
{
    asc_init();
    const int64_t block = asc_get_block_idx();
    uint8_t *ub = (uint8_t *)asc_get_phy_buf_addr(0);
    asc_copy_gm2ub_sync(ub, rows + block * ROW, ROW);
    set_atomic(kind, type);
    asc_copy_ub2gm_sync(total, ub, ROW);
    asc_set_atomic_none();
    asc_copy_ub2gm_sync(own + block * ROW, ub, ROW);
}
