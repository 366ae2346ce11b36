/* asc_scalar.h - flags, barriers, masks, modes, and what the scalar unit computes. Included by
 * asc_simd.h. */
#ifndef ASC_SCALAR_H
#define ASC_SCALAR_H

/* Pipes are literals: PIPE_S, PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_MTE1, PIPE_M, PIPE_FIX, and
 * PIPE_ALL for a barrier. */
#define ASC_LITERAL_PIPE_S PIPE_S
#define ASC_LITERAL_PIPE_V PIPE_V
#define ASC_LITERAL_PIPE_MTE2 PIPE_MTE2
#define ASC_LITERAL_PIPE_MTE3 PIPE_MTE3
#define ASC_LITERAL_PIPE_MTE1 PIPE_MTE1
#define ASC_LITERAL_PIPE_M PIPE_M
#define ASC_LITERAL_PIPE_FIX PIPE_FIX
#define ASC_BARRIER_PIPE_V PIPE_V
#define ASC_BARRIER_PIPE_MTE2 PIPE_MTE2
#define ASC_BARRIER_PIPE_MTE3 PIPE_MTE3
#define ASC_BARRIER_PIPE_MTE1 PIPE_MTE1
#define ASC_BARRIER_PIPE_M PIPE_M
#define ASC_BARRIER_PIPE_FIX PIPE_FIX
#define ASC_BARRIER_PIPE_ALL PIPE_ALL
#define asc_sync_notify(pipe, tpipe, id)                                                \
    asc_issue_flag(ASC_SITE("asc_sync_notify"), ASC_OP_sync_notify, ASC_LITERAL_##pipe, \
                   ASC_LITERAL_##tpipe, id)
#define asc_sync_wait(pipe, tpipe, id)                                              \
    asc_issue_flag(ASC_SITE("asc_sync_wait"), ASC_OP_sync_wait, ASC_LITERAL_##pipe, \
                   ASC_LITERAL_##tpipe, id)
#define asc_sync_pipe(pipe) asc_issue_barrier(ASC_SITE("asc_sync_pipe"), ASC_BARRIER_##pipe)
#define asc_sync() asc_issue_barrier(ASC_SITE("asc_sync"), PIPE_ALL)
#define asc_sync_vec() asc_issue_barrier(ASC_SITE("asc_sync_vec"), PIPE_ALL)
/* What was copied in may be computed on and copied out. */
#define asc_sync_mte2(id) asc_issue_sync_copy(ASC_SITE("asc_sync_mte2"), PIPE_MTE2, id)
/* What was copied out may be overwritten by V and by copies in. */
#define asc_sync_mte3(id) asc_issue_sync_copy(ASC_SITE("asc_sync_mte3"), PIPE_MTE3, id)
#define asc_sync_data_barrier(what) \
    ((void)(what), asc_issue_data_barrier(ASC_SITE("asc_sync_data_barrier")))
typedef enum mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB } mem_dsb_t;

#define asc_init() asc_issue_init(ASC_SITE("asc_init"))
#define asc_set_vector_mask(high, low) \
    asc_issue_set_mask(ASC_SITE("asc_set_vector_mask"), high, low)
#define asc_set_mask_count() asc_issue_set_ctrl_bit(ASC_SITE("asc_set_mask_count"), 56, 1)
#define asc_set_mask_norm() asc_issue_set_ctrl_bit(ASC_SITE("asc_set_mask_norm"), 56, 0)
#define asc_set_ctrl(bits) asc_issue_set_ctrl(ASC_SITE("asc_set_ctrl"), bits)
#define asc_get_ctrl() ((int64_t)asc_issue_get_ctrl(ASC_SITE("asc_get_ctrl")))

#define asc_dcci_single(line) asc_issue_dcci(ASC_SITE("asc_dcci_single"), asc_needs_gm(line))
#define asc_dcci_entire_all() asc_issue_dcci(ASC_SITE("asc_dcci_entire_all"), NULL)
#define asc_dcci_entire_out() asc_issue_dcci(ASC_SITE("asc_dcci_entire_out"), NULL)
#define asc_dcci_entire_ub() asc_issue_dcci(ASC_SITE("asc_dcci_entire_ub"), NULL)
#define asc_dcci_entire_atomic() asc_issue_dcci(ASC_SITE("asc_dcci_entire_atomic"), NULL)

/* Readbacks of V's registers; value and index are lvalues. */
#define ASC_REDUCED(name, min, value, index)                             \
    __extension__({                                                      \
        uint32_t asc_bits = asc_issue_reduced(ASC_SITE(name), min,       \
                                              _Generic((value), half     \
                                                       : ASC_HALF, float \
                                                       : ASC_FLOAT),     \
                                              &(index));                 \
        __builtin_memcpy(&(value), &asc_bits, sizeof(value));            \
    })
#define asc_get_reduce_max_cnt(value, index) ASC_REDUCED("asc_get_reduce_max_cnt", 0, value, index)
#define asc_get_reduce_min_cnt(value, index) ASC_REDUCED("asc_get_reduce_min_cnt", 1, value, index)
#define asc_get_acc_val() asc_issue_accumulated(ASC_SITE("asc_get_acc_val"))
#define asc_get_rsvd_count() asc_issue_rsvd_count(ASC_SITE("asc_get_rsvd_count"))
#define asc_get_vms4_sr(counts) asc_issue_merged(ASC_SITE("asc_get_vms4_sr"), counts)

#define asc_get_block_idx() asc_issue_block_index(ASC_SITE("asc_get_block_idx"))
#define asc_get_block_num() asc_issue_block_count(ASC_SITE("asc_get_block_num"))
#define asc_get_sub_block_id() asc_issue_sub_block(ASC_SITE("asc_get_sub_block_id"), 0)
#define asc_get_sub_block_num() asc_issue_sub_block(ASC_SITE("asc_get_sub_block_num"), 1)
/* A mix kernel is compiled for both kinds of core and branches: if ASC_IS_AIC { ... } */
#define ASC_IS_AIC (asc_issue_is_cube(ASC_SITE("ASC_IS_AIC")))
#define ASC_IS_AIV (!asc_issue_is_cube(ASC_SITE("ASC_IS_AIV")))
#define asc_get_core_id() asc_issue_core_index(ASC_SITE("asc_get_core_id"))
#define asc_get_system_cycle() asc_issue_cycle(ASC_SITE("asc_get_system_cycle"))
/* A constant alone, as CANN's own code has it: what varies is added to the address. */
#define asc_get_phy_buf_addr(offset)                                                               \
    __extension__({                                                                                \
        enum { asc_the_offset_must_be_a_constant = (offset) };                                     \
        asc_issue_ub_address(ASC_SITE("asc_get_phy_buf_addr"), asc_the_offset_must_be_a_constant); \
    })
#define asc_get_arch_ver(version) ((void)((version) = 2201))

static inline int64_t asc_popc(uint64_t value)
{
    return __builtin_popcountll(value);
}
static inline int64_t asc_zero_bits_cnt(uint64_t value)
{
    return 64 - __builtin_popcountll(value);
}
static inline int64_t asc_clz(uint64_t value)
{
    return value ? __builtin_clzll(value) : 64;
}
/* The lowest bit that is 1, that is 0; -1 if there is none. */
static inline int64_t asc_ffs(uint64_t value)
{
    return value ? __builtin_ctzll(value) : -1;
}
static inline int64_t asc_ffz(uint64_t value)
{
    return ~value ? __builtin_ctzll(~value) : -1;
}
/* How many bits below the sign equal it. */
static inline int64_t asc_sflbits(int64_t value)
{
    return __builtin_clrsbll(value);
}
static inline uint64_t asc_set_nthbit(uint64_t bits, int64_t index)
{
    return bits | (uint64_t)1 << (index & 63);
}
static inline uint64_t asc_clear_nthbit(uint64_t bits, int64_t index)
{
    return bits & ~((uint64_t)1 << (index & 63));
}

#endif
