/* fused_linear_cross_entropy: what its shapes do not say of a valid problem. */
#include "fused_linear_cross_entropy.h"

static tg_status check_options(const char *op, const flce *f)
{
    TG_TRY(tg_expect_f64(op, "label_smoothing", f->smoothing, 0, 1));
    if (f->softcap != 0)
        TG_TRY(tg_expect_positive(op, "softcap", f->softcap));
    TG_TRY(tg_expect_f64(op, "temperature", f->temperature, 0x1p-60, 0x1p60));
    return tg_expect_i64(op, "chunk_bytes", f->chunk_bytes, 0, INT64_MAX);
}

static tg_status check_slice(const char *op, const flce *f)
{
    const int forward = !f->saved; /* whose lse is that of the slice */
    const slice_refusal whole[] = {
        {"class_weight", f->class_weight != NULL},
        {"token_scaling", f->token_scaling != 0},
        {"z_loss", f->z_loss != NULL},
        {"accuracy", f->accuracy != NULL},
        {"predicted", f->predicted != NULL},
        {"dx", forward && f->dx},
        {"dweight", forward && f->dweight},
        {"dbias", forward && f->dbias},
    };
    return slice_expect(op, f->slice, f->weight->shape[0], whole, sizeof whole / sizeof *whole);
}

static tg_status check(const char *op, const flce *f)
{
    TG_TRY(check_options(op, f));
    TG_TRY(tg_expect_with(op, "dbias", f->dbias, "bias", f->bias));
    TG_TRY(check_slice(op, f));
    return tg_expect_indices(op, "target", f->target, slice_vocab(f->slice, f->weight->shape[0]),
                             &f->ignore_index);
}

tg_status
tg_check_fused_linear_cross_entropy_forward(const tg_fused_linear_cross_entropy_forward_args *args)
{
    const flce f = flce_forward(args);
    return check("fused_linear_cross_entropy_forward", &f);
}

tg_status tg_check_fused_linear_cross_entropy_backward(
    const tg_fused_linear_cross_entropy_backward_args *args)
{
    const flce f = flce_backward(args);
    return check("fused_linear_cross_entropy_backward", &f);
}
