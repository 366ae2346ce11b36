/* The products of a linear layer. */
#include "linear.h"

mat linear_logits(eager *e, const tg_tensor *x, const tg_tensor *weight)
{
    const mat rows = eager_rows(x), logits = eager_new(e, TG_F32, rows.rows, weight->shape[0]);
    eager_multiply(e, logits, rows, 0, eager_rows(weight), 1, 0);
    return logits;
}

mat linear_outputs(eager *e, const tg_tensor *x, const tg_tensor *weight, const tg_tensor *bias,
                   double scale)
{
    const mat outputs = linear_logits(e, x, weight);
    if (bias)
        eager_binary(e, EAGER_ADD, outputs, outputs, eager_vector(bias));
    if (scale != 1)
        eager_scalar(e, EAGER_MUL, outputs, outputs, scale);
    return outputs;
}

int linear_gradient_type(const tg_tensor *x)
{
    const int type = tg_type_of(x);
    return type == TG_F16 ? TG_F32 : type;
}

void linear_gradient(eager *e, mat dlogits, int trans, const tg_tensor *other, const tg_tensor *to,
                     int64_t accumulate)
{
    const mat out = eager_rows(to), fresh = eager_new(e, dlogits.type, out.rows, out.cols);
    mat operand = eager_rows(other);
    if (operand.type != dlogits.type)
        operand = eager_copy(e, dlogits.type, operand);
    eager_multiply(e, fresh, dlogits, trans, operand, 0, 0);
    eager_put(e, out, fresh, accumulate);
    eager_free(e, fresh);
    eager_free(e, operand); /* if it is a copy */
}

void linear_gradients(eager *e, mat dlogits, const tg_tensor *x, const tg_tensor *weight,
                      const tg_tensor *dx, const tg_tensor *dweight, const tg_tensor *dbias,
                      int64_t accumulate)
{
    if (dx)
        linear_gradient(e, dlogits, 0, weight, dx, 0);
    if (dweight)
        linear_gradient(e, dlogits, 1, x, dweight, accumulate);
    if (dbias)
        eager_gradient(e, eager_vector(dbias), dlogits, accumulate);
}
