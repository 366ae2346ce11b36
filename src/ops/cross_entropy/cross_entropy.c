/* cross_entropy: what the arguments must be. */
#include "cross_entropy.h"

/* The arguments that both directions have. */
typedef struct ce_common {
    const char *op;
    const tg_tensor *logits, *target, *batch_target, *class_weight, *dloss, *lse, *dlogits;
    int64_t ignore_index;
    vocab_slice slice;
} ce_common;

static tg_status check_common(const ce_common *c, double smoothing, double softcap,
                              int64_t reduction, const slice_refusal *whole, int count)
{
    TG_TRY(tg_expect_rows(c->op, "logits", c->logits));
    const int64_t classes = c->logits->shape[c->logits->ndim - 1];
    int64_t rows = 1;
    for (int i = 0; i < c->logits->ndim - 1; i++)
        rows *= c->logits->shape[i];
    const char *what = "the number of rows of logits";
    TG_TRY(tg_expect_numel(c->op, "target", c->target, rows, what));
    TG_TRY(tg_expect_vector(c->op, "class_weight", c->class_weight, classes,
                            "the last dimension of logits"));
    if (reduction == TG_NONE)
        TG_TRY(tg_expect_numel(c->op, "dloss", c->dloss, rows, what));
    else
        TG_TRY(tg_expect_numel(c->op, "dloss", c->dloss, 1, "one for a reduced loss"));
    TG_TRY(tg_expect_numel(c->op, "lse", c->lse, rows, what));
    TG_TRY(tg_expect_f64(c->op, "label_smoothing", smoothing, 0, 1));
    if (softcap != 0)
        TG_TRY(tg_expect_positive(c->op, "softcap", softcap));
    TG_TRY(tg_expect_gradient(c->op, "dlogits", c->dlogits, "logits", c->logits));
    TG_TRY(slice_expect(c->op, c->slice, classes, whole, count));
    const int64_t vocab = slice_vocab(c->slice, classes);
    if (c->batch_target)
        TG_TRY(tg_expect_indices(c->op, "batch_target", c->batch_target, vocab, &c->ignore_index));
    return tg_expect_indices(c->op, "target", c->target, vocab, &c->ignore_index);
}

tg_status tg_check_cross_entropy_forward(const tg_cross_entropy_forward_args *a)
{
    static const char op[] = "cross_entropy_forward";
    const ce_common c = {op,       a->logits, a->target,  a->batch_target, a->class_weight,
                         a->dloss, a->lse,    a->dlogits, a->ignore_index, CE_SLICE(a)};
    const slice_refusal whole[] = {{"class_weight", a->class_weight != NULL},
                                   {"token_scaling", a->token_scaling != 0},
                                   {"z_loss", a->z_loss != NULL},
                                   {"accuracy", a->accuracy != NULL},
                                   {"predicted", a->predicted != NULL},
                                   {"dlogits", a->dlogits != NULL}};
    const int each = a->reduction == TG_NONE;
    const int64_t n = each ? tg_numel(a->target) : 1;
    const char *what = each ? "the number of rows of logits" : "one for a reduced loss";
    TG_TRY(tg_expect_numel(op, "loss", a->loss, n, what));
    TG_TRY(tg_expect_numel(op, "z_loss", a->z_loss, n, what));
    TG_TRY(tg_expect_numel(op, "accuracy", a->accuracy, n, what));
    TG_TRY(tg_expect_numel(op, "predicted", a->predicted, tg_numel(a->target),
                           "the number of rows of logits"));
    return check_common(&c, a->label_smoothing, a->softcap, a->reduction, whole,
                        sizeof whole / sizeof *whole);
}

tg_status tg_check_cross_entropy_backward(const tg_cross_entropy_backward_args *a)
{
    const ce_common c = {"cross_entropy_backward", a->logits,  a->target, a->batch_target,
                         a->class_weight,          a->dloss,   a->lse,    a->dlogits,
                         a->ignore_index,          CE_SLICE(a)};
    const slice_refusal whole[] = {{"class_weight", a->class_weight != NULL},
                                   {"token_scaling", a->token_scaling != 0}};
    return check_common(&c, a->label_smoothing, a->softcap, a->reduction, whole,
                        sizeof whole / sizeof *whole);
}
