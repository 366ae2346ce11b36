/* selective_log_softmax as an eager framework runs it: logits / temperature, log_softmax and
 * a gather, in f32. */
#include <math.h>

#include "selective_log_softmax.h"

static mat matrix(softmax_steps *s)
{
    return eager_new(&s->e, TG_F32, s->rows, s->classes);
}

mat softmax_column(softmax_steps *s)
{
    return eager_new(&s->e, TG_F32, s->rows, 1);
}

/* Rows [first, first + rows) of sequence b of a tensor [B,S,V]. */
static mat sequence(const tg_tensor *t, int64_t b, int64_t first, int64_t rows)
{
    const int64_t at = b * tg_stride(t, 0) + first * tg_stride(t, 1);
    return eager_view(element_at(tg_data(t), tg_type_of(t), at), tg_type_of(t), rows, t->shape[2],
                      tg_stride(t, 1));
}

static mat tokens_of(const softmax_steps *s, mat m, int64_t b)
{
    return eager_view(softmax_at(m) + b * s->length * s->classes, TG_F32, s->length, s->classes,
                      s->classes);
}

softmax_steps softmax_begin(tg_ctx *ctx, const tg_tensor *logits, const tg_tensor *target,
                            const tg_tensor *mask, double temperature)
{
    softmax_steps s = {.e = eager_begin(ctx),
                       .logits = logits,
                       .classes = logits->shape[2],
                       .target = plane_of(target),
                       .mask = plane_of(mask),
                       .batch = target->shape[0],
                       .length = target->shape[1],
                       .temperature = temperature};
    s.rows = s.batch * s.length;
    s.x = matrix(&s);
    for (int64_t b = 0; b < s.batch; b++)
        eager_scalar(&s.e, EAGER_DIV, tokens_of(&s, s.x, b), sequence(logits, b, 0, s.length),
                     temperature);
    return s;
}

int64_t softmax_target(const softmax_steps *s, int64_t r)
{
    return plane_class(&s->target, r / s->length, r % s->length);
}

int softmax_kept(const softmax_steps *s, int64_t r)
{
    return plane_kept(&s->mask, r / s->length, r % s->length);
}

void softmax_forward(softmax_steps *s, mat logp, mat lse)
{
    const mat max = softmax_column(s), shifted = matrix(s), power = matrix(s),
              sum = softmax_column(s);
    eager_reduce_rows(&s->e, EAGER_MAX, max, s->x);
    eager_binary(&s->e, EAGER_SUB, shifted, s->x, max);
    eager_unary(&s->e, EAGER_EXP, power, shifted);
    eager_reduce_rows(&s->e, EAGER_SUM, sum, power);
    const mat log_sum = softmax_column(s);
    eager_unary(&s->e, EAGER_LOG, log_sum, sum);
    eager_binary(&s->e, EAGER_ADD, lse, max, log_sum);
    eager_binary(&s->e, EAGER_SUB, power, shifted, log_sum);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++) {
        if (eager_all_minus_inf(s->x, r))
            softmax_at(lse)[r] = -INFINITY;
        if (!softmax_kept(s, r))
            softmax_at(lse)[r] = 0;
        softmax_at(logp)[r] =
            softmax_kept(s, r) ? softmax_at(power)[r * s->classes + softmax_target(s, r)] : 0;
    }
    eager_free(&s->e, shifted);
    eager_free(&s->e, power);
}

void softmax_gradient(softmax_steps *s, mat lse, mat dlogp, const tg_tensor *dlogits)
{
    const mat log_p = matrix(s), p = matrix(s), d = matrix(s), sum = softmax_column(s);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        if (!softmax_kept(s, r))
            softmax_at(lse)[r] = INFINITY; /* p = 0; what is saved there says nothing */
    eager_binary(&s->e, EAGER_SUB, log_p, s->x, lse);
    eager_unary(&s->e, EAGER_EXP, p, log_p);
    eager_fill(&s->e, d, 0);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        if (softmax_kept(s, r))
            softmax_at(d)[r * s->classes + softmax_target(s, r)] = softmax_at(dlogp)[r];
    eager_reduce_rows(&s->e, EAGER_SUM, sum, d);
    eager_binary(&s->e, EAGER_MUL, log_p, p, sum);
    eager_binary(&s->e, EAGER_SUB, p, d, log_p);
    for (int64_t b = 0; b < s->batch; b++) {
        eager_scalar(&s->e, EAGER_DIV, sequence(dlogits, b, 0, s->length), tokens_of(s, p, b),
                     s->temperature);
        eager_fill(&s->e, sequence(dlogits, b, s->length, dlogits->shape[1] - s->length), 0);
    }
}

void softmax_read(softmax_steps *s, mat column, const tg_tensor *t)
{
    const plane p = plane_of(t);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        softmax_at(column)[r] =
            softmax_kept(s, r) ? (float)plane_get(&p, r / s->length, r % s->length, 0) : 0;
}

void softmax_write(softmax_steps *s, const tg_tensor *t, mat column)
{
    const plane p = plane_of(t);
    for (int64_t r = 0; r < s->rows && !s->e.status; r++)
        plane_put(&p, r / s->length, r % s->length, softmax_at(column)[r]);
}

static tg_status select_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = softmax_column(&s), lse = softmax_column(&s);
    softmax_forward(&s, logp, lse);
    softmax_write(&s, args->logp, logp);
    softmax_write(&s, args->lse, lse);
    return eager_end(&s.e);
}

static tg_status select_backward(tg_ctx *ctx, const tg_selective_log_softmax_backward_args *args)
{
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat dlogp = softmax_column(&s), lse = softmax_column(&s);
    softmax_read(&s, dlogp, args->dlogp);
    softmax_read(&s, lse, args->lse);
    softmax_gradient(&s, lse, dlogp, args->dlogits);
    return eager_end(&s.e);
}

UNFUSED_IMPLS(selective_log_softmax) = {
    UNFUSED_IMPL(selective_log_softmax_forward, select_forward),
    UNFUSED_IMPL(selective_log_softmax_backward, select_backward), TG_IMPLS_END};
