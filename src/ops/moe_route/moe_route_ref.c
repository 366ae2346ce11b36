/* moe_route, reference: for each expert a walk over all slots. */
#include "core/services.h"

static tg_status run(tg_ctx *ctx, const tg_moe_route_args *a)
{
    const int64_t *index = tg_data(a->index), slots = tg_numel(a->index);
    int64_t *slot = tg_data(a->slot), *offset = tg_data(a->offset), *place = tg_data(a->place);
    int64_t at = 0;
    (void)ctx;
    for (int64_t i = 0; i < slots; i++) {
        slot[i] = -1;
        if (place)
            place[i] = -1;
    }
    for (int64_t e = 0; e < a->experts; e++) {
        offset[e] = at;
        for (int64_t i = 0; i < slots; i++) {
            const int is_full = a->capacity > 0 && at - offset[e] == a->capacity;
            if (index[i] != e || is_full)
                continue;
            slot[at] = i;
            if (place)
                place[i] = at;
            at++;
        }
    }
    offset[a->experts] = at;
    return TG_OK;
}

TG_REF_IMPLS(moe_route) = {TG_REF_IMPL(moe_route, run), TG_IMPLS_END};
