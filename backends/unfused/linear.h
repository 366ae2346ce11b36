/* linear.h - the linear layer before a loss, as an eager framework runs it: a product forward, and
 * one for each gradient. */
#ifndef UNFUSED_LINEAR_H
#define UNFUSED_LINEAR_H

#include "eager.h"

/* x weight^T in f32, where frameworks compute their losses. */
mat linear_logits(eager *e, const tg_tensor *x, const tg_tensor *weight);

/* scale (x weight^T + bias), likewise; bias may be NULL. */
mat linear_outputs(eager *e, const tg_tensor *x, const tg_tensor *weight, const tg_tensor *bias,
                   double scale);

/* The type that gradients of logits keep. f16 has too few exponents for those of a mean: without a
 * scaled loss they stay in f32, and so do the products with them. */
int linear_gradient_type(const tg_tensor *x);

/* to = dlogits other, or dlogits^T other: a product into fresh memory, which then goes, or is
 * added, to where it belongs. */
void linear_gradient(eager *e, mat dlogits, int trans, const tg_tensor *other, const tg_tensor *to,
                     int64_t accumulate);

/* All that are asked for: dx, dweight and dbias may be NULL; accumulate is of the last two. */
void linear_gradients(eager *e, mat dlogits, const tg_tensor *x, const tg_tensor *weight,
                      const tg_tensor *dx, const tg_tensor *dweight, const tg_tensor *dbias,
                      int64_t accumulate);

#endif
