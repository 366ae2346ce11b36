/* softmax_logp: what its shapes do not say of the arguments. */
#include "rows/logp.h"

tg_status tg_check_softmax_logp_forward(const tg_softmax_logp_forward_args *args)
{
    const logp_call c = LOGP_FORWARD(args);
    return logp_expect("softmax_logp_forward", &c, args->logits->shape[args->logits->ndim - 1]);
}

tg_status tg_check_softmax_logp_backward(const tg_softmax_logp_backward_args *args)
{
    const logp_call c = LOGP_BACKWARD(args);
    TG_TRY(tg_expect_gradient("softmax_logp_backward", "dlogits", args->dlogits, "logits",
                              args->logits));
    return logp_expect("softmax_logp_backward", &c, args->logits->shape[args->logits->ndim - 1]);
}
