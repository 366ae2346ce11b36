/* products.c - the products of linear layers, and the norms and gates that some of them begin with.
 *
 * With --products fp8 both factors of a layer's product become numbers of 8 bits just before it,
 * in memory that all products share: activations and gradients with a scale for each 128 along the
 * sum, matrices with one for each 128 x 128. A norm or a gate before a product writes these numbers
 * itself, and a gradient that two products read is quantised once for both. Results, and all else,
 * are as without it. The table of the embedding and the output's matrix keep their type. */
#include "products.h"

enum { BLOCK = 128 };

/* Numbers of 8 bits and their scales. */
typedef struct factor {
    char *data, *scale;
} factor;

struct eight {
    factor a, b;
    factor turned; /* of the gradient of a layer's result */
    factor gates;  /* of those of gate and up */
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

int products_in_eight(const options *o)
{
    return !strcmp(o->products, "fp8");
}

void products_open(model *m)
{
    const options *o = m->o;
    if (!products_in_eight(o))
        return;
    const int64_t ff = o->experts ? 0 : o->ff, in = larger(larger(o->width, m->inner), ff);
    const int64_t out = larger(o->width, m->qkv_width), widest = larger(larger(in, out), 2 * ff);
    const int64_t matrix =
        larger(larger(o->width * m->qkv_width, o->width * m->inner), 2 * ff * o->width);
    m->eight = take_memory(sizeof(*m->eight));
    m->eight->a = take_factor(m->r, m->rows * widest, larger(m->rows, widest));
    m->eight->b = take_factor(m->r, larger(matrix, m->rows * in), widest);
    const int64_t apart = ff % BLOCK ? 2 * ff : 0; /* gradients of gate and up, like any others */
    m->eight->turned = take_factor(m->r, m->rows * larger(out, apart), larger(out, apart));
    m->eight->gates = take_factor(m->r, m->rows * (2 * ff - apart), 2 * ff - apart);
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

/* A factor of numbers that a call writes; `square`: with a scale for each 128 x 128. */
static void set_operand(model *m, operand *to, const factor *f, int64_t rows, int64_t terms,
                        int square)
{
    array_set(m, &to->q, f->data, TG_F8E4M3, 2, (int64_t[]){rows, terms});
    array_set(m, &to->scale, f->scale, TG_F32, 2,
              (int64_t[]){(terms + BLOCK - 1) / BLOCK, square ? (rows + BLOCK - 1) / BLOCK : rows});
}

/* From x, or from its transpose. */
static void quantize(model *m, const array *x, int transposed, int square, const factor *f,
                     operand *to)
{
    set_operand(m, to, f, x->t.shape[transposed], x->t.shape[!transposed], square);
    if (transposed)
        CALL(m->r, quantize_block, .x = &x->t, .qt = &to->q.t, .scale_t = &to->scale.t,
             .square = square);
    else
        CALL(m->r, quantize_block, .x = &x->t, .q = &to->q.t, .scale = &to->scale.t,
             .square = square);
}

/* The gradient of a layer's result, for both of its products. */
static void quantize_both(model *m, const array *dout, operand *along, operand *across)
{
    const int64_t rows = dout->t.shape[0], columns = dout->t.shape[1];
    set_operand(m, along, &m->eight->a, rows, columns, 0);
    set_operand(m, across, &m->eight->turned, columns, rows, 0);
    CALL(m->r, quantize_block, .x = &dout->t, .q = &along->q.t, .scale = &along->scale.t,
         .qt = &across->q.t, .scale_t = &across->scale.t);
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

void product_back(model *m, const array *dout, const array *x, weight *w, array *dx, int accumulate)
{
    operand along, across, b;
    if (!in_eight(m, w)) {
        product_dw(m, dout, x, w, accumulate);
        product_dx(m, dout, w, dx);
        return;
    }
    quantize_both(m, dout, &along, &across);
    quantize(m, x, 1, 0, &m->eight->b, &b);
    multiply(m, &across, &b, &w->g.t, accumulate);
    quantize(m, &w->p, 1, 1, &m->eight->b, &b);
    multiply(m, &along, &b, &dx->t, 0);
}

/* ---- of a norm ---- */

static tg_tensor *rstd_of(const norm *n)
{
    return n->rstd ? &n->rstd->t : NULL;
}

void norm_forward(model *m, const norm *n, array *normed)
{
    if (n->stream)
        CALL(m->r, fused_add_rms_norm_forward, .x = &m->y.t, .residual = &n->stream->t,
             .weight = &n->weight->p.t, .y = &normed->t, .s = &n->s->t, .rstd = &n->rstd->t,
             .eps = TG_VALUE(m->o->eps));
    else
        CALL(m->r, rms_norm_forward, .x = &n->s->t, .weight = &n->weight->p.t, .y = &normed->t,
             .rstd = rstd_of(n), .eps = TG_VALUE(m->o->eps));
}

void norm_product(model *m, const norm *n, array *normed, const weight *w, array *out)
{
    operand a, b;
    if (!in_eight(m, w)) {
        norm_forward(m, n, normed);
        product(m, normed, w, out);
        return;
    }
    set_operand(m, &a, &m->eight->a, n->s->t.shape[0], n->s->t.shape[1], 0);
    CALL(m->r, quantize_rms_norm, .x = n->stream ? &m->y.t : &n->s->t,
         .residual = n->stream ? &n->stream->t : NULL, .weight = &n->weight->p.t,
         .s = n->stream ? &n->s->t : NULL, .rstd = rstd_of(n), .q = &a.q.t, .scale = &a.scale.t,
         .eps = TG_VALUE(m->o->eps));
    quantize(m, &w->p, 0, 1, &m->eight->b, &b);
    multiply(m, &a, &b, &out->t, 0);
}

/* What was multiplied, across its rows: of a norm that was not kept. */
static void norm_across(model *m, const norm *n, operand *to)
{
    set_operand(m, to, &m->eight->b, n->s->t.shape[1], n->s->t.shape[0], 0);
    CALL(m->r, quantize_rms_norm, .x = &n->s->t, .weight = &n->weight->p.t, .qt = &to->q.t,
         .scale_t = &to->scale.t, .eps = TG_VALUE(m->o->eps));
}

void norm_product_back(model *m, const array *dout, const norm *n, const array *normed, weight *w,
                       array *dx, int accumulate)
{
    operand along, across, b;
    if (!in_eight(m, w)) {
        product_dw(m, dout, normed, w, accumulate);
        product_dx(m, dout, w, dx);
        return;
    }
    quantize_both(m, dout, &along, &across);
    norm_across(m, n, &b);
    multiply(m, &across, &b, &w->g.t, accumulate);
    quantize(m, &w->p, 1, 1, &m->eight->b, &b);
    multiply(m, &along, &b, &dx->t, 0);
}

/* ---- of a gate ---- */

void gate_product(model *m, layer *l, array *out)
{
    operand a, b;
    if (!m->eight) {
        CALL(m->r, swiglu_forward, .gate = &l->gate.t, .up = &l->up.t, .y = &l->h.t);
        product(m, &l->h, &l->wdown, out);
        return;
    }
    set_operand(m, &a, &m->eight->a, l->h.t.shape[0], l->h.t.shape[1], 0);
    CALL(m->r, quantize_swiglu, .gate = &l->gate.t, .up = &l->up.t, .q = &a.q.t,
         .scale = &a.scale.t);
    quantize(m, &l->wdown.p, 0, 1, &m->eight->b, &b);
    multiply(m, &a, &b, &out->t, 0);
}

/* Blocks of 128 hold elements of both gradients, or the products are not of 8 bits. */
static void gate_product_back_apart(model *m, const array *dout, layer *l, const norm *n, array *dx,
                                    int accumulate)
{
    product_dx(m, dout, &l->wdown, &m->h);
    CALL(m->r, swiglu_backward, .dy = &m->h.t, .gate = &l->gate.t, .up = &l->up.t,
         .dgate = &l->gate.t, .dup = &l->up.t,
         .y = m->o->recompute >= RECOMPUTE_SWIGLU || m->eight ? &l->h.t : NULL);
    product_dw(m, dout, &l->h, &l->wdown, accumulate);
    norm_product_back(m, &l->gate_up, n, &l->normed2, &l->wgate_up, dx, accumulate);
}

void gate_product_back(model *m, const array *dout, layer *l, const norm *n, array *dx,
                       int accumulate)
{
    const int64_t rows = dout->t.shape[0], ff = m->o->ff;
    operand along, across, b, gates, gates_across;
    if (!m->eight || ff % BLOCK) {
        gate_product_back_apart(m, dout, l, n, dx, accumulate);
        return;
    }
    quantize_both(m, dout, &along, &across);
    quantize(m, &l->wdown.p, 1, 1, &m->eight->b, &b);
    multiply(m, &along, &b, &m->h.t, 0);
    set_operand(m, &gates, &m->eight->a, rows, 2 * ff, 0);
    set_operand(m, &gates_across, &m->eight->gates, 2 * ff, rows, 0);
    set_operand(m, &b, &m->eight->b, ff, rows, 0);
    CALL(m->r, quantize_swiglu_gradient, .dy = &m->h.t, .gate = &l->gate.t, .up = &l->up.t,
         .q = &gates.q.t, .scale = &gates.scale.t, .qt = &gates_across.q.t,
         .scale_t = &gates_across.scale.t, .yt = &b.q.t, .scale_yt = &b.scale.t);
    multiply(m, &across, &b, &l->wdown.g.t, accumulate);
    norm_across(m, n, &b);
    multiply(m, &gates_across, &b, &l->wgate_up.g.t, accumulate);
    quantize(m, &l->wgate_up.p, 1, 1, &m->eight->b, &b);
    multiply(m, &gates, &b, &dx->t, 0);
}
