/* contents.c - reads of what nobody has written. */
#include "planted.h"

KERNEL(ub_unwritten_vector)
{
    asc_init();
    NEEDED(asc_copy_gm2ub_sync(A, x, BYTES);)
    asc_exp(B, A, TILE); // FAULT: ub-unwritten
}

KERNEL(ub_unwritten_tail)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, EITHER(BYTES - 32, BYTES));
    asc_exp(B, A, TILE); // FAULT: ub-unwritten
}

KERNEL(ub_unwritten_masked)
{
    asc_init();
    asc_set_vector_mask(0, EITHER((uint64_t)-1 >> 1, (uint64_t)-1));
    asc_duplicate(A, 1.0f, 1, 1, 8);
    asc_sync_pipe(PIPE_V);
    asc_exp(B, A, 64); // FAULT: ub-unwritten
}

KERNEL(ub_unwritten_copy)
{
    asc_init();
    asc_duplicate(A, 1.0f, EITHER(TILE - 64, TILE));
    asc_sync();
    asc_copy_ub2gm(y, A, BYTES); // FAULT: ub-unwritten
}

KERNEL(ub_unwritten_scalar)
{
    asc_init();
    NEEDED(asc_duplicate_sync(A, 1.0f, 8);)
    y[0] = *A; // FAULT: ub-unwritten
}

KERNEL(ub_unwritten_accumulator)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    NEEDED(asc_duplicate(B, 0.0f, TILE);)
    asc_sync_pipe(PIPE_V);
    asc_axpy(B, A, 2.0f, TILE); // FAULT: ub-unwritten
}

KERNEL(ub_padding_vector)
{
    asc_init();
    asc_copy_gm2ub_align(A, x, 100); // OTHER
    asc_sync();
    asc_exp(B, A, EITHER(26, 25)); // FAULT: ub-padding
}

KERNEL(ub_padding_bursts)
{
    asc_init();
    asc_copy_gm2ub_align(A, x, 2, 20, 0, 0, 0, 0); // OTHER
    asc_sync();
    asc_exp(B, A, EITHER(8, 5)); // FAULT: ub-padding
}

KERNEL(ub_padding_no_value)
{
    asc_init();
    NEEDED(asc_set_copy_pad_val(0.0f);)
    asc_copy_gm2ub_align(A, x, 1, 20, 0, 3, 0, 0); // OTHER
    asc_sync();
    asc_exp(B, A, 8); // FAULT: ub-padding
}

KERNEL(ub_padding_copy)
{
    asc_init();
    asc_copy_gm2ub_align(A, x, 20); // OTHER
    asc_sync();
    asc_copy_ub2gm_align(y, A, EITHER(32, 20)); // FAULT: ub-padding
}

KERNEL(gm_unwritten_copy)
{
    asc_init();
    asc_copy_gm2ub(A, EITHER(z, x), BYTES); // FAULT: gm-unwritten
}

KERNEL(gm_unwritten_scalar)
{
    asc_init();
    *A = EITHER(z, x)[3]; // FAULT: gm-unwritten
}

KERNEL(gm_unwritten_atomic)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float();
    asc_copy_ub2gm(EITHER(z, y), A, BYTES); // FAULT: gm-unwritten
    asc_set_atomic_none();
}

KERNEL(gm_own_result)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_copy_ub2gm_sync(z, A, EITHER(BYTES - 32, BYTES));
    asc_copy_gm2ub(B, z, BYTES); // FAULT: gm-unwritten
}
