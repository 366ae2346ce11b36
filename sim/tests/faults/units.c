/* units.c - the cache of S beside the copies, modes left on, blocks of a launch beside each
 * other. */
#include "planted.h"

KERNEL(dcache_stale)
{
    asc_init();
    *B = y[0];
    asc_duplicate(A, 2.0f, TILE);
    asc_sync();
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    asc_sync();
    NEEDED(asc_dcci_single(y);)
    *C = y[1]; // FAULT: dcache-stale
}

KERNEL(dcache_stale_bytes)
{
    asc_init();
    *B = y[9];
    asc_duplicate(A, 2.0f, TILE);
    asc_sync();
    asc_copy_ub2gm(y, A, 32); // OTHER
    asc_sync();
    *C = y[EITHER(7, 8)]; // FAULT: dcache-stale
}

KERNEL(dcache_stale_store)
{
    asc_init();
    *B = y[9];
    asc_duplicate(A, 2.0f, TILE);
    asc_sync();
    asc_copy_ub2gm(y, A, 32); // OTHER
    asc_sync();
    y[EITHER(15, 16)] = 1.0f; // FAULT: dcache-stale
}

KERNEL(dcache_left) // launches=2
{
    asc_init();
    NEEDED(asc_dcci_entire_all();)
    *A = x[3]; // FAULT: dcache-left
}

KERNEL(dcache_left_line) // launches=2
{
    asc_init();
    asc_dcci_single(EITHER(x + 16, x));
    *A = x[3]; // FAULT: dcache-left
}

KERNEL(dcache_left_store) // launches=2
{
    asc_init();
    NEEDED(asc_dcci_single(x);)
    x[3] = 1.0f; // FAULT: dcache-left
}

KERNEL(dcache_left_copied) // launches=2
{
    asc_init();
    asc_duplicate(A, 2.0f, TILE);
    NEEDED(asc_dcci_single(y);)
    *C = y[1]; // FAULT: dcache-left
    asc_sync();
    asc_copy_ub2gm(y, A, BYTES);
}

KERNEL(dcache_dirty_read)
{
    asc_init();
    y[5] = 1.0f; // OTHER
    NEEDED(asc_dcci_entire_all();)
    asc_sync();
    asc_copy_gm2ub(A, y, BYTES); // FAULT: dcache-dirty
}

KERNEL(dcache_dirty_bytes)
{
    asc_init();
    y[5] = 1.0f; // OTHER
    asc_sync();
    asc_copy_gm2ub_align(A, y + EITHER(5, 6), 16); // FAULT: dcache-dirty
}

KERNEL(dcache_dirty_write)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    y[TILE + 2] = 1.0f; // OTHER
    NEEDED(asc_dcci_single(y + TILE);)
    asc_sync();
    asc_copy_ub2gm_align(y + TILE + 3, A, 8); // FAULT: dcache-dirty
}

KERNEL(atomic_left_on)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float(); // FAULT: atomic-left-on
    asc_copy_ub2gm(y, A, BYTES);
    NEEDED(asc_set_atomic_none();)
}

KERNEL(mode_left_on)
{
    asc_init();
    asc_set_ctrl((int64_t)1 << 48); // FAULT: mode-left-on
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_float2half(UB(half, BYTES), A, TILE);
    NEEDED(asc_set_ctrl(asc_get_ctrl() & ~((int64_t)1 << 48));)
}

KERNEL(mode_left_counting)
{
    asc_init();
    asc_set_vector_mask(0, 40);
    asc_set_mask_count(); // FAULT: mode-left-on
    asc_duplicate(A, 1.0f, 1, 1, 8);
    NEEDED(asc_set_mask_norm();)
    NEEDED(asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);)
}

KERNEL(mask_left_narrow)
{
    asc_init();
    asc_set_vector_mask(0, 0xff); // FAULT: mask-left-narrow
    asc_duplicate(A, 1.0f, 1, 1, 8);
    NEEDED(asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);)
}

KERNEL(mask_left_narrow_half)
{
    asc_init();
    asc_set_vector_mask(0, (uint64_t)-1); // FAULT: mask-left-narrow
    asc_duplicate(A, 1.0f, 1, 1, 8);
    NEEDED(asc_duplicate(B, 1.0f, 8);) /* what a count form leaves is expected by everybody */
}

KERNEL(blocks_write_write) // blocks=3
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    const int64_t tile = asc_get_block_idx();
    asc_copy_ub2gm(y + EITHER(tile / 2, tile) * TILE, A, BYTES); // FAULT: gm-write-write // OTHER
}

KERNEL(blocks_atomic_plain) // blocks=4
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float();
    if (asc_get_block_idx() < EITHER(3, 4))
        asc_copy_ub2gm(y, A, BYTES); // OTHER
    asc_set_atomic_none();
    if (asc_get_block_idx() == EITHER(3, 4))
        asc_copy_ub2gm(y, A, 32); // FAULT: gm-write-write
}

KERNEL(blocks_atomic_kinds) // blocks=2
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    if (asc_get_block_idx() == 0) {
        asc_set_atomic_add_float();
        asc_copy_ub2gm(y, A, BYTES); // OTHER
    } else {
        EITHER(asc_set_atomic_max_float(), asc_set_atomic_add_float());
        asc_copy_ub2gm(y + TILE - 8, A, BYTES); // FAULT: gm-atomic-mixed
    }
    asc_set_atomic_none();
}

KERNEL(blocks_atomic_types) // blocks=5
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float();
    asc_copy_ub2gm_align(y + asc_get_block_idx() * 8, A, 32); // OTHER
    EITHER(asc_set_atomic_add_int(), (void)0);
    if (asc_get_block_idx() == 4)
        asc_copy_ub2gm_align(y, A, 32); // FAULT: gm-atomic-mixed
    asc_set_atomic_none();
}

KERNEL(atomic_read_back)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float();
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    asc_set_atomic_none();
    asc_sync();
    asc_copy_gm2ub(B, y + EITHER(TILE - 8, TILE), 64); // FAULT: gm-atomic-read
}

KERNEL(blocks_rows_touch) // blocks=8
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    const int64_t row = asc_get_block_idx();
    asc_copy_ub2gm_align(y + row * 5, A, EITHER(24, 20)); // FAULT: gm-write-write // OTHER
}

KERNEL(blocks_read_write) // blocks=2
{
    asc_init();
    const int64_t block = asc_get_block_idx();
    asc_copy_gm2ub_sync(A, y + EITHER(0, block) * TILE, BYTES); // OTHER
    asc_exp_sync(B, A, TILE);
    if (block == 1)
        asc_copy_ub2gm(y + EITHER(0, block) * TILE, B, BYTES); // FAULT: gm-read-write
}

KERNEL(blocks_write_scalar_read) // blocks=2
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    if (asc_get_block_idx() == 0)
        asc_copy_ub2gm(y, A, BYTES); // OTHER
    else
        *B = EITHER(y, x)[7]; // FAULT: gm-read-write
}

KERNEL(blocks_line_shared) // blocks=4
{
    asc_init();
    y[asc_get_block_idx() * EITHER(8, 16)] = 1.0f; // FAULT: gm-line-shared // OTHER
}

KERNEL(blocks_too_many) // blocks=65536,65535 // FAULT: grid-limit
{
    asc_init();
}
