/* tvd: what the arguments must be. */
#include "core/services.h"

/* The arguments that both directions have. */
typedef struct tvd_common {
    const char *op;
    const tg_tensor *p, *q, *labels, *dloss, *dp;
    int64_t reduction;
} tvd_common;

/* loss and dloss: one element, or all for TG_NONE. */
static tg_status check_loss(const tvd_common *c, const char *name, const tg_tensor *t)
{
    if (c->reduction != TG_NONE)
        return tg_expect_numel(c->op, name, t, 1, "one for a reduced loss");
    return tg_expect_same_shape(c->op, name, t, "p", c->p);
}

static tg_status check_common(const tvd_common *c)
{
    TG_TRY(tg_expect_rows(c->op, "p", c->p));
    TG_TRY(tg_expect_same_shape(c->op, "q", c->q, "p", c->p));
    TG_TRY(tg_expect_same_shape(c->op, "dp", c->dp, "p", c->p));
    int64_t rows = 1;
    for (int i = 0; i < c->p->ndim - 1; i++)
        rows *= c->p->shape[i];
    TG_TRY(tg_expect_numel(c->op, "labels", c->labels, rows, "the number of rows of p"));
    return check_loss(c, "dloss", c->dloss);
}

tg_status tg_check_tvd_forward(const tg_tvd_forward_args *a)
{
    const tvd_common c = {"tvd_forward", a->p, a->q, a->labels, a->dloss, a->dp, a->reduction};
    TG_TRY(check_common(&c));
    return check_loss(&c, "loss", a->loss);
}

tg_status tg_check_tvd_backward(const tg_tvd_backward_args *a)
{
    const tvd_common c = {"tvd_backward", a->p, a->q, a->labels, a->dloss, a->dp, a->reduction};
    return check_common(&c);
}
