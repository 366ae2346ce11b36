/* moe_route.h - slots sorted by expert, for moe_route and for the counts of moe_router. */
#ifndef MOE_ROUTE_H
#define MOE_ROUTE_H

#include "ascend.h"
#include "kernels/tables/moe_route.args.h"

enum { MOE_NO_CAPACITY = 1 << 30 }; /* more than there may be slots */

/* What is known of the slots after two launches: see moe_route.args.h. */
typedef struct ascend_route {
    int64_t slots, experts, marks, capacity, list, chunks;
    ascend_memory order, ranks, starts, counts, before, pieces, totals;
} ascend_route;

/* 1 if there is a plan for such slots and experts. */
int ascend_routes(const tg_tensor *index, int64_t experts);

tg_status ascend_route_sort(tg_ctx *ctx, const tg_tensor *index, int64_t experts, int64_t capacity,
                            ascend_route *r);

#endif
