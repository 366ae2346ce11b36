/* softmax_kl_div: what its shapes do not say of the arguments. */
#include "softmax_kl_div.h"

static tg_status check(const char *op, const skl *f, int64_t first, int64_t batch_rows)
{
    TG_TRY(batch_expect(op, f->logits, first, batch_rows));
    TG_TRY(tg_expect_f64(op, "temperature", f->temperature, 0x1p-60, 0x1p60));
    TG_TRY(tg_expect_f64(op, "eps", f->eps, 0, FLT_MAX));
    return tg_expect_gradient(op, "dlogits", f->dlogits, "logits", f->logits);
}

tg_status tg_check_softmax_kl_div_forward(const tg_softmax_kl_div_forward_args *args)
{
    const skl f = skl_forward(args);
    return check("softmax_kl_div_forward", &f, args->first_row, args->batch_rows);
}

tg_status tg_check_softmax_kl_div_backward(const tg_softmax_kl_div_backward_args *args)
{
    const skl f = skl_backward(args);
    return check("softmax_kl_div_backward", &f, args->first_row, args->batch_rows);
}
