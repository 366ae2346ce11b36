/* fused_linear_cross_entropy: what is a valid problem. */
#include "fused_linear_cross_entropy.h"

static tg_status check_parameters(const char *op, const flce *f)
{
    const int64_t hidden = f->x->shape[f->x->ndim - 1], classes = f->weight->shape[0];
    const char *what = "the rows of weight";
    TG_TRY(tg_expect_matrix(op, "weight", f->weight, classes, hidden,
                            "its columns as the last dimension of x"));
    TG_TRY(tg_expect_vector(op, "bias", f->bias, classes, what));
    TG_TRY(tg_expect_vector(op, "class_weight", f->class_weight, classes, what));
    TG_TRY(tg_expect_same_shape(op, "dx", f->dx, "x", f->x));
    TG_TRY(tg_expect_same_shape(op, "dweight", f->dweight, "weight", f->weight));
    if (f->dbias && !f->bias)
        return tg_fail(TG_EINVAL, "%s: dbias is given but bias is NULL, expected both or neither",
                       op);
    return tg_expect_vector(op, "dbias", f->dbias, classes, what);
}

static tg_status check_options(const char *op, const flce *f)
{
    TG_TRY(tg_expect_f64(op, "label_smoothing", f->smoothing, 0, 1));
    if (f->softcap != 0)
        TG_TRY(tg_expect_positive(op, "softcap", f->softcap));
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

/* A value a row for TG_NONE, else one. */
static tg_status check_result(const char *op, const char *name, const tg_tensor *t, const flce *f,
                              int64_t rows)
{
    if (f->reduction == TG_NONE)
        return tg_expect_numel(op, name, t, rows, "one for each row of x");
    return tg_expect_numel(op, name, t, 1, "one for a reduced loss");
}

static tg_status check(const char *op, const flce *f)
{
    TG_TRY(tg_expect_rows(op, "x", f->x));
    TG_TRY(tg_expect_ndim(op, "weight", f->weight, 2));
    TG_TRY(check_options(op, f));
    TG_TRY(check_parameters(op, f));
    TG_TRY(check_slice(op, f));
    int64_t rows = 1;
    for (int i = 0; i < f->x->ndim - 1; i++)
        rows *= f->x->shape[i];
    const char *what = "one for each row of x";
    TG_TRY(tg_expect_numel(op, "target", f->target, rows, what));
    TG_TRY(check_result(op, "dloss", f->dloss, f, rows));
    TG_TRY(check_result(op, "loss", f->loss, f, rows));
    TG_TRY(check_result(op, "z_loss", f->z_loss, f, rows));
    TG_TRY(check_result(op, "accuracy", f->accuracy, f, rows));
    const tg_tensor *lse = f->saved ? f->saved : f->lse;
    TG_TRY(tg_expect_numel(op, "lse", lse, rows, what));
    TG_TRY(tg_expect_numel(op, "predicted", f->predicted, rows, what));
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
