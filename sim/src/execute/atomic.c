/* execute/atomic.c - atomic stores: kept by block, applied in the order of blocks. */
#include "move.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vector.h"

typedef struct store {
    unsigned char *to;
    size_t bytes;
    int mode;
} store;

struct sim_stores {
    unsigned char *log; /* a store, its bytes, the next, each at a multiple of 16 */
    size_t used, capacity;
};

sim_stores *sim_stores_new(void)
{
    return calloc(1, sizeof(sim_stores));
}

void sim_stores_free(sim_stores *stores)
{
    if (stores)
        free(stores->log);
    free(stores);
}

static size_t padded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

void sim_store_later(sim_core *core, int mode, void *to, const void *from, size_t bytes)
{
    if (!core->stores && !(core->stores = sim_stores_new()))
        sim_stop(core);
    sim_stores *stores = core->stores;
    const size_t needed = stores->used + padded(sizeof(store)) + padded(bytes);
    if (needed > stores->capacity) {
        const size_t capacity = needed * 2;
        unsigned char *log = realloc(stores->log, capacity);
        if (!log) {
            sim_error("no memory for the atomic stores of block %lld", (long long)core->block);
            sim_stop(core);
        }
        stores->log = log;
        stores->capacity = capacity;
    }
    const store head = {to, bytes, mode};
    memcpy(stores->log + stores->used, &head, sizeof head);
    memcpy(stores->log + stores->used + padded(sizeof head), from, bytes);
    stores->used = needed;
}

static double combine(asc_atomic kind, double a, double b)
{
    if (kind == ASC_ATOMIC_ADD)
        return a + b;
    if (kind == ASC_ATOMIC_MAX)
        return a > b || a != a ? a : b;
    return a < b || a != a ? a : b;
}

/* GM is loaded with memcpy: a store may begin at any byte. */
#define INTEGERS(name, T)                                                                         \
    static void name(asc_atomic kind, unsigned char *to, const unsigned char *from, size_t count) \
    {                                                                                             \
        for (size_t i = 0; i < count; i++) {                                                      \
            T a, b;                                                                               \
            memcpy(&a, to + i * sizeof a, sizeof a);                                              \
            memcpy(&b, from + i * sizeof b, sizeof b);                                            \
            a = kind == ASC_ATOMIC_ADD                ? (T)((uint32_t)a + (uint32_t)b)            \
                : (kind == ASC_ATOMIC_MAX) == (a > b) ? a                                         \
                                                      : b;                                        \
            memcpy(to + i * sizeof a, &a, sizeof a);                                              \
        }                                                                                         \
    }
INTEGERS(apply_i8, int8_t)
INTEGERS(apply_i16, int16_t)
INTEGERS(apply_i32, int32_t)

/* Two bytes, by way of float. */
static void apply_short(sim_type type, asc_atomic kind, unsigned char *to,
                        const unsigned char *from, size_t count)
{
    sim_instr how = {.mode = 0};
    sim_lanes *const widen = sim_convert_lanes(SIM_FLOAT, type, ASC_EXACT);
    sim_lanes *const narrow = sim_convert_lanes(type, SIM_FLOAT, ASC_RN);
    for (size_t i = 0; i < count; i++) {
        uint16_t old, new;
        float a, b;
        memcpy(&old, to + 2 * i, 2);
        memcpy(&new, from + 2 * i, 2);
        widen(&how, &a, &old, NULL, 1);
        widen(&how, &b, &new, NULL, 1);
        a = (float)combine(kind, a, b);
        narrow(&how, &old, &a, NULL, 1);
        memcpy(to + 2 * i, &old, 2);
    }
}

static void apply_float(asc_atomic kind, unsigned char *to, const unsigned char *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float a, b;
        memcpy(&a, to + 4 * i, 4);
        memcpy(&b, from + 4 * i, 4);
        a = (float)combine(kind, a, b);
        memcpy(to + 4 * i, &a, 4);
    }
}

static void apply(const store *head, const unsigned char *from)
{
    const asc_atomic kind = (asc_atomic)(head->mode >> 4);
    const sim_type type = (sim_type)(head->mode & 15);
    const size_t count = head->bytes / sim_type_bytes[type];
    switch (type) {
    case SIM_FLOAT:
        apply_float(kind, head->to, from, count);
        break;
    case SIM_I32:
        apply_i32(kind, head->to, from, count);
        break;
    case SIM_I16:
        apply_i16(kind, head->to, from, count);
        break;
    case SIM_I8:
        apply_i8(kind, head->to, from, count);
        break;
    default:
        apply_short(type, kind, head->to, from, count);
    }
}

void sim_stores_apply(const sim_stores *stores)
{
    for (size_t at = 0; at < stores->used;) {
        store head;
        memcpy(&head, stores->log + at, sizeof head);
        apply(&head, stores->log + at + padded(sizeof head));
        at += padded(sizeof head) + padded(head.bytes);
    }
}
