/* moe_router: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status expect_groups(const tg_moe_router_forward_args *a, int64_t experts)
{
    const char *op = "moe_router_forward";
    TG_TRY(tg_expect_i64(op, "groups", a->groups, 1, experts));
    if (experts % a->groups)
        return tg_fail(TG_EINVAL, "%s: groups is %lld, expected a divisor of %lld, the experts", op,
                       (long long)a->groups, (long long)experts);
    const int64_t kept = a->groups_kept ? a->groups_kept : a->groups;
    TG_TRY(tg_expect_i64(op, "groups_kept", kept, 1, a->groups));
    const int64_t among = kept * (experts / a->groups);
    if (a->top_k > among)
        return tg_fail(TG_EINVAL,
                       "%s: top_k is %lld, expected at most %lld, the experts in %lld groups", op,
                       (long long)a->top_k, (long long)among, (long long)kept);
    return TG_OK;
}

tg_status tg_check_moe_router_forward(const tg_moe_router_forward_args *args)
{
    const int64_t experts = args->logits->shape[args->logits->ndim - 1];
    if (!TG_LIKELY(experts > 0))
        return tg_fail(TG_EINVAL,
                       "moe_router_forward: logits has no experts, expected one at least");
    TG_TRY(tg_expect_i64("moe_router_forward", "top_k", args->top_k, 1, experts));
    return args->groups == 1 && args->groups_kept <= 1 ? TG_OK : expect_groups(args, experts);
}

tg_status tg_check_moe_router_backward(const tg_moe_router_backward_args *args)
{
    const char *op = "moe_router_backward";
    TG_TRY(tg_expect_with(op, "dbalance", args->dbalance, "counts", args->counts));
    TG_TRY(tg_expect_with(op, "dz_loss", args->dz_loss, "counts", args->counts));
    return tg_expect_indices(op, "index", args->index, args->logits->shape[args->logits->ndim - 1],
                             NULL);
}
