/* grpo_loss and selective_log_softmax as an eager framework runs them: logits / temperature,
 * log_softmax and a gather, in f32, then one step a term of the loss over tensors [B,L]. Those small
 * steps are loops here. */
#include <math.h>

#include "eager/eager.h"
#include "grpo_loss_steps.h"

/* Matrices [B L, V] of f32; a token is a row. */
typedef struct softmax_steps {
    eager e;
    grpo_logits logits;
    grpo_plane target, mask;
    int64_t batch, length, rows;
    double temperature;
    mat x; /* logits / temperature */
} softmax_steps;

static mat matrix(softmax_steps *s)
{
    return eager_new(&s->e, TG_F32, s->rows, s->logits.n);
}

static mat column(softmax_steps *s)
{
    return eager_new(&s->e, TG_F32, s->rows, 1);
}

static float *at(mat m)
{
    return m.data;
}

/* Rows [first, first + rows) of sequence b. */
static mat sequence(const grpo_logits *x, int64_t b, int64_t first, int64_t rows)
{
    char *data = x->data + grpo_row(x, b, first) * (int64_t)tg_type_size(x->type);
    return eager_view(data, x->type, rows, x->n, x->by_row);
}

static mat tokens_of(const softmax_steps *s, mat m, int64_t b)
{
    return eager_view(at(m) + b * s->length * s->logits.n, TG_F32, s->length, s->logits.n,
                      s->logits.n);
}

static softmax_steps begin(tg_ctx *ctx, const tg_tensor *logits, const tg_tensor *target,
                           const tg_tensor *mask, double temperature)
{
    softmax_steps s = {.e = eager_begin(ctx),
                       .logits = grpo_logits_of(logits),
                       .target = grpo_plane_of(target),
                       .mask = grpo_plane_of(mask),
                       .batch = target->shape[0],
                       .length = target->shape[1],
                       .temperature = temperature};
    s.rows = s.batch * s.length;
    s.x = matrix(&s);
    for (int64_t b = 0; b < s.batch; b++)
        eager_scalar(&s.e, EAGER_DIV, tokens_of(&s, s.x, b), sequence(&s.logits, b, 0, s.length),
                     temperature);
    return s;
}

static int64_t target_of(const softmax_steps *s, int64_t r)
{
    return grpo_class(&s->target, r / s->length, r % s->length);
}

static int kept(const softmax_steps *s, int64_t r)
{
    return grpo_kept(&s->mask, r / s->length, r % s->length);
}

/* Columns logp and lse, both 0 where mask is. */
static void log_softmax(softmax_steps *s, mat logp, mat lse)
{
    const mat max = column(s), shifted = matrix(s), power = matrix(s), sum = column(s);
    eager_reduce_rows(&s->e, EAGER_MAX, max, s->x);
    eager_binary(&s->e, EAGER_SUB, shifted, s->x, max);
    eager_unary(&s->e, EAGER_EXP, power, shifted);
    eager_reduce_rows(&s->e, EAGER_SUM, sum, power);
    const mat log_sum = column(s);
    eager_unary(&s->e, EAGER_LOG, log_sum, sum);
    eager_binary(&s->e, EAGER_ADD, lse, max, log_sum);
    eager_binary(&s->e, EAGER_SUB, power, shifted, log_sum);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++) {
        if (eager_all_minus_inf(s->x, r))
            at(lse)[r] = -INFINITY;
        if (!kept(s, r))
            at(lse)[r] = 0;
        at(logp)[r] = kept(s, r) ? at(power)[r * s->logits.n + target_of(s, r)] : 0;
    }
    eager_free(&s->e, shifted);
    eager_free(&s->e, power);
}

/* dlogits = (onehot dlogp - p sum(onehot dlogp)) / temperature, p = exp(x - lse) */
static void gradient(softmax_steps *s, mat lse, mat dlogp, const tg_tensor *dlogits)
{
    const grpo_logits out = grpo_logits_of(dlogits);
    const mat log_p = matrix(s), p = matrix(s), d = matrix(s), sum = column(s);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        if (!kept(s, r))
            at(lse)[r] = INFINITY; /* p = 0; what is saved there says nothing */
    eager_binary(&s->e, EAGER_SUB, log_p, s->x, lse);
    eager_unary(&s->e, EAGER_EXP, p, log_p);
    eager_fill(&s->e, d, 0);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        if (kept(s, r))
            at(d)[r * s->logits.n + target_of(s, r)] = at(dlogp)[r];
    eager_reduce_rows(&s->e, EAGER_SUM, sum, d);
    eager_binary(&s->e, EAGER_MUL, log_p, p, sum);
    eager_binary(&s->e, EAGER_SUB, p, d, log_p);
    for (int64_t b = 0; b < s->batch; b++) {
        eager_scalar(&s->e, EAGER_DIV, sequence(&out, b, 0, s->length), tokens_of(s, p, b),
                     s->temperature);
        eager_fill(&s->e, sequence(&out, b, s->length, out.rows - s->length), 0);
    }
}

/* A [B,L] tensor from or to a column. */
static void read_plane(softmax_steps *s, mat column, const tg_tensor *t)
{
    const grpo_plane p = grpo_plane_of(t);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        at(column)[r] = kept(s, r) ? (float)grpo_get(&p, r / s->length, r % s->length, 0) : 0;
}

static void write_plane(softmax_steps *s, const tg_tensor *t, mat column)
{
    const grpo_plane p = grpo_plane_of(t);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        grpo_put(&p, r / s->length, r % s->length, at(column)[r]);
}

static tg_status select_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    softmax_steps s = begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = column(&s), lse = column(&s);
    log_softmax(&s, logp, lse);
    write_plane(&s, args->logp, logp);
    write_plane(&s, args->lse, lse);
    return eager_end(&s.e);
}

static tg_status select_backward(tg_ctx *ctx, const tg_selective_log_softmax_backward_args *args)
{
    softmax_steps s = begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat dlogp = column(&s), lse = column(&s);
    read_plane(&s, dlogp, args->dlogp);
    read_plane(&s, lse, args->lse);
    gradient(&s, lse, dlogp, args->dlogits);
    return eager_end(&s.e);
}

/* ---- grpo_loss ---- */

/* All tokens up to their losses and derivatives. */
static step_token *loss_steps(softmax_steps *s, const grpo *g, mat logp)
{
    step_token *t = tg_workspace(s->e.ctx, (size_t)s->rows * sizeof *t + 1);
    if (!t)
        s->e.status = TG_ENOMEM;
    if (s->e.status)
        return NULL;
    step_inputs(g, t, s->rows, at(logp));
    step_policy(g, t, s->rows);
    step_kl(g, t, s->rows);
    return t;
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = column(&s), lse = column(&s);
    log_softmax(&s, logp, lse);
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    const grpo_plane loss = grpo_plane_of(args->loss), kl = grpo_plane_of(args->kl);
    const grpo_plane clipped = grpo_plane_of(args->clipped);
    step_losses(&g, t, s.rows, &loss, &kl, &clipped);
    write_plane(&s, args->lse, lse);
    return eager_end(&s.e);
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = column(&s), lse = column(&s);
    read_plane(&s, lse, args->lse);
    for (int64_t r = 0; r < s.rows && !s.e.status; r++)
        if (kept(&s, r))
            at(logp)[r] = at(s.x)[r * s.logits.n + target_of(&s, r)] - at(lse)[r];
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    const grpo_plane dloss = grpo_plane_of(args->dloss);
    step_gradients(&g, t, s.rows, &dloss, at(logp));
    gradient(&s, lse, logp, args->dlogits);
    return eager_end(&s.e);
}

TG_UNFUSED_IMPLS(grpo_loss) = {TG_UNFUSED_IMPL(selective_log_softmax_forward, select_forward),
                               TG_UNFUSED_IMPL(selective_log_softmax_backward, select_backward),
                               TG_UNFUSED_IMPL(grpo_loss_forward, loss_forward),
                               TG_UNFUSED_IMPL(grpo_loss_backward, loss_backward), TG_IMPLS_END};
