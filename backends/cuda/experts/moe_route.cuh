/* moe_route.cuh - slots in the order of their experts, on the card alone: for moe_route and for the
 * layer that works in this order. */
#ifndef CUDA_MOE_ROUTE_CUH
#define CUDA_MOE_ROUTE_CUH

#include "rows/indices.cuh"

struct route_problem {
    const int64_t *index;
    int64_t slots, capacity; /* capacity: at least 1 */
    int experts;
    int64_t *slot, *offset, *place; /* slot, place NULL: not wanted */
};

/* Bytes of scratch memory. */
size_t cuda_route_bytes(int64_t slots, int64_t experts);
/* Enqueues it; the status says whether there may be so many experts. */
tg_status cuda_route(const cuda_call &call, const route_problem &p, void *scratch);

#endif
