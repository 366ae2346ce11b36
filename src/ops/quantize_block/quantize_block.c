/* quantize_block, and norms and gates of which only that is written: what their shapes do not say
 * of a valid problem. */
#include "core/services.h"

enum { BLOCK = 128 };

/* Numbers of 8 bits and their scales. */
typedef struct pair {
    const tg_tensor *q, *scale;
    const char *names;
} pair;

#define PAIR(args, q, scale)                        \
    {                                               \
        (args)->q, (args)->scale, #q " and " #scale \
    }

/* Each pair is there or is not, and one is. */
static tg_status check_pairs(const char *op, const pair *pairs, int count)
{
    int given = 0;
    for (int i = 0; i < count; i++) {
        if (!TG_LIKELY(!pairs[i].q == !pairs[i].scale))
            return tg_fail(TG_EINVAL, "%s: of %s one is NULL, expected both or none", op,
                           pairs[i].names);
        given += pairs[i].q != NULL;
    }
    if (!TG_LIKELY(given))
        return tg_fail(TG_EINVAL, "%s: q%s qt%s are NULL, expected one at least", op,
                       count > 2 ? "," : " and", count > 2 ? " and yt" : "");
    return TG_OK;
}

tg_status tg_check_quantize_block(const tg_quantize_block_args *args)
{
    const char *op = "quantize_block";
    TG_TRY(check_pairs(op, (const pair[]){PAIR(args, q, scale), PAIR(args, qt, scale_t)}, 2));
    return tg_expect_f64(op, "min_amax", args->min_amax, 0, FLT_MAX);
}

tg_status tg_check_quantize_rms_norm(const tg_quantize_rms_norm_args *args)
{
    const char *op = "quantize_rms_norm";
    TG_TRY(check_pairs(op, (const pair[]){PAIR(args, q, scale), PAIR(args, qt, scale_t)}, 2));
    if (!TG_LIKELY(!args->s == !args->residual))
        return tg_fail(TG_EINVAL, "%s: of residual and s one is NULL, expected both or none", op);
    TG_TRY(tg_expect_with(op, "residual", args->residual, "weight", args->weight));
    TG_TRY(tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX));
    return tg_expect_f64(op, "min_amax", args->min_amax, 0, FLT_MAX);
}

tg_status tg_check_quantize_swiglu(const tg_quantize_swiglu_args *args)
{
    const char *op = "quantize_swiglu";
    TG_TRY(check_pairs(op, (const pair[]){PAIR(args, q, scale), PAIR(args, qt, scale_t)}, 2));
    return tg_expect_f64(op, "min_amax", args->min_amax, 0, FLT_MAX);
}

tg_status tg_check_quantize_swiglu_gradient(const tg_quantize_swiglu_gradient_args *args)
{
    const char *op = "quantize_swiglu_gradient";
    const int64_t width = tg_rows_of(args->gate).n;
    const pair pairs[] = {PAIR(args, q, scale), PAIR(args, qt, scale_t), PAIR(args, yt, scale_yt)};
    TG_TRY(check_pairs(op, pairs, 3));
    if (!TG_LIKELY(!args->q || width % BLOCK == 0))
        return tg_fail(TG_EINVAL,
                       "%s: gate has %lld columns, expected a multiple of 128 with q: no block "
                       "holds elements of both gradients",
                       op, (long long)width);
    return tg_expect_f64(op, "min_amax", args->min_amax, 0, FLT_MAX);
}
