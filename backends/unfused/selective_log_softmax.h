/* selective_log_softmax.h - what selective_log_softmax and grpo_loss have in common as an eager
 * framework runs them. */
#ifndef UNFUSED_SELECTIVE_LOG_SOFTMAX_H
#define UNFUSED_SELECTIVE_LOG_SOFTMAX_H

#include "eager.h"
#include "tokens.h"

/* Matrices [B L, V] of f32; a token is a row. */
typedef struct softmax_steps {
    eager e;
    const tg_tensor *logits; /* [B,S,V], S >= L: a sequence may have positions without a token */
    int64_t classes;
    plane target, mask;
    int64_t batch, length, rows;
    double temperature;
    mat x; /* logits / temperature */
} softmax_steps;

static inline float *softmax_at(mat m)
{
    return m.data;
}

softmax_steps softmax_begin(tg_ctx *ctx, const tg_tensor *logits, const tg_tensor *target,
                            const tg_tensor *mask, double temperature);
mat softmax_column(softmax_steps *s);
int64_t softmax_target(const softmax_steps *s, int64_t r);
int softmax_kept(const softmax_steps *s, int64_t r);
/* Columns logp and lse, both 0 where mask is. */
void softmax_forward(softmax_steps *s, mat logp, mat lse);
/* dlogits = (onehot dlogp - p sum(onehot dlogp)) / temperature, p = exp(x - lse) */
void softmax_gradient(softmax_steps *s, mat lse, mat dlogp, const tg_tensor *dlogits);
/* A [B,L] tensor to or from a column. */
void softmax_read(softmax_steps *s, mat column, const tg_tensor *t);
void softmax_write(softmax_steps *s, const tg_tensor *t, mat column);

#endif
