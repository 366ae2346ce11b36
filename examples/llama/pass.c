/* pass.c - the model itself: forward, loss, backward. Only calls of operators, but for what ranks
 * of a ring say to each other. */
#include "experts.h"
#include "model.h"
#include "products.h"
#include "ring.h"

/* The gradient of the stream below a norm: through the norm from dy, around it from ds. */
static void add_norm_back(model *m, const array *dy, const array *ds, const array *s,
                          const array *rstd, weight *norm, array *dx, int accumulate)
{
    CALL(m->r, fused_add_rms_norm_backward, .dy = &dy->t, .ds = ds ? &ds->t : NULL, .s = &s->t,
         .weight = &norm->p.t, .rstd = &rstd->t, .dx = &dx->t, .dweight = &norm->g.t,
         .accumulate = accumulate);
}

/* What is before layer i; i = layers: the output. */
static norm first_norm(const model *m, int64_t i)
{
    return (norm){i ? &m->layers[i - 1].s2 : NULL, &m->norm1[i], &m->s1[i], &m->rstd1[i]};
}

/* What is between attention and feed-forward part. */
static norm second_norm(const model *m, int64_t i)
{
    layer *l = &m->layers[i];
    return (norm){&m->s1[i], &l->norm2, &l->s2, &l->rstd2};
}

/* The norm once more, if what it gave was not kept. */
static void norm_again(model *m, const norm *n, array *normed)
{
    const norm again = {NULL, n->weight, n->s, NULL};
    if (m->o->recompute >= RECOMPUTE_NORMS)
        norm_forward(m, &again, normed);
}

/* Rotary tables: a row for each position, or for each place. */
static const tg_tensor *cosine(const model *m)
{
    return m->what == WHOLE ? &m->cosine.t : &m->row_cosine.t;
}

static const tg_tensor *sine(const model *m)
{
    return m->what == WHOLE ? &m->sine.t : &m->row_sine.t;
}

static const tg_tensor *documents(const model *m)
{
    return m->what == PACKED ? &m->begin.t : NULL;
}

/* Where documents begin, and the rotary tables' rows for the position of each place. */
static void place_rows(model *m)
{
    if (m->what == PACKED)
        to_device(m->r, m->begin_data, (size_t)m->begin.shape[0] * sizeof(*m->begin_data));
    for (int i = 0; m->what == SHARED && m->o->pack && i < 4; i++) {
        const array *cut = &m->cuts[i / 2][i % 2];
        to_device(m->r, m->cuts_data[i / 2][i % 2], (size_t)cut->shape[0] * sizeof(int64_t));
    }
    to_device(m->r, m->position_data, (size_t)tg_numel(&m->position.t) * sizeof(int64_t));
    CALL(m->r, embedding_forward, .weight = &m->cosine.t, .indices = &m->position.t,
         .y = &m->row_cosine.t);
    CALL(m->r, embedding_forward, .weight = &m->sine.t, .indices = &m->position.t,
         .y = &m->row_sine.t);
}

/* With --qk-norm: the queries and keys of each head. */
static void norm_heads(model *m, layer *l)
{
    CALL(m->r, rms_norm_forward, .x = &l->raw_q.t, .weight = &l->qnorm.p.t, .y = &l->q.t,
         .rstd = &l->qrstd.t, .eps = TG_VALUE(m->o->eps));
    CALL(m->r, rms_norm_forward, .x = &l->raw_k.t, .weight = &l->knorm.p.t, .y = &l->new_k.t,
         .rstd = &l->krstd.t, .eps = TG_VALUE(m->o->eps));
}

static void norm_heads_back(model *m, layer *l, int accumulate)
{
    CALL(m->r, rms_norm_backward, .dy = &m->dq.t, .x = &l->raw_q.t, .weight = &l->qnorm.p.t,
         .rstd = &l->qrstd.t, .dx = &m->dq.t, .dweight = &l->qnorm.g.t, .accumulate = accumulate);
    CALL(m->r, rms_norm_backward, .dy = &m->dk.t, .x = &l->raw_k.t, .weight = &l->knorm.p.t,
         .rstd = &l->krstd.t, .dx = &m->dk.t, .dweight = &l->knorm.g.t, .accumulate = accumulate);
}

static void attention(model *m, layer *l)
{
    if (m->what == SHARED)
        ring_forward(m, l);
    else
        CALL(m->r, flash_attention_forward, .q = &l->q.t, .k = &l->k.t, .v = &l->v.t,
             .cu_seqlens_q = documents(m), .cu_seqlens_k = documents(m), .y = &l->attended4.t,
             .lse = &l->lse.t, .causal = 1);
}

static void attention_back(model *m, const layer *l)
{
    if (m->what == SHARED)
        ring_backward(m, l);
    else
        CALL(m->r, flash_attention_backward, .dy = &m->y4.t, .q = &l->q.t, .k = &l->k.t,
             .v = &l->v.t, .y = &l->attended4.t, .lse = &l->lse.t, .cu_seqlens_q = documents(m),
             .cu_seqlens_k = documents(m), .dq = &m->dq.t, .dk = &m->dk.t, .dv = &m->dv.t,
             .causal = 1);
}

static void feed_forward(model *m, layer *l, const norm *n)
{
    norm_product(m, n, &l->normed2, &l->wgate_up, &l->gate_up);
    gate_product(m, l, &m->y);
}

/* From d into e. */
static void feed_forward_back(model *m, layer *l, const norm *n, int accumulate)
{
    /* gate and up: kept, or the last ones that went where all that are not kept go */
    const int are_there = options_keep_gates(m->o, l - m->layers + 1);
    const norm again = {NULL, n->weight, n->s, NULL};
    if (!are_there)
        norm_product(m, &again, &l->normed2, &l->wgate_up, &l->gate_up);
    else if (!m->eight) /* whose products see to it themselves */
        norm_again(m, n, &l->normed2);
    gate_product_back(m, &m->d, l, n, &m->e, accumulate);
}

void model_forward(model *m)
{
    run *r = m->r;
    to_device(r, m->input_data, (size_t)m->input.shape[0] * sizeof(*m->input_data));
    CALL(r, embedding_forward, .weight = &m->embed.p.t, .indices = &m->input.t, .y = &m->s1[0].t);
    if (m->what != WHOLE)
        place_rows(m);
    for (int64_t i = 0; i < m->o->layers; i++) {
        layer *l = &m->layers[i];
        const norm first = first_norm(m, i), second = second_norm(m, i);
        norm_product(m, &first, &l->normed1, &l->wqkv, &l->qkv);
        if (m->o->qk_norm)
            norm_heads(m, l);
        CALL(r, rope_forward, .q = &l->q.t, .k = &l->new_k.t, .cos = cosine(m), .sin = sine(m),
             .yq = &l->q.t, .yk = &l->new_k.t, .position_offset = m->first);
        attention(m, l);
        product(m, &l->attended, &l->wo, &m->y);
        if (m->o->experts) {
            norm_forward(m, &second, &l->normed2);
            experts_forward(m, l);
        } else {
            feed_forward(m, l, &second);
        }
    }
    const norm last = first_norm(m, m->o->layers);
    norm_forward(m, &last, &m->y);
}

void model_loss(model *m, int train, int accumulate)
{
    weight *head = m->o->untied ? &m->head : &m->embed;
    to_device(m->r, m->target_data, (size_t)m->target.shape[0] * sizeof(*m->target_data));
    if (m->what != WHOLE && train) /* windows and ranks have not as many targets as each other */
        to_device(m->r, m->share_data, sizeof(*m->share_data));
    CALL(m->r, fused_linear_cross_entropy_forward, .x = &m->y.t, .weight = &head->p.t,
         .target = &m->target.t, .dloss = train ? &m->dloss.t : NULL, .loss = &m->loss.t,
         .dx = train ? &m->d.t : NULL, .dweight = train ? &head->g.t : NULL,
         .accumulate = accumulate);
}

/* In: d, the gradient of what the layer gives to the stream. Out: d, of what it takes from it. */
static void layer_backward(model *m, int64_t i, int accumulate)
{
    run *r = m->r;
    layer *l = &m->layers[i];
    const norm first = first_norm(m, i), second = second_norm(m, i);
    if (m->what == SHARED)
        ring_begin(m, l);
    /* feed-forward part: e = gradient of the stream between the parts */
    if (m->o->experts) {
        norm_again(m, &second, &l->normed2);
        experts_backward(m, l, accumulate);
    } else {
        feed_forward_back(m, l, &second, accumulate);
    }
    add_norm_back(m, &m->e, &m->d, &l->s2, &l->rstd2, &l->norm2, &m->e, accumulate);
    /* attention: y holds the gradient of the attended values */
    product_back(m, &m->e, &l->attended, &l->wo, &m->dattended, accumulate);
    attention_back(m, l);
    CALL(r, rope_backward, .dyq = &m->dq.t, .dyk = &m->dk.t, .cos = cosine(m), .sin = sine(m),
         .dq = &m->dq.t, .dk = &m->dk.t);
    if (m->o->qk_norm)
        norm_heads_back(m, l, accumulate);
    if (!m->eight)
        norm_again(m, &first, &l->normed1);
    norm_product_back(m, &m->dqkv, &first, &l->normed1, &l->wqkv, &m->y, accumulate);
    add_norm_back(m, &m->y, &m->e, &m->s1[i], &m->rstd1[i], &m->norm1[i], &m->d, accumulate);
    model_ready(m, (int)i + 1);
}

void model_backward(model *m, int accumulate)
{
    const int64_t last = m->o->layers;
    add_norm_back(m, &m->d, NULL, &m->s1[last], &m->rstd1[last], &m->norm1[last], &m->d,
                  accumulate);
    for (int64_t i = last - 1; i >= 0; i--)
        layer_backward(m, i, accumulate);
    model_ready(m, (int)last + 1);
    /* a tied matrix has its output's gradient already */
    CALL(m->r, embedding_backward, .dy = &m->d.t, .indices = &m->input.t, .dweight = &m->embed.g.t,
         .accumulate = accumulate || !m->o->untied);
    model_ready(m, 0);
}

/* ---- the products alone ---- */

/* Those of the loss, in chunks of rows as the fused operator takes them. */
static void head_products(model *m, int accumulate)
{
    weight *head = m->o->untied ? &m->head : &m->embed;
    const int64_t n = m->y.shape[0], width = m->o->width, vocab = m->o->vocab;
    const int64_t el = (int64_t)tg_type_size(m->type), budget = 64 << 20;
    const int64_t chunks = (n * vocab * el + budget - 1) / budget, most = (n + chunks - 1) / chunks;
    if (!m->products_data)
        m->products_data = take_activations(m->r, (size_t)(most * vocab * el));
    for (int64_t i = 0; i < n; i += most) {
        const int64_t rows = i + most < n ? most : n - i;
        const int64_t narrow[2] = {rows, width}, wide[2] = {rows, vocab};
        array x = {.t = tensor_at(m->r, m->y_data + i * width * el, m->type, 2, narrow)};
        array dx = {.t = tensor_at(m->r, m->d_data + i * width * el, m->type, 2, narrow)};
        array z = {.t = tensor_at(m->r, m->products_data, m->type, 2, wide)};
        product(m, &x, head, &z);
        product_dx(m, &z, head, &dx);
        product_dw(m, &z, &x, head, accumulate || i > 0);
    }
}

void model_products(model *m, int accumulate)
{
    for (int64_t i = 0; i < m->o->layers; i++) {
        layer *l = &m->layers[i];
        product(m, &m->y, &l->wqkv, &l->qkv);
        product(m, &l->attended, &l->wo, &m->y);
        if (m->o->experts)
            continue;
        product(m, &m->y, &l->wgate_up, &l->gate_up);
        product(m, &m->h, &l->wdown, &m->y);
    }
    head_products(m, accumulate);
    for (int64_t i = m->o->layers - 1; i >= 0; i--) {
        layer *l = &m->layers[i];
        if (m->o->experts) {
            experts_products(m, l, accumulate);
        } else {
            product_dw(m, &m->d, &m->h, &l->wdown, accumulate);
            product_dx(m, &m->d, &l->wdown, &m->h);
            product_dw(m, &l->gate_up, &m->y, &l->wgate_up, accumulate);
            product_dx(m, &l->gate_up, &l->wgate_up, &m->y);
        }
        product_dw(m, &m->e, &l->attended, &l->wo, accumulate);
        product_dx(m, &m->e, &l->wo, &m->dattended);
        product_dw(m, &m->dqkv, &m->y, &l->wqkv, accumulate);
        product_dx(m, &m->dqkv, &l->wqkv, &m->y);
    }
}

double model_flops(const model *m)
{
    const options *o = m->o;
    const int64_t ff = o->experts ? 3 * o->experts_used * o->expert_ff : 3 * o->ff;
    const int64_t layer = (m->qkv_width + m->inner + ff) * o->width;
    return 6.0 * (double)m->y.shape[0] * (double)(o->layers * layer + o->vocab * o->width);
}
