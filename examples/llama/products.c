/* products.c - the products of linear layers.
 *
 * With --products fp8 both factors of a layer's product become numbers of 8 bits just before it,
 * in memory that all products share: activations and gradients with a scale for each 128 along the
 * sum, matrices with one for each 128 x 128. Results, and all else, are as without it. The table of
 * the embedding and the output's matrix keep their type. */
#include "products.h"

enum { BLOCK = 128 };

/* Numbers of 8 bits and their scales. */
typedef struct factor {
    char *data, *scale;
} factor;

struct eight {
    factor a, b;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static factor take_factor(run *r, int64_t elements, int64_t rows)
{
    return (factor){take_activations(r, (size_t)elements),
                    take_activations(r, (size_t)(elements / BLOCK + rows) * sizeof(float))};
}

void products_open(model *m)
{
    const options *o = m->o;
    if (strcmp(o->products, "fp8"))
        return;
    const int64_t ff = o->experts ? 0 : o->ff, in = larger(larger(o->width, m->inner), ff);
    const int64_t widest = larger(larger(in, m->qkv_width), 2 * ff);
    const int64_t matrix =
        larger(larger(o->width * m->qkv_width, o->width * m->inner), 2 * ff * o->width);
    m->eight = take_memory(sizeof(*m->eight));
    m->eight->a = take_factor(m->r, m->rows * widest, larger(m->rows, widest));
    m->eight->b = take_factor(m->r, larger(matrix, m->rows * in), widest);
}

/* ---- of 8 bits ---- */

static int in_eight(const model *m, const weight *w)
{
    return m->eight && w != &m->embed && w != &m->head;
}

/* A factor of a product, [rows, terms]. */
typedef struct operand {
    array q, scale;
} operand;

/* From x, or from its transpose. */
static void quantize(model *m, const array *x, int transposed, int square, const factor *f,
                     operand *to)
{
    const int64_t rows = x->t.shape[transposed], terms = x->t.shape[!transposed];
    array_set(m, &to->q, f->data, TG_F8E4M3, 2, (int64_t[]){rows, terms});
    array_set(m, &to->scale, f->scale, TG_F32, 2,
              (int64_t[]){(terms + BLOCK - 1) / BLOCK, square ? (rows + BLOCK - 1) / BLOCK : rows});
    if (transposed)
        CALL(m->r, quantize_block, .x = &x->t, .qt = &to->q.t, .scale_t = &to->scale.t,
             .square = square);
    else
        CALL(m->r, quantize_block, .x = &x->t, .q = &to->q.t, .scale = &to->scale.t,
             .square = square);
}

static void multiply(model *m, const operand *a, const operand *b, tg_tensor *c, int accumulate)
{
    CALL(m->r, gemm_block_scaled, .a = &a->q.t, .scale_a = &a->scale.t, .b = &b->q.t,
         .scale_b = &b->scale.t, .addend = accumulate ? c : NULL, .c = c);
}

/* ---- of either ---- */

void product(model *m, const array *x, const weight *w, array *out)
{
    operand a, b;
    if (!in_eight(m, w)) {
        CALL(m->r, gemm, .a = &x->t, .b = &w->p.t, .c = &out->t, .trans_b = 1);
        return;
    }
    quantize(m, x, 0, 0, &m->eight->a, &a);
    quantize(m, &w->p, 0, 1, &m->eight->b, &b);
    multiply(m, &a, &b, &out->t, 0);
}

void product_dw(model *m, const array *dout, const array *x, weight *w, int accumulate)
{
    operand a, b;
    if (!in_eight(m, w)) {
        CALL(m->r, gemm, .a = &dout->t, .b = &x->t, .c = &w->g.t, .trans_a = 1, .beta = accumulate);
        return;
    }
    quantize(m, dout, 1, 0, &m->eight->a, &a);
    quantize(m, x, 1, 0, &m->eight->b, &b);
    multiply(m, &a, &b, &w->g.t, accumulate);
}

void product_dx(model *m, const array *dout, const weight *w, array *dx)
{
    operand a, b;
    if (!in_eight(m, w)) {
        CALL(m->r, gemm, .a = &dout->t, .b = &w->p.t, .c = &dx->t);
        return;
    }
    quantize(m, dout, 0, 0, &m->eight->a, &a);
    quantize(m, &w->p, 1, 1, &m->eight->b, &b);
    multiply(m, &a, &b, &dx->t, 0);
}
