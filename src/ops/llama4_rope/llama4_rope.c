/* llama4_rope: what its shapes do not say of the arguments. */
#include <inttypes.h>

#include "rotary/rotary.h"

/* freqs has enough positions and pairs, the pairs of a position compact. */
static tg_status check_freqs(const rotary_args *p, const tg_tensor *freqs)
{
    const tg_tensor *q = p->q;
    const int n = freqs->ndim;
    char found[128];
    if (freqs->shape[n - 3] < q->shape[1])
        return tg_fail(TG_EINVAL,
                       "%s: freqs is %s, expected at least %" PRId64 " positions, the length of %s",
                       p->op, tg_describe(freqs, found, sizeof found), q->shape[1], p->q_name);
    if (freqs->shape[n - 2] < q->shape[3] / 2)
        return tg_fail(TG_EINVAL,
                       "%s: freqs is %s, expected at least %" PRId64
                       " pairs, half of the width of %s",
                       p->op, tg_describe(freqs, found, sizeof found), q->shape[3] / 2, p->q_name);
    if (freqs->shape[n - 2] > 1 && tg_stride(freqs, n - 2) != 2)
        return tg_fail(TG_EINVAL,
                       "%s: freqs has stride %" PRId64
                       " in dimension %d, expected 2: compact pairs",
                       p->op, tg_stride(freqs, n - 2), n - 2);
    return TG_OK;
}

static tg_status check(rotary_args p, const tg_tensor *freqs)
{
    TG_TRY(rotary_check(&p));
    if (p.q->shape[3] % 2) {
        char found[128];
        return tg_fail(TG_EINVAL, "%s: %s is %s, expected an even width: pairs of elements", p.op,
                       p.q_name, tg_describe(p.q, found, sizeof found));
    }
    return check_freqs(&p, freqs);
}

tg_status tg_check_llama4_rope_forward(const tg_llama4_rope_forward_args *args)
{
    return check(ROTARY_FORWARD("llama4_rope_forward", args), args->freqs);
}

tg_status tg_check_llama4_rope_backward(const tg_llama4_rope_backward_args *args)
{
    return check(ROTARY_BACKWARD("llama4_rope_backward", args), args->freqs);
}
