/* cross.c - a cube core and its two vector cores, and blocks of a mix kernel: flags between
 * cores. */
#include "cube.h"

#define BEGIN_MIX()               \
    asc_set_ffts_base_addr(4096); \
    asc_init()
/* The cube core's results of a tile, as floats at `gm`. */
#define PRODUCT(gm) \
    UP_TO_L0C();    \
    OUT(gm, 0)
/* A vector core's half of a tile. */
#define HALF_TILE (asc_get_sub_block_id() * 2048)
#define READ_HALF(gm) asc_copy_gm2ub(A, (gm) + HALF_TILE, 2048 * 4)
#define WRITE_HALF(gm) asc_copy_ub2gm((gm) + HALF_TILE, A, 2048 * 4)

/* ---- what one core writes and another reads ---- */

KERNEL_MIX(vector_reads_early)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        PRODUCT(z); // OTHER
        asc_sync_block_arrive(PIPE_FIX, 0);
        EITHER(asc_sync_block_wait(PIPE_S, 1), (void)0);
    } else {
        NEEDED(asc_sync_block_wait(PIPE_S, 0);)
        READ_HALF(z); // FAULT: cross-read-write
        EITHER(asc_sync_block_wait(PIPE_S, 0), (void)0);
        EITHER(asc_sync_block_arrive(PIPE_MTE2, 1), (void)0);
    }
}

KERNEL_MIX(arrival_of_another_pipe)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        PRODUCT(z); // OTHER
        EITHER(asc_sync_block_arrive(PIPE_M, 0), asc_sync_block_arrive(PIPE_FIX, 0));
    } else {
        asc_sync_block_wait(PIPE_S, 0);
        READ_HALF(z); // FAULT: cross-read-write
    }
}

KERNEL_MIX(arrival_before_the_copy)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        UP_TO_L0C();
        EITHER(asc_sync_block_arrive(PIPE_FIX, 0), (void)0);
        OUT(z, 0); // OTHER
        NEEDED(asc_sync_block_arrive(PIPE_FIX, 0);)
    } else {
        asc_sync_block_wait(PIPE_S, 0);
        READ_HALF(z); // FAULT: cross-read-write
    }
}

/* The cube core goes on to the next tile in the same place. */
KERNEL_MIX(slot_reused_early)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        PRODUCT(z);
        asc_sync_block_arrive(PIPE_FIX, 0);
        asc_sync_pipe(PIPE_FIX);
        NEEDED(asc_sync_block_wait(PIPE_S, 1);)
        OUT(z, 0); // OTHER
        EITHER(asc_sync_block_wait(PIPE_S, 1), (void)0);
    } else {
        asc_sync_block_wait(PIPE_S, 0);
        READ_HALF(z); // FAULT: cross-read-write
        asc_sync_block_arrive(PIPE_MTE2, 1);
    }
}

KERNEL_MIX(cube_reads_early)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        UP_TO_L1();
        asc_sync_block_wait(PIPE_S, 2);
        BRING(L1(half, 131072), z); // FAULT: cross-read-write
    } else {
        asc_duplicate_sync(A, 1.0f, 2048);
        WRITE_HALF(z); // OTHER
        EITHER(asc_sync_block_arrive(PIPE_V, 2), asc_sync_block_arrive(PIPE_MTE3, 2));
    }
}

KERNEL_MIX(vector_cores_write_the_same)
{
    BEGIN_MIX();
    if ASC_IS_AIV {
        asc_duplicate_sync(A, 1.0f, 2048);
        asc_copy_ub2gm(z + EITHER(0, HALF_TILE), A, 2048 * 4); // FAULT: cross-write-write // OTHER
    }
}

KERNEL_MIX(vector_cores_read_each_other)
{
    BEGIN_MIX();
    if ASC_IS_AIV {
        asc_duplicate_sync(A, 1.0f, 2048);
        WRITE_HALF(z); // OTHER
        NEEDED(asc_sync_subblock_arrive(PIPE_MTE3, 3);)
        NEEDED(asc_sync_subblock_wait(PIPE_S, 3);)
        asc_copy_gm2ub(B + 2048, z + 2048 - HALF_TILE, 2048 * 4); // FAULT: cross-read-write
    }
}

/* A wait orders what is issued behind it, not what was issued before. */
KERNEL_MIX(wait_behind_the_copy)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        PRODUCT(z); // OTHER
        asc_sync_block_arrive(PIPE_FIX, 0);
    } else {
        NEEDED(asc_sync_block_wait(PIPE_S, 0);)
        READ_HALF(z); // FAULT: cross-read-write
        EITHER(asc_sync_block_wait(PIPE_S, 0), (void)0);
    }
}

KERNEL_MIX(sums_read_too_early)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        UP_TO_L0C();
        asc_set_atomic_add_float();
        OUT(x, 0); // OTHER
        asc_set_atomic_none();
        asc_sync_block_arrive(PIPE_FIX, 0);
    } else {
        asc_sync_block_wait(PIPE_S, 0);
        READ_HALF(EITHER(x, y)); // FAULT: gm-atomic-read
    }
}

KERNEL_MIX(nobody_writes_it)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        PRODUCT(z);
        asc_sync_block_arrive(PIPE_FIX, 0);
    } else {
        asc_sync_block_wait(PIPE_S, 0);
        READ_HALF(z + EITHER(8192, 0)); // FAULT: gm-unwritten
    }
}

KERNEL_MIX(blocks_without_a_flag) // blocks=2
{
    BEGIN_MIX();
    if ASC_IS_AIV {
        asc_duplicate_sync(A, 1.0f, 2048);
        if (asc_get_block_idx() == 0)
            WRITE_HALF(z); // OTHER
        NEEDED(asc_sync_inter_arrive(PIPE_MTE3, 4);)
        NEEDED(asc_sync_inter_wait(PIPE_S, 4);)
        if (asc_get_block_idx() == 1)
            asc_copy_gm2ub(B + 2048, z + HALF_TILE, 2048 * 4); // FAULT: gm-read-write
    }
}

/* ---- cores that wait ---- */

KERNEL_MIX(cores_wait_for_each_other)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        EITHER((void)0, asc_sync_block_arrive(PIPE_FIX, 0));
        asc_sync_block_wait(PIPE_S, 1); // FAULT: cross-deadlock
        EITHER(asc_sync_block_arrive(PIPE_FIX, 0), (void)0);
    } else {
        asc_sync_block_wait(PIPE_S, 0); // OTHER
        asc_sync_block_arrive(PIPE_MTE2, 1);
    }
}

/* The cube core is signalled when both have arrived. */
KERNEL_MIX(one_vector_core_skips)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        asc_sync_block_wait(PIPE_S, 1); // FAULT: cross-wait-alone
    } else if (asc_get_sub_block_id() < EITHER(1, 2)) {
        asc_sync_block_arrive(PIPE_MTE3, 1);
    }
}

/* That the cube core waits for ever is a consequence. */
KERNEL_MIX(vector_core_hangs)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        asc_sync_block_wait(PIPE_S, 1);
    } else {
        NEEDED(asc_sync_notify(PIPE_MTE3, PIPE_S, EVENT_ID4);)
        asc_sync_wait(PIPE_MTE3, PIPE_S, EVENT_ID4); // FAULT: wait-without-set
        asc_sync_block_arrive(PIPE_V, 1);
    }
}

KERNEL_MIX(slot_never_freed)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        for (int i = 0; i < 2; i++) {
            asc_sync_block_wait(PIPE_S, 1); // FAULT: cross-wait-alone
            asc_sync_block_arrive(PIPE_FIX, 0);
        }
    } else {
        asc_sync_block_arrive(PIPE_MTE2, 1);
        asc_sync_block_wait(PIPE_S, 0);
        NEEDED(asc_sync_block_arrive(PIPE_MTE2, 1);)
        EITHER((void)0, asc_sync_block_wait(PIPE_S, 0));
    }
}

KERNEL_MIX(a_block_does_not_arrive) // blocks=3
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        if (asc_get_block_idx() < EITHER(2, 3)) {
            asc_sync_inter_arrive(PIPE_FIX, 5);
            asc_sync_inter_wait(PIPE_S, 5); // FAULT: cross-wait-alone
        }
    }
}

/* ---- counters ---- */

KERNEL_MIX(signal_left_over)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        asc_sync_block_arrive(PIPE_FIX, 0); // FAULT: cross-flag-left-over
    } else {
        NEEDED(asc_sync_block_wait(PIPE_S, 0);)
    }
}

KERNEL_MIX(half_a_signal_left_over)
{
    BEGIN_MIX();
    if ASC_IS_AIV {
        if (asc_get_sub_block_id() == 0)
            EITHER(asc_sync_block_arrive(PIPE_V, 6), (void)0); // FAULT: cross-half-arrived
    }
}

KERNEL_MIX(counter_overflow)
{
    BEGIN_MIX();
    for (int i = 0; i < EITHER(16, 15); i++) {
        if ASC_IS_AIC
            asc_sync_block_arrive(PIPE_FIX, 0); // FAULT: cross-overflow
        else
            asc_sync_block_wait(PIPE_S, 0);
    }
}

/* Fifteen in flight, and those that come back say what has been taken. */
KERNEL_MIX(counter_overflow_of_a_ring)
{
    BEGIN_MIX();
    for (int i = 0; i < 40; i++) {
        if ASC_IS_AIC {
            if (i >= 8 && i % EITHER(40, 8) == 0)
                asc_sync_block_wait(PIPE_S, 1);
            asc_sync_block_arrive(PIPE_FIX, 0); // FAULT: cross-overflow
        } else {
            asc_sync_block_wait(PIPE_S, 0);
            if (EITHER(0, i % 8 == 7) && i < 32)
                asc_sync_block_arrive(PIPE_MTE2, 1);
        }
    }
}

KERNEL_MIX(id_of_two_modes)
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        asc_sync_block_arrive(PIPE_FIX, 2); // FAULT: cross-mode-mixed
    } else {
        asc_sync_subblock_arrive(PIPE_V, EITHER(2, 3)); // OTHER
        asc_sync_subblock_wait(PIPE_S, EITHER(2, 3));
        asc_sync_block_wait(PIPE_S, 2);
    }
}

KERNEL_MIX(id_too_large)
{
    BEGIN_MIX();
    if ASC_IS_AIC
        asc_sync_block_arrive(PIPE_FIX, EITHER(16, 0)); // FAULT: event-id
    else
        asc_sync_block_wait(PIPE_S, 0);
}

KERNEL_MIX(no_address)
{
    NEEDED(asc_set_ffts_base_addr(4096);)
    asc_init();
    if ASC_IS_AIC
        asc_sync_block_arrive(PIPE_FIX, 0); // FAULT: cross-no-address
    else
        asc_sync_block_wait(PIPE_S, 0);
}

KERNEL_CUBE(no_scheduler)
{
    asc_init();
    EITHER(asc_sync_inter_arrive(PIPE_FIX, 0), (void)0); // FAULT: cross-no-scheduler
}

KERNEL_MIX(more_blocks_than_cores) // blocks=21,20
{
    BEGIN_MIX();
    if ASC_IS_AIC {
        asc_sync_inter_arrive(PIPE_FIX, 0); // FAULT: cross-grid
        asc_sync_inter_wait(PIPE_S, 0);
    }
}

KERNEL_MIX(vector_call_on_the_cube_side)
{
    BEGIN_MIX();
    if EITHER (ASC_IS_AIC, ASC_IS_AIV)
        asc_duplicate(A, 1.0f, TILE); // FAULT: wrong-core
}
