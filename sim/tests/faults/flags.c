/* flags.c - sets and waits that do not pair. */
#include "planted.h"

KERNEL(event_id)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EITHER(8, 0)); // FAULT: event-id
    asc_sync_wait(PIPE_MTE2, PIPE_V, 0);
    asc_exp(B, A, TILE);
}

KERNEL(event_set_twice)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0); // OTHER
    asc_copy_gm2ub(B, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EITHER(EVENT_ID0, EVENT_ID1)); // FAULT: event-set-twice
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EITHER(EVENT_ID0, EVENT_ID1));
    asc_add(C, A, B, TILE);
}

KERNEL(flag_left_over)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_MTE3, EVENT_ID2); // FAULT: flag-left-over
    NEEDED(asc_sync_wait(PIPE_MTE2, PIPE_MTE3, EVENT_ID2);)
}

KERNEL(flag_left_over_loop)
{
    asc_init();
    for (int i = 0; i < 4; i++) {
        if (i > 0)
            asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
        asc_copy_gm2ub(A, x + i * TILE, BYTES);
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_exp(B + i * TILE, A, TILE);
        if (i < EITHER(4, 3))
            asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0); // FAULT: flag-left-over
    }
}

KERNEL(wait_without_set_vector)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0); // FAULT: wait-without-set
    asc_exp(B, A, TILE);
}

KERNEL(wait_without_set_scalar)
{
    asc_init();
    asc_duplicate(A, 1.0f, TILE);
    NEEDED(asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);)
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0); // FAULT: wait-without-set
    *B = *A;
}

KERNEL(wait_without_set_event)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EITHER(EVENT_ID1, EVENT_ID0)); // FAULT: wait-without-set
    asc_exp(B, A, TILE);
}

KERNEL(wait_without_set_barrier)
{
    asc_init();
    NEEDED(asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID3);)
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID3); // FAULT: wait-without-set
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync(); // OTHER
}

KERNEL(wait_without_set_behind)
{
    asc_init();
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0); // FAULT: wait-without-set
    asc_duplicate(A, 1.0f, TILE);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0); // OTHER
    *B = *A;
}

KERNEL(wait_before_set)
{
    asc_init();
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0); /* in V's queue: S goes on and sends the copy */
    asc_copy_gm2ub(A, x, BYTES);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_exp(B, A, TILE); // OTHER
    NEEDED(asc_sync_pipe(PIPE_V);)
    asc_exp(C, B, TILE); // FAULT: missing-barrier-raw
}

KERNEL(deadlock_circle)
{
    asc_init();
    asc_copy_gm2ub(A, x, BYTES);
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID1); // OTHER
    EITHER(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0), (void)0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0); // FAULT: deadlock
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID1);
}

KERNEL(deadlock_three)
{
    asc_init();
    NEEDED(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);)
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    EITHER(asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0), (void)0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0); // OTHER
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0); // FAULT: deadlock
    asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
}
