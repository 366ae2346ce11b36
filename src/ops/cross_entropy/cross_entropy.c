/* cross_entropy: what its shapes do not say of the arguments. */
#include "cross_entropy.h"

/* The arguments that both directions have. */
typedef struct ce_common {
    const char *op;
    const tg_tensor *logits, *target, *batch_target, *dlogits;
    int64_t ignore_index;
    double smoothing, softcap;
    vocab_slice slice;
} ce_common;

#define CE_COMMON(a)                                                                               \
    .logits = (a)->logits, .target = (a)->target, .batch_target = (a)->batch_target,               \
    .dlogits = (a)->dlogits, .ignore_index = (a)->ignore_index, .smoothing = (a)->label_smoothing, \
    .softcap = (a)->softcap, .slice = CE_SLICE(a)

static tg_status check(const ce_common *c, const slice_refusal *whole, int count)
{
    const int64_t classes = c->logits->shape[c->logits->ndim - 1];
    TG_TRY(tg_expect_f64(c->op, "label_smoothing", c->smoothing, 0, 1));
    if (c->softcap != 0)
        TG_TRY(tg_expect_positive(c->op, "softcap", c->softcap));
    TG_TRY(tg_expect_gradient(c->op, "dlogits", c->dlogits, "logits", c->logits));
    TG_TRY(slice_expect(c->op, c->slice, classes, whole, count));
    const int64_t vocab = slice_vocab(c->slice, classes);
    if (c->batch_target)
        TG_TRY(tg_expect_indices(c->op, "batch_target", c->batch_target, vocab, &c->ignore_index));
    return tg_expect_indices(c->op, "target", c->target, vocab, &c->ignore_index);
}

tg_status tg_check_cross_entropy_forward(const tg_cross_entropy_forward_args *a)
{
    const ce_common c = {.op = "cross_entropy_forward", CE_COMMON(a)};
    const slice_refusal whole[] = {{"class_weight", a->class_weight != NULL},
                                   {"token_scaling", a->token_scaling != 0},
                                   {"z_loss", a->z_loss != NULL},
                                   {"accuracy", a->accuracy != NULL},
                                   {"predicted", a->predicted != NULL},
                                   {"dlogits", a->dlogits != NULL}};
    return check(&c, whole, sizeof whole / sizeof *whole);
}

tg_status tg_check_cross_entropy_backward(const tg_cross_entropy_backward_args *a)
{
    const ce_common c = {.op = "cross_entropy_backward", CE_COMMON(a)};
    const slice_refusal whole[] = {{"class_weight", a->class_weight != NULL},
                                   {"token_scaling", a->token_scaling != 0}};
    return check(&c, whole, sizeof whole / sizeof *whole);
}
