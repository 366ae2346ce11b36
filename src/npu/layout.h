/* layout.h - where buffers lie: between layout.c and planner.c. */
#ifndef TIGON_NPU_LAYOUT_H
#define TIGON_NPU_LAYOUT_H

#include "npu/planner.h"

/* Sizes stop here, so that sums of them fit 64 bits. */
static const int64_t VAST = (int64_t)1 << 50;

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t round_up(int64_t a, int64_t unit)
{
    return ceil_div(a, unit) * unit;
}

static inline int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? VAST : min64(product, VAST);
}

static inline int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest power of two that is at most n, which is at least 1. */
static inline int64_t power_below(int64_t n)
{
    return (int64_t)1 << (63 - __builtin_clzll((unsigned long long)n));
}

/* Who lies above whom. It grows from the problem alone, not from the room, and serves tiles of
 * every size: a buffer begins where the highest of those below it ends that live when it does. So a
 * larger tile never takes less room. */
typedef struct ub_packing {
    const tg_ub_kernel *kernel;
    const tg_ub_problem *problem;
    int64_t step;                 /* ub_column_step() */
    int count;                    /* buffers that are there */
    int order[TG_UB_BUFFERS];     /* the lowest first */
    uint32_t life[TG_UB_BUFFERS]; /* by the kernel's index: one bit a step */
    int nsteps;
} ub_packing;

ub_packing ub_pack(const tg_ub_kernel *kernel, const tg_ub_problem *problem);

/* Columns in memory of a row that has this many. */
int64_t ub_pitch(const ub_packing *p, int64_t columns);

/* Places every buffer of a tile; returns where the last one ends. places: by the kernel's index, or
 * NULL. */
int64_t ub_place(const ub_packing *p, int64_t rows, int64_t columns, tg_ub_place *places);

/* Live bytes by step, the peak, and the largest buffer there, of layout->place. */
void ub_ledger(const ub_packing *p, tg_ub_layout *layout);

#endif
