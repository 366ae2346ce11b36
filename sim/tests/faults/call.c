/* call.c - what one call tells. */
#include "planted.h"

enum { USABLE = ASC_UB_SIZE };

KERNEL(ub_overflow_vector)
{
    asc_init();
    asc_duplicate(UB(float, EITHER(USABLE - 128, USABLE - 256)), 1.0f, 64); // FAULT: ub-overflow
}

KERNEL(ub_overflow_copy)
{
    asc_init();
    asc_copy_gm2ub(UB(float, EITHER(USABLE - 992, USABLE - BYTES)), x, BYTES); // FAULT: ub-overflow
}

KERNEL(ub_overflow_strided)
{
    asc_init();
    asc_duplicate(A, 1.0f, EITHER(97, 96), 1, 64); // FAULT: ub-overflow
}

KERNEL(ub_overflow_scalar)
{
    asc_init();
    *UB(float, EITHER(USABLE, USABLE - 4)) = 1.0f; // FAULT: ub-overflow
}

KERNEL(ub_range_global)
{
    asc_init();
    asc_copy_gm2ub_sync(B, x, BYTES);
    asc_add(EITHER(z, A), B, B, TILE); // FAULT: ub-range
}

KERNEL(ub_alignment_source)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(B, A + EITHER(4, 8), 64); // FAULT: ub-alignment
}

KERNEL(ub_alignment_copy)
{
    asc_init();
    asc_copy_gm2ub(A + EITHER(1, 8), x, 32); // FAULT: ub-alignment
}

KERNEL(ub_alignment_reduction)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_repeat_reduce_sum(UB(float, BYTES + EITHER(2, 4)), A, 64); // FAULT: ub-alignment
}

KERNEL(gm_range_read)
{
    asc_init();
    asc_copy_gm2ub(A, x + N - EITHER(128, TILE), BYTES); // FAULT: gm-range
}

KERNEL(gm_range_write)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_copy_ub2gm_align(y + N - EITHER(4, 5), A, 20); // FAULT: gm-range
}

KERNEL(gm_range_scalar)
{
    asc_init();
    *UB(float, 0) = x[EITHER(N, N - 1)]; // FAULT: gm-range
}

static __aicore__ void fill_offsets(__ubuf__ uint32_t *offsets)
{
    for (uint32_t i = 0; i < 64; i++)
        offsets[i] = 4 * (63 - i);
}

KERNEL(gather_range)
{
    asc_init();
    fill_offsets(UB(uint32_t, BYTES));
    UB(uint32_t, BYTES)[40] = EITHER(USABLE, 0);
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_gather(C, A, UB(uint32_t, BYTES), 64); // FAULT: gather-range
}

KERNEL(gather_alignment)
{
    asc_init();
    fill_offsets(UB(uint32_t, BYTES));
    UB(uint32_t, BYTES)[7] = EITHER(6, 8);
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_gather(C, A, UB(uint32_t, BYTES), 64); // FAULT: gather-alignment
}

KERNEL(copy_truncated_in)
{
    asc_init();
    asc_copy_gm2ub(A, x, EITHER(100, 96)); // FAULT: copy-truncated
}

KERNEL(copy_truncated_out)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_copy_ub2gm(y, A, EITHER(1000, 992)); // FAULT: copy-truncated
}

KERNEL(burst_none)
{
    asc_init();
    asc_copy_gm2ub(A, x, EITHER(0, 1), 8, 0, 0); // FAULT: burst-limit
}

KERNEL(burst_too_many)
{
    asc_init();
    asc_copy_gm2ub(A, x, EITHER(4097, 1), 1, 0, 0); // FAULT: burst-limit
}

KERNEL(burst_padding)
{
    asc_init();
    asc_set_copy_pad_val(0.0f);
    asc_copy_gm2ub_align(A, x, 1, 4, 0, EITHER(9, 7), 0, 0); // FAULT: burst-limit
}

KERNEL(repeat_none)
{
    asc_init();
    asc_duplicate(A, 1.0f, EITHER(0, 1), 1, 8); // FAULT: repeat-limit
}

KERNEL(repeat_too_many)
{
    asc_init();
    asc_duplicate(A, 1.0f, EITHER(257, 255), 1, 8); // FAULT: repeat-limit
}

KERNEL(stride_too_wide)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_add(B, A, A, 1, 1, 1, 1, EITHER(264, 8), 8, 8); // FAULT: stride-limit
}

KERNEL(mask_dirty)
{
    asc_init();
    asc_duplicate(A, 1.0f, TILE); // OTHER
    NEEDED(asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);)
    asc_duplicate(B, 2.0f, 4, 1, 8); // FAULT: mask-dirty
}

KERNEL(mask_dirty_reduction)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_add(B, A, A, 64 + 3); // OTHER
    asc_sync_pipe(PIPE_V);
    NEEDED(asc_set_vector_mask(0, (uint64_t)-1);)
    asc_repeat_reduce_max_only_value(C, A, 1, 1, 1, 8); // FAULT: mask-dirty
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

KERNEL(mask_zero)
{
    asc_init();
    asc_set_vector_mask((uint64_t)-1, EITHER(0, 1)); /* 32 bits: the low word alone counts */
    asc_duplicate(A, 1.0f, 1, 1, 8);                 // FAULT: mask-zero
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

KERNEL(count_zero)
{
    asc_init();
    asc_duplicate(A, 1.0f, EITHER(0, 1)); // FAULT: mask-zero
}

KERNEL(select_repeats)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_gt(A, A + 64, 1, 1, 1, 1, 8, 8, 8); // OTHER
    asc_sync_pipe(PIPE_V);
    asc_select(B, A, A + 64, EITHER(2, 1), 1, 1, 1, 8, 8, 8); // FAULT: select-repeats
}

KERNEL(select_repeats_of_bits)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_gt_scalar(UB(uint8_t, 2 * BYTES), A, 3.0f, 2, 1, 1, 8, 8); // OTHER
    asc_sync_pipe(PIPE_V);
    asc_set_cmp_mask(UB(uint8_t, 2 * BYTES));
    asc_sync_pipe(PIPE_V);
    asc_select(B, A, A + 64, EITHER(128, 64)); // FAULT: select-repeats
}

/* Bits that the kernel made up: every repeat has the same. */
KERNEL(select_repeats_of_a_pattern)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_duplicate(UB(uint16_t, 2 * BYTES), 0x5555, 8);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_sync_pipe(PIPE_V);
    NEEDED(asc_set_cmp_mask(UB(uint8_t, 2 * BYTES));)
    EITHER(asc_lt(A, A + 64, 1, 1, 1, 1, 8, 8, 8), (void)0); // OTHER
    asc_sync_pipe(PIPE_V);
    asc_select(B, A, A + 64, TILE - 64); // FAULT: select-repeats
}

KERNEL(overlap_shifted)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(A + EITHER(8, 64), A, 64); // FAULT: overlap
}

KERNEL(overlap_narrowing)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_float2half(UB(half, EITHER(0, BYTES)), A, 64); // FAULT: overlap
}

KERNEL(overlap_repeats)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(A + EITHER(64, 128), A, 128); // FAULT: overlap-repeats
}

KERNEL(overlap_accumulate)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_copy_gm2ub_sync(B, y, BYTES);
    asc_div(B, A, B, EITHER(4, 1), 1, 1, 1, 0, 8, 0); // FAULT: overlap-repeats
    asc_sync_pipe(PIPE_V);
    asc_add(B, A, B, 4, 1, 1, 1, 0, 8, 0); /* a running sum may */
}
