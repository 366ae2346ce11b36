/* moe_route: what its shapes do not say of a valid problem. */
#include "core/services.h"

tg_status tg_check_moe_route(const tg_moe_route_args *args)
{
    TG_TRY(tg_expect_i64("moe_route", "experts", args->experts, 1, INT32_MAX));
    TG_TRY(tg_expect_i64("moe_route", "capacity", args->capacity, 0, INT64_MAX));
    return tg_expect_indices("moe_route", "index", args->index, args->experts + 1, NULL);
}
