/* order.c - missing barriers and flags: races within a pipe and between pipes. */
#include "planted.h"

/* ---- within a pipe ---- */

KERNEL(barrier_raw)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(B, A, TILE); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_add(C, A, B, TILE); // FAULT: missing-barrier-raw
}

KERNEL(barrier_raw_element)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_duplicate_sync(B, 0.0f, 8);
    asc_set_vector_mask(0, (uint64_t)-1);
    asc_repeat_reduce_sum(B + 6, A, 1, 1, 1, 8); /* another element of the same block */
    asc_repeat_reduce_sum(B + 3, A, 1, 1, 1, 8); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_exp(C, B, 4); // FAULT: missing-barrier-raw
}

KERNEL(barrier_raw_in_place)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    for (int i = 0; i < 3; i++) {
        asc_mul(A, A, A, TILE); // FAULT: missing-barrier-raw // OTHER
        NEEDED(asc_sync_pipe(PIPE_V);)
    }
}

KERNEL(barrier_raw_mask)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_copy_gm2ub_sync(B, y, BYTES);
    asc_gt(A, B, 1, 1, 1, 1, 8, 8, 8); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_select(C, A, B, 1, 1, 1, 1, 8, 8, 8); // FAULT: missing-barrier-raw
}

/* Sums commute; a sum and a maximum do not. */
KERNEL(barrier_waw_atomics)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_set_atomic_add_float();
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    EITHER(asc_set_atomic_max_float(), (void)0);
    asc_copy_ub2gm(y, A, BYTES); // FAULT: missing-barrier-waw
    asc_set_atomic_none();
}

KERNEL(barrier_raw_offsets)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_duplicate(UB(uint32_t, BYTES), 12, 64); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_gather(C, A, UB(uint32_t, BYTES), 64); // FAULT: missing-barrier-raw
}

KERNEL(barrier_war)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(B, A, TILE); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_duplicate(A, 0.0f, TILE); // FAULT: missing-barrier-war
}

KERNEL(barrier_waw)
{
    asc_init();
    asc_duplicate(A, 0.0f, TILE); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_duplicate(A + EITHER(TILE - 8, TILE), 1.0f, 16); // FAULT: missing-barrier-waw
}

KERNEL(barrier_waw_copies_in)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);                       // OTHER
    asc_copy_gm2ub(A + EITHER(TILE - 8, TILE), y, 64); // FAULT: missing-barrier-waw
}

KERNEL(barrier_waw_padding)
{
    asc_init();
    asc_copy_gm2ub_align(A, x, 36); // OTHER
    NEEDED(asc_sync_pipe(PIPE_MTE2);)
    asc_copy_gm2ub(A + 8, y, 32); // FAULT: missing-barrier-waw
}

KERNEL(barrier_waw_copies_out)
{
    asc_init();
    asc_duplicate_sync(A, 0.0f, TILE);
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    NEEDED(asc_sync_pipe(PIPE_MTE3);)
    asc_copy_ub2gm_align(y + 7, A, 4); // FAULT: missing-barrier-waw
}

/* ---- between pipes: read after write ---- */

KERNEL(flag_raw_mte2_v)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_exp(B, A, TILE); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_early)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    EITHER(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0), (void)0); /* before the second copy */
    asc_copy_gm2ub(B, y, BYTES);                                    // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_add(C, A, B, TILE); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_wrong_barrier)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES); // OTHER
    EITHER(asc_sync_pipe(PIPE_MTE2), asc_sync());
    asc_exp(B, A, TILE); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_v_mte3)
{
    asc_init();
    asc_duplicate(A, 1.0f, TILE); // OTHER
    NEEDED(asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);)
    asc_copy_ub2gm(y, A, BYTES); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_mte2_mte3)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_MTE3, EVENT_ID4);)
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_MTE3, EVENT_ID4);)
    asc_copy_ub2gm(y, A, BYTES); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_through_global)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);)
    asc_copy_gm2ub(B, y, BYTES); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_v_s)
{
    asc_init();
    asc_duplicate(A, 1.0f, TILE); // OTHER
    NEEDED(asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);)
    y[0] = A[3]; // FAULT: missing-flag-raw
}

KERNEL(flag_raw_mte2_s)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_S, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_S, EVENT_ID0);)
    y[0] = A[3]; // FAULT: missing-flag-raw
}

KERNEL(flag_raw_s_v)
{
    asc_init();
    for (int i = 0; i < 8; i++)
        A[i] = (float)i; // OTHER
    NEEDED(asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);)
    asc_exp(B, A, 8); // FAULT: missing-flag-raw
}

KERNEL(flag_raw_s_mte3)
{
    asc_init();
    A[0] = 1.0f; // OTHER
    NEEDED(asc_sync_notify(PIPE_S, PIPE_MTE3, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_S, PIPE_MTE3, EVENT_ID0);)
    asc_copy_ub2gm_align(y, A, 4); // FAULT: missing-flag-raw
}

/* ---- between pipes: write after read ---- */

KERNEL(flag_war_v_mte2)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    asc_exp(B, A, TILE); // OTHER
    NEEDED(asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);)
    asc_copy_gm2ub(A, x, BYTES); // FAULT: missing-flag-war
}

KERNEL(flag_war_mte3_v)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_copy_ub2gm(y, A, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);)
    asc_duplicate(A, 2.0f, TILE); // FAULT: missing-flag-war
}

KERNEL(flag_war_s_v)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    y[0] = A[0]; // OTHER
    NEEDED(asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);)
    asc_duplicate(A, 2.0f, TILE); // FAULT: missing-flag-war
}

KERNEL(flag_war_v_s)
{
    asc_init();
    asc_duplicate_sync(A, 1.0f, TILE);
    asc_exp(B, A, TILE); // OTHER
    NEEDED(asc_sync_vec();)
    A[5] = 0.0f; // FAULT: missing-flag-war
}

KERNEL(flag_war_through_global)
{
    asc_init();
    asc_duplicate_sync(B, 1.0f, TILE);
    asc_copy_gm2ub(A, y, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);)
    asc_copy_ub2gm(y + 1, B, 32); // FAULT: missing-flag-war
}

/* Two buffers in turn; the flag that gives a buffer back comes too early. */
KERNEL(flag_war_double_buffer)
{
    asc_init();
    for (int i = 0; i < 6; i++) {
        __ubuf__ float *buffer = A + i % 2 * TILE;
        if (i >= 2)
            asc_sync_wait(PIPE_V, PIPE_MTE2, i % 2);
        asc_copy_gm2ub(buffer, x + i * TILE, BYTES); // FAULT: missing-flag-war
        asc_sync_notify(PIPE_MTE2, PIPE_V, i % 2);
        asc_sync_wait(PIPE_MTE2, PIPE_V, i % 2);
        if (i < EITHER(4, 0))
            asc_sync_notify(PIPE_V, PIPE_MTE2, i % 2);
        asc_exp(C + i * TILE, buffer, TILE); // OTHER
        if (i < EITHER(0, 4))
            asc_sync_notify(PIPE_V, PIPE_MTE2, i % 2);
    }
}

/* ---- between pipes: write after write ---- */

KERNEL(flag_waw_mte2_v)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES); // OTHER
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_duplicate(A + TILE - 8, 0.0f, 8); // FAULT: missing-flag-waw
}

KERNEL(flag_waw_v_mte2)
{
    asc_init();
    asc_duplicate(A, 0.0f, TILE); // OTHER
    NEEDED(asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);)
    asc_copy_gm2ub(A, x, BYTES - 64); // FAULT: missing-flag-waw
}

KERNEL(flag_waw_s_v)
{
    asc_init();
    A[9] = 1.0f; // OTHER
    NEEDED(asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);)
    asc_duplicate(A, 0.0f, TILE); // FAULT: missing-flag-waw
}

KERNEL(flag_waw_v_s)
{
    asc_init();
    asc_duplicate(A, 0.0f, TILE); // OTHER
    NEEDED(asc_sync();)
    A[9] = 1.0f; // FAULT: missing-flag-waw
}

/* ---- registers ---- */

KERNEL(register_early)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    float value;
    uint32_t index;
    asc_repeat_reduce_max_value_index(B, A, TILE); // OTHER
    NEEDED(asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);)
    NEEDED(asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);)
    asc_get_reduce_max_cnt(value, index); // FAULT: register-early
    y[0] = value + (float)index;
}

KERNEL(register_never)
{
    asc_init();
    asc_copy_gm2ub_sync(A, x, BYTES);
    NEEDED(asc_repeat_reduce_sum_sync(B, A, TILE);)
    y[0] = (float)asc_get_acc_val(); // FAULT: register-early
}
