/* products.h - the products of linear layers: in the type of parameters and activations, or, those
 * of the layers with --products fp8, of numbers of 8 bits. */
#ifndef LLAMA_PRODUCTS_H
#define LLAMA_PRODUCTS_H

#include "model.h"

/* Whether the products of the layers are of 8 bits. What norms and gates before them give is then
 * not kept for the backward pass, but those of experts. */
int products_in_eight(const options *o);
/* Memory for what --products fp8 multiplies. */
void products_open(model *m);

/* out = x w^T */
void product(model *m, const array *x, const weight *w, array *out);
/* Of out = x w^T: the gradient of w is dout^T x, added to what is there with `accumulate`. */
void product_dw(model *m, const array *dout, const array *x, weight *w, int accumulate);
/* Of out = x w^T: the gradient of x is dout w. */
void product_dx(model *m, const array *dout, const weight *w, array *dx);
/* Both gradients. dx may lie in the place of x. */
void product_back(model *m, const array *dout, const array *x, weight *w, array *dx,
                  int accumulate);

/* A norm of the stream, which becomes s = stream + y; stream NULL: s is there already. rstd NULL:
 * so is what backward needs. */
typedef struct norm {
    const array *stream;
    const weight *weight;
    array *s, *rstd;
} norm;

/* normed = norm of s */
void norm_forward(model *m, const norm *n, array *normed);
/* out = norm w^T. With products of 8 bits normed is not written; `norm_product_back` finds it
 * again. */
void norm_product(model *m, const norm *n, array *normed, const weight *w, array *out);
void norm_product_back(model *m, const array *dout, const norm *n, const array *normed, weight *w,
                       array *dx, int accumulate);
/* out = swiglu(gate, up) wdown^T; from the gradient of out those of wdown and wgate_up, and dx,
 * that of the norm n which wgate_up multiplies. */
void gate_product(model *m, layer *l, array *out);
void gate_product_back(model *m, const array *dout, layer *l, const norm *n, array *dx,
                       int accumulate);

#endif
