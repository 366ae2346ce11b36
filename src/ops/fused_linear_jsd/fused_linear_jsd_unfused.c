/* fused_linear_jsd as an eager framework runs it: all logits by two products, log_softmax of both and
 * jsd over them in elementary steps, and one product for each gradient. */
#include "eager/eager.h"
#include "fused_linear_jsd.h"

typedef struct eager_fljsd {
    eager e;
    const fljsd *f;
    view x, student, teacher; /* [BT, .] */
    mat sum;                  /* of the student's exponentials */
} eager_fljsd;

static void set_mat(view *v, mat m)
{
    set_view(v, m.data, m.type, m.rows, m.cols, m.stride);
}

/* log_softmax(x weight^T / temperature) in f32, where frameworks compute their loss. */
static tg_status project(eager_fljsd *s, const tg_tensor *x, const tg_tensor *weight, view *out,
                         mat *sum)
{
    const mat rows = eager_rows(x);
    const mat logits = eager_new(&s->e, TG_F32, rows.rows, weight->shape[0]);
    if (s->e.status)
        return eager_end(&s->e);
    view a, c;
    set_mat(&a, rows);
    set_mat(&c, logits);
    TG_TRY(tg_gemm(s->e.ctx, &(tg_gemm_args){.a = &a.t, .b = weight, .c = &c.t, .trans_b = 1}));
    set_mat(out, eager_log_softmax(&s->e, logits, s->f->temperature, sum));
    eager_free(&s->e, logits);
    return eager_end(&s->e);
}

/* The type that gradients of logits keep. f16 has too few exponents for those of a mean: without a scaled
 * loss they stay in f32, and so do the products with them. */
static int gradient_type(const eager_fljsd *s)
{
    const int type = tg_type_of(s->f->x);
    return type == TG_F16 ? TG_F32 : type;
}

/* The matrix in the type of the gradients. */
static const tg_tensor *operand(eager_fljsd *s, view *v, const tg_tensor *t)
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
static tg_status gradient(eager_fljsd *s, const view *dlogits, const tg_tensor *t, int trans_a,
                          const tg_tensor *into, int accumulate)
{
    const mat out = eager_rows(into);
    const mat fresh = eager_new(&s->e, gradient_type(s), out.rows, out.cols);
    view b, c;
    operand(s, &b, t);
    if (s->e.status)
        return eager_end(&s->e);
    set_mat(&c, fresh);
    TG_TRY(tg_gemm(s->e.ctx,
                   &(tg_gemm_args){.a = &dlogits->t, .b = &b.t, .c = &c.t, .trans_a = trans_a}));
    if (accumulate)
        eager_binary(&s->e, EAGER_ADD, out, out, fresh);
    else
        eager_unary(&s->e, EAGER_COPY, out, fresh);
    eager_free(&s->e, fresh);
    return eager_end(&s->e);
}

static tg_status add_gradients(eager_fljsd *s, mat d)
{
    const fljsd *f = s->f;
    const mat by_logits = eager_log_softmax_backward(&s->e, eager_rows(&s->student.t), s->sum, d);
    const mat m = eager_new(&s->e, gradient_type(s), d.rows, d.cols);
    eager_scalar(&s->e, EAGER_DIV, m, by_logits, f->temperature);
    eager_free(&s->e, by_logits);
    if (s->e.status)
        return eager_end(&s->e);
    view dlogits;
    set_mat(&dlogits, m);
    if (f->dx)
        TG_TRY(gradient(s, &dlogits, f->weight, 0, f->dx, 0));
    if (f->dweight)
        TG_TRY(gradient(s, &dlogits, f->x, 1, f->dweight, f->accumulate != 0));
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    eager_fljsd s = {.e = eager_begin(ctx), .f = f};
    TG_TRY(project(&s, f->x, f->weight, &s.student, &s.sum));
    TG_TRY(project(&s, f->teacher_x, f->teacher_weight, &s.teacher, NULL));
    const int gradients = f->dx || f->dweight;
    const mat d = eager_new(&s.e, TG_F32, s.student.shape[0], s.student.shape[1]);
    if (s.e.status)
        return eager_end(&s.e);
    view dstudent;
    set_mat(&dstudent, d);
    float unused;
    int64_t one = 1;
    tg_tensor loss = tg_tensor_of(&unused, TG_F32, 1, &one);
    TG_TRY(tg_jsd_forward(ctx, &(tg_jsd_forward_args){.student = &s.student.t,
                                                      .teacher = &s.teacher.t,
                                                      .labels = f->labels,
                                                      .dloss = f->dloss,
                                                      .loss = f->loss ? f->loss : &loss,
                                                      .dstudent = gradients ? &dstudent.t : NULL,
                                                      .beta = TG_VALUE(f->beta),
                                                      .ignore_index = TG_VALUE(f->ignore_index)}));
    return gradients ? add_gradients(&s, d) : TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_jsd_forward_args *args)
{
    const fljsd f = fljsd_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_jsd_backward_args *args)
{
    const fljsd f = fljsd_backward(args);
    return run(ctx, &f);
}

TG_UNFUSED_IMPLS(fused_linear_jsd) = {TG_UNFUSED_IMPL(fused_linear_jsd_forward, forward),
                                      TG_UNFUSED_IMPL(fused_linear_jsd_backward, backward),
                                      TG_IMPLS_END};
