/* products.h - the products of linear layers: in the type of parameters and activations, or, those
 * of the layers with --products fp8, of numbers of 8 bits. */
#ifndef LLAMA_PRODUCTS_H
#define LLAMA_PRODUCTS_H

#include "model.h"

/* Memory for what --products fp8 multiplies. */
void products_open(model *m);

/* out = x w^T */
void product(model *m, const array *x, const weight *w, array *out);
/* Of out = x w^T: the gradient of w is dout^T x, added to what is there with `accumulate`. */
void product_dw(model *m, const array *dout, const array *x, weight *w, int accumulate);
/* Of out = x w^T: the gradient of x is dout w. */
void product_dx(model *m, const array *dout, const weight *w, array *dx);

#endif
