/* flash_attention: what its shapes do not say of a valid problem. */
#include "core/services.h"

/* The arguments that both directions have. */
typedef struct attention_args {
    const char *op;
    const tg_tensor *q, *k, *cu_seqlens_q, *cu_seqlens_k;
    int64_t window_left, window_right;
    double softcap, dropout;
    int64_t offset;
} attention_args;

#define ATTENTION_ARGS(a)                                                                      \
    (a)->q, (a)->k, (a)->cu_seqlens_q, (a)->cu_seqlens_k, (a)->window_left, (a)->window_right, \
        (a)->softcap, (a)->dropout, (a)->offset

static tg_status check_heads(const attention_args *a)
{
    const int64_t heads = a->q->shape[2], key_heads = a->k->shape[2];
    if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
        return tg_fail(TG_EINVAL, "%s: k has %lld heads, expected a divisor of the %lld heads of q",
                       a->op, (long long)key_heads, (long long)heads);
    return TG_OK;
}

/* Boundaries of packed rows, where they can be read from here: they ascend from 0 to `rows` at
 * most. */
static tg_status check_boundaries(const char *op, const char *name, const tg_tensor *t,
                                  int64_t rows)
{
    if (t->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    double least = 0;
    for (int64_t i = 0; i < t->shape[0]; i++) {
        const double at = tg_get(tg_data(t), tg_type_of(t), i * tg_stride(t, 0));
        const double most = i == 0 ? 0 : (double)rows;
        if (!(at >= least && at <= most))
            return tg_fail(TG_EINVAL,
                           "%s: %s[%lld] is %.0f, expected at least %.0f and at most %.0f", op,
                           name, (long long)i, at, least, most);
        least = at;
    }
    return TG_OK;
}

static tg_status check_packed(const attention_args *a)
{
    TG_TRY(tg_expect_with(a->op, "cu_seqlens_q", a->cu_seqlens_q, "cu_seqlens_k", a->cu_seqlens_k));
    TG_TRY(tg_expect_with(a->op, "cu_seqlens_k", a->cu_seqlens_k, "cu_seqlens_q", a->cu_seqlens_q));
    if (!a->cu_seqlens_q)
        return TG_OK;
    if (a->q->shape[0] != 1)
        return tg_fail(TG_EINVAL, "%s: q has %lld batches, expected 1 with cu_seqlens_q", a->op,
                       (long long)a->q->shape[0]);
    TG_TRY(check_boundaries(a->op, "cu_seqlens_q", a->cu_seqlens_q, a->q->shape[1]));
    return check_boundaries(a->op, "cu_seqlens_k", a->cu_seqlens_k, a->k->shape[1]);
}

static tg_status check(const attention_args *a)
{
    TG_TRY(check_heads(a));
    TG_TRY(check_packed(a));
    TG_TRY(tg_expect_i64(a->op, "window_left", a->window_left, -1, INT64_MAX));
    TG_TRY(tg_expect_i64(a->op, "window_right", a->window_right, -1, INT64_MAX));
    TG_TRY(tg_expect_below(a->op, "dropout", a->dropout, 0, 1));
    TG_TRY(tg_expect_i64(a->op, "offset", a->offset, 0, UINT32_MAX));
    return a->softcap != 0 ? tg_expect_positive(a->op, "softcap", a->softcap) : TG_OK;
}

tg_status tg_check_flash_attention_forward(const tg_flash_attention_forward_args *args)
{
    return check(&(attention_args){"flash_attention_forward", ATTENTION_ARGS(args)});
}

tg_status tg_check_flash_attention_backward(const tg_flash_attention_backward_args *args)
{
    const char *op = "flash_attention_backward";
    TG_TRY(tg_expect_with(op, "dsinks", args->dsinks, "sinks", args->sinks));
    return check(&(attention_args){op, ATTENTION_ARGS(args)});
}
