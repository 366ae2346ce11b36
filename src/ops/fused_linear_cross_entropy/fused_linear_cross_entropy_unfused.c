/* fused_linear_cross_entropy as an eager framework runs it: the whole matrix of logits by one
 * product, cross_entropy over it in elementary steps, and one product for each gradient. */
#include "eager/eager.h"
#include "fused_linear_cross_entropy.h"

typedef struct eager_flce {
    eager e;
    const flce *f;
    int gradients;
    view x, logits, dlogits; /* [BT, .] */
} eager_flce;

static void set_mat(view *v, mat m)
{
    set_view(v, m.data, m.type, m.rows, m.cols, m.stride);
}

/* x as one matrix, and logits = x weight^T + bias in f32, where frameworks compute their loss. */
static tg_status project(eager_flce *s)
{
    const mat x = eager_rows(s->f->x);
    const mat logits = eager_new(&s->e, TG_F32, x.rows, s->f->weight->shape[0]);
    if (s->e.status)
        return eager_end(&s->e);
    set_mat(&s->x, x);
    set_mat(&s->logits, logits);
    TG_TRY(
        tg_gemm(s->e.ctx,
                &(tg_gemm_args){.a = &s->x.t, .b = s->f->weight, .c = &s->logits.t, .trans_b = 1}));
    if (s->f->bias)
        eager_binary(&s->e, EAGER_ADD, logits, logits, eager_vector(s->f->bias));
    return TG_OK;
}

/* The type that gradients of logits keep. f16 has too few exponents for those of a mean: without a scaled loss they stay
 * in f32, and so do the products with them. */
static int gradient_type(const eager_flce *s)
{
    const int type = tg_type_of(s->f->x);
    return type == TG_F16 ? TG_F32 : type;
}

static void give_dlogits(eager_flce *s)
{
    const int64_t *shape = s->logits.shape;
    set_mat(&s->dlogits, eager_new(&s->e, gradient_type(s), shape[0], shape[1]));
}

/* The matrix in the type of the gradients. */
static const tg_tensor *operand(eager_flce *s, view *v, const tg_tensor *t)
{
    mat m = eager_rows(t);
    if (m.type != gradient_type(s)) {
        const mat copy = eager_new(&s->e, gradient_type(s), m.rows, m.cols);
        eager_unary(&s->e, EAGER_COPY, copy, m);
        m = copy;
    }
    set_mat(v, m);
    return &v->t;
}

/* A product into a fresh matrix; then it goes, or is added, to where the gradient belongs. */
static tg_status gradient(eager_flce *s, const view *a, const tg_tensor *b, int trans_a, mat out,
                          int accumulate)
{
    const mat fresh = eager_new(&s->e, tg_type_of(&a->t), out.rows, out.cols);
    if (s->e.status)
        return eager_end(&s->e);
    view c;
    set_mat(&c, fresh);
    TG_TRY(tg_gemm(s->e.ctx, &(tg_gemm_args){.a = &a->t, .b = b, .c = &c.t, .trans_a = trans_a}));
    if (accumulate)
        eager_binary(&s->e, EAGER_ADD, out, out, fresh);
    else
        eager_unary(&s->e, EAGER_COPY, out, fresh);
    eager_free(&s->e, fresh);
    return TG_OK;
}

static tg_status add_gradients(eager_flce *s)
{
    const flce *f = s->f;
    const int keep = f->accumulate != 0;
    view other;
    if (f->dx)
        TG_TRY(gradient(s, &s->dlogits, operand(s, &other, f->weight), 0, eager_rows(f->dx), 0));
    if (f->dweight)
        TG_TRY(
            gradient(s, &s->dlogits, operand(s, &other, &s->x.t), 1, eager_rows(f->dweight), keep));
    if (f->dbias) {
        const mat out = eager_vector(f->dbias), sum = eager_new(&s->e, TG_F32, 1, out.cols);
        eager_sum_columns(&s->e, sum, eager_rows(&s->dlogits.t));
        if (keep)
            eager_binary(&s->e, EAGER_ADD, out, out, sum);
        else
            eager_unary(&s->e, EAGER_COPY, out, sum);
    }
    return eager_end(&s->e);
}

static int wants_gradients(const flce *f)
{
    return f->dx || f->dweight || f->dbias;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args)
{
    const flce f = flce_forward(args);
    eager_flce s = {.e = eager_begin(ctx), .f = &f, .gradients = wants_gradients(&f)};
    TG_TRY(project(&s));
    if (s.gradients)
        give_dlogits(&s);
    if (s.e.status)
        return eager_end(&s.e);
    view target, lse, predicted;
    const int64_t rows = s.x.shape[0];
    TG_TRY(tg_cross_entropy_forward(
        ctx, &(tg_cross_entropy_forward_args){.logits = &s.logits.t,
                                              .target = part(&target, f.target, 0, rows),
                                              .class_weight = f.class_weight,
                                              .dloss = f.dloss,
                                              .loss = f.loss,
                                              .z_loss = f.z_loss,
                                              .lse = part(&lse, f.lse, 0, rows),
                                              .accuracy = f.accuracy,
                                              .predicted = part(&predicted, f.predicted, 0, rows),
                                              .dlogits = s.gradients ? &s.dlogits.t : NULL,
                                              .ignore_index = TG_VALUE(f.ignore_index),
                                              .reduction = f.reduction,
                                              .label_smoothing = f.smoothing,
                                              .lse_square_scale = f.z,
                                              .softcap = f.softcap,
                                              .token_scaling = f.token_scaling}));
    return add_gradients(&s);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args)
{
    const flce f = flce_backward(args);
    eager_flce s = {.e = eager_begin(ctx), .f = &f, .gradients = wants_gradients(&f)};
    TG_TRY(project(&s));
    give_dlogits(&s);
    if (s.e.status)
        return eager_end(&s.e);
    view target, lse;
    const int64_t rows = s.x.shape[0];
    TG_TRY(tg_cross_entropy_backward(
        ctx, &(tg_cross_entropy_backward_args){.logits = &s.logits.t,
                                               .target = part(&target, f.target, 0, rows),
                                               .class_weight = f.class_weight,
                                               .lse = part(&lse, f.saved, 0, rows),
                                               .dloss = f.dloss,
                                               .dlogits = &s.dlogits.t,
                                               .ignore_index = TG_VALUE(f.ignore_index),
                                               .reduction = f.reduction,
                                               .label_smoothing = f.smoothing,
                                               .lse_square_scale = f.z,
                                               .softcap = f.softcap,
                                               .token_scaling = f.token_scaling}));
    return add_gradients(&s);
}

/* All classes: what it stands for knows no slices. */
static int accepts_forward(const tg_fused_linear_cross_entropy_forward_args *args)
{
    return !args->vocab_size;
}

static int accepts_backward(const tg_fused_linear_cross_entropy_backward_args *args)
{
    return !args->vocab_size;
}

TG_UNFUSED_IMPLS(fused_linear_cross_entropy) = {
    TG_UNFUSED_IMPL_IF(fused_linear_cross_entropy_forward, accepts_forward, forward),
    TG_UNFUSED_IMPL_IF(fused_linear_cross_entropy_backward, accepts_backward, backward),
    TG_IMPLS_END};
