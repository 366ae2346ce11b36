/* quantize_block: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status expect_both(const tg_tensor *q, const tg_tensor *scale, const char *names)
{
    return TG_LIKELY(!q == !scale)
               ? TG_OK
               : tg_fail(TG_EINVAL, "quantize_block: of %s one is NULL, expected both or none",
                         names);
}

tg_status tg_check_quantize_block(const tg_quantize_block_args *args)
{
    TG_TRY(expect_both(args->q, args->scale, "q and scale"));
    TG_TRY(expect_both(args->qt, args->scale_t, "qt and scale_t"));
    if (!TG_LIKELY(args->q || args->qt))
        return tg_fail(TG_EINVAL, "quantize_block: q and qt are NULL, expected one at least");
    return tg_expect_f64("quantize_block", "min_amax", args->min_amax, 0, FLT_MAX);
}
