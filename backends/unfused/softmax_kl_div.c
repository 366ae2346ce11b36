/* softmax_kl_div as an eager framework runs it: log_softmax, the divergence and the backward of
 * log_softmax in elementary steps. */
#include "eager.h"

/* The arguments of either direction. */
typedef struct skl {
    const tg_tensor *logits, *target, *dloss;
    tg_tensor *loss, *dlogits;
    const tg_tensor *labels; /* of the batch */
    int64_t ignore_index, reduction;
    int64_t first, batch; /* the first row of logits; rows of the batch, 0 for those of logits */
    double eps, temperature, grad_scale;
} skl;

#define SKL(a, of_loss, of_eps)                                                         \
    (skl)                                                                               \
    {                                                                                   \
        (a)->logits, (a)->target, (a)->dloss, of_loss, (a)->dlogits, (a)->labels,       \
            (a)->ignore_index, (a)->reduction, (a)->first_row, (a)->batch_rows, of_eps, \
            (a)->temperature, (a)->grad_scale                                           \
    }

/* The sum over the rows that count of t (log max(t, eps) - log_p). */
static double divergence(eager *e, mat log_p, mat t, double eps, row_labels labels)
{
    const mat terms = eager_new(e, TG_F32, t.rows, t.cols), sums = eager_new(e, TG_F32, t.rows, 1);
    double sum = 0;
    eager_scalar(e, EAGER_MAX, terms, t, eps);
    eager_unary(e, EAGER_LOG, terms, terms);
    eager_binary(e, EAGER_SUB, terms, terms, log_p);
    eager_binary(e, EAGER_MUL, terms, terms, t);
    eager_reduce_rows(e, EAGER_SUM, sums, terms);
    for (int64_t r = 0; !e->status && r < t.rows; r++)
        sum += row_ignored(labels, r) ? 0 : ((const float *)sums.data)[r];
    eager_free(e, terms);
    return sum;
}

static void gradient(eager *e, mat log_p, mat sum, mat t, mat out, double factor)
{
    const mat d = eager_new(e, TG_F32, t.rows, t.cols);
    eager_unary(e, EAGER_NEG, d, t);
    eager_scalar(e, EAGER_MUL, out, eager_log_softmax_backward(e, log_p, sum, d), factor);
}

static tg_status run(tg_ctx *ctx, const skl *f)
{
    eager e = eager_begin(ctx);
    mat sum;
    const mat log_p = eager_log_softmax(&e, eager_rows(f->logits), f->temperature, &sum);
    const mat t = eager_wide(&e, eager_rows(f->target));
    view part;
    const row_labels all = labels_of(f->labels, f->ignore_index);
    const row_labels own =
        labels_of(eager_part(&part, f->labels, f->first, t.rows), f->ignore_index);
    const double scale = reduction_scale(all, f->reduction, f->batch ? f->batch : t.rows, t.cols);
    if (f->loss) {
        const double loss = divergence(&e, log_p, t, f->eps, own) * scale;
        if (!e.status)
            *(float *)tg_data(f->loss) = (float)loss;
    }
    if (f->dlogits) {
        const double dloss = f->dloss ? *(const float *)tg_data(f->dloss) : 1;
        gradient(&e, log_p, sum, t, eager_rows(f->dlogits),
                 dloss * scale * f->grad_scale / f->temperature);
        eager_drop_rows(&e, own, eager_rows(f->dlogits));
    }
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args)
{
    return run(ctx, &SKL(args, args->loss, args->eps));
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_kl_div_backward_args *args)
{
    return run(ctx, &SKL(args, NULL, 0));
}

UNFUSED_IMPLS(softmax_kl_div) = {UNFUSED_IMPL(softmax_kl_div_forward, forward),
                                 UNFUSED_IMPL(softmax_kl_div_backward, backward), TG_IMPLS_END};
