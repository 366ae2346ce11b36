/* moe_gather, moe_scatter: what their shapes do not say of the arguments. */
#include "core/services.h"

/* Places of slots among rows, or slots of rows: -1 is none. */
static tg_status expect_places(const char *op, const char *name, const tg_tensor *t, int64_t count)
{
    static const int64_t none = -1;
    return t ? tg_expect_indices(op, name, t, count, &none) : TG_OK;
}

tg_status tg_check_moe_gather_forward(const tg_moe_gather_forward_args *a)
{
    const char *op = "moe_gather_forward";
    const int64_t tokens = a->x->shape[0];
    TG_TRY(tg_expect_i64(op, "top_k", a->top_k, 1, INT32_MAX));
    TG_TRY(expect_places(op, "slot", a->slot, tokens * a->top_k));
    return expect_places(op, "place", a->place, a->slot->shape[0]);
}

tg_status tg_check_moe_gather_backward(const tg_moe_gather_backward_args *a)
{
    return expect_places("moe_gather_backward", "place", a->place, a->drows->shape[0]);
}

tg_status tg_check_moe_scatter_forward(const tg_moe_scatter_forward_args *a)
{
    const char *op = "moe_scatter_forward";
    TG_TRY(expect_places(op, "place", a->place, a->rows->shape[0]));
    return expect_places(op, "slot", a->slot, tg_numel(a->place));
}

tg_status tg_check_moe_scatter_backward(const tg_moe_scatter_backward_args *a)
{
    const char *op = "moe_scatter_backward";
    TG_TRY(tg_expect_with(op, "dweights", a->dweights, "rows", a->rows));
    TG_TRY(expect_places(op, "place", a->place, a->drows->shape[0]));
    return expect_places(op, "slot", a->slot, tg_numel(a->place));
}
