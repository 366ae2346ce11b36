/* asc_flags.h - flags between pipes, by which one waits for another. Pipes and events are literals
 * to CANN's compiler. */
#ifndef ASC_FLAGS_H
#define ASC_FLAGS_H

#include "c_api/asc_simd.h"

/* Two of each kind, for two buffers. */

#define ASC_NOTIFY(from, to, slot)                \
    do {                                          \
        if (slot)                                 \
            asc_sync_notify(from, to, EVENT_ID1); \
        else                                      \
            asc_sync_notify(from, to, EVENT_ID0); \
    } while (0)
#define ASC_WAIT(from, to, slot)                \
    do {                                        \
        if (slot)                               \
            asc_sync_wait(from, to, EVENT_ID1); \
        else                                    \
            asc_sync_wait(from, to, EVENT_ID0); \
    } while (0)

/* A slot's turns, each once a tile: MTE2 fills its buffers, V reads them and writes others, which
 * leave through MTE3. */
#define ASC_MAY_FILL(slot) ASC_WAIT(PIPE_V, PIPE_MTE2, slot)
#define ASC_HAS_FILLED(slot)                 \
    do {                                     \
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot); \
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);   \
    } while (0)
#define ASC_HAS_READ(slot) ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot)
#define ASC_MAY_WRITE(slot) ASC_WAIT(PIPE_MTE3, PIPE_V, slot)
#define ASC_HAS_WRITTEN(slot)                \
    do {                                     \
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot); \
        ASC_WAIT(PIPE_V, PIPE_MTE3, slot);   \
    } while (0)
#define ASC_HAS_LEFT(slot) ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot)

/* `to` waits for all that `from` has been given. */
#define ASC_FENCE(from, to)                   \
    do {                                      \
        asc_sync_notify(from, to, EVENT_ID2); \
        asc_sync_wait(from, to, EVENT_ID2);   \
    } while (0)

/* What has been computed so far is there for what V computes next. */
#define ASC_THEN() asc_sync_pipe(PIPE_V)

/* Both slots' flags: op tells that their buffers are free, or waits for that. */
#define ASC_SLOTS(op, from, to) \
    op(from, to, EVENT_ID0);    \
    op(from, to, EVENT_ID1)

/* Of the buffers that V reads, and of those that MTE3 reads and `fills` writes. */
#define ASC_BUFFERS(op, fills)        \
    ASC_SLOTS(op, PIPE_V, PIPE_MTE2); \
    ASC_SLOTS(op, PIPE_MTE3, fills)

/* Of eight buffers, such as those of a ring (asc_ring.h), an event each. */
#define ASC_RING_FLAG(call, from, to, slot) \
    do {                                    \
        switch (slot) {                     \
        case 0:                             \
            call(from, to, EVENT_ID0);      \
            break;                          \
        case 1:                             \
            call(from, to, EVENT_ID1);      \
            break;                          \
        case 2:                             \
            call(from, to, EVENT_ID2);      \
            break;                          \
        case 3:                             \
            call(from, to, EVENT_ID3);      \
            break;                          \
        case 4:                             \
            call(from, to, EVENT_ID4);      \
            break;                          \
        case 5:                             \
            call(from, to, EVENT_ID5);      \
            break;                          \
        case 6:                             \
            call(from, to, EVENT_ID6);      \
            break;                          \
        default:                            \
            call(from, to, EVENT_ID7);      \
        }                                   \
    } while (0)

#endif
