/* memory.c - places of activations and gradients.
 *
 * What the layers keep for the backward pass lies in one block, one layer's behind the other's. The
 * backward pass goes from the last layer to the first, and what a layer has kept is of no use once
 * that layer is done. So, unless operators add gradients of several micro-batches to each other,
 * its place is taken by the gradients of layers before it:
 *
 *   kept by layer   0        | 1        | ... | last     |
 *   gradients of             | 0 | 1    | ...            | last | norms
 *
 * All gradients but those of the tables lie in one piece, that of the last layer behind the
 * block, and each of the others begins behind what its own layer keeps, if a layer keeps no less
 * than its gradients take. The last layers may keep more than the others. */
#include "experts.h"
#include "products.h"

static size_t whole_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* What layer i keeps, from `base` on, NULL: nowhere yet; returns its bytes. What is computed again
 * is not kept. */
static size_t place_kept(const model *m, int64_t i, char *base)
{
    layer *l = &m->layers[i];
    const options *o = m->o;
    const size_t rows = (size_t)m->rows, el = tg_type_size(m->type);
    const size_t stream = rows * (size_t)o->width * el;
    const int eight = products_in_eight(o);
    const size_t normed = o->recompute < RECOMPUTE_NORMS ? stream : 0;
    const struct {
        char **at;
        size_t bytes;
    } pieces[] = {
        {&l->s1_data, stream},
        {&l->rstd1_data, rows * 4},
        {&l->qkv_data, rows * (size_t)m->qkv_width * el},
        {&l->attended_data, rows * (size_t)m->inner * el},
        {&l->qs_data, o->qk_norm ? rows * (size_t)m->inner * el : 0},
        {&l->ks_data, o->qk_norm ? rows * (size_t)(o->kv_heads * m->head_dim) * el : 0},
        {&l->qrstd_data, o->qk_norm ? rows * (size_t)o->heads * 4 : 0},
        {&l->krstd_data, o->qk_norm ? rows * (size_t)o->kv_heads * 4 : 0},
        {&l->lse_data, rows * (size_t)o->heads * 4},
        {&l->s2_data, stream},
        {&l->rstd2_data, rows * 4},
        {&l->normed1_data, eight ? 0 : normed},
        {&l->normed2_data, eight && !o->experts ? 0 : normed},
        {&l->h_data,
         !o->experts && !eight && o->recompute < RECOMPUTE_SWIGLU ? rows * (size_t)o->ff * el : 0},
        {&l->gate_up_data,
         !o->experts && options_keep_gates(o, i) ? rows * 2 * (size_t)o->ff * el : 0},
    };
    size_t used = 0;
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        if (base)
            *pieces[k].at = base + used;
        used += whole_lines(pieces[k].bytes);
    }
    if (o->experts)
        used += experts_place(m, l, base ? base + used : NULL);
    return used;
}

/* Gradients of layers that lie in the place of what other layers have kept, each `kept` or more.
 * Gaps between parameters would hold what was kept there, and not zeros. */
static size_t overlaid(const model *m, size_t kept, size_t layer_grad)
{
    const int fits = kept >= layer_grad && m->used == m->count && (m->ordered || m->rounds == 1);
    return fits ? layer_grad * (size_t)(m->o->layers - 1) : 0;
}

static void place_layers(model *m, int training)
{
    const size_t layers = (size_t)m->o->layers;
    size_t kept = 0;
    for (size_t i = 0; i < layers; i++)
        kept += place_kept(m, (int64_t)i, NULL);
    const size_t apart = (size_t)m->apart * sizeof(float);
    const size_t layer_grad = (size_t)(m->decayed - m->tables) / layers * sizeof(float) - apart;
    const size_t grad =
        training ? (size_t)(m->count - m->tables) * sizeof(float) - layers * apart : 0;
    const size_t beyond = training ? grad - overlaid(m, place_kept(m, 0, NULL), layer_grad) : 0;
    char *block = take_activations(m->r, kept + beyond);
    for (size_t i = 0, at = 0; i < layers; i++)
        at += place_kept(m, (int64_t)i, block + at);
    if (!training)
        return;
    m->grad = (float *)(block + kept + beyond - grad);
    m->table_grad = take_activations(m->r, (size_t)m->tables * sizeof(float));
}

/* What is computed again has the same place in all layers. */
static void share(model *m, size_t stream, size_t gate_up)
{
    const int64_t recompute = m->o->recompute;
    const int eight = products_in_eight(m->o);
    char *gates =
        options_keep_gates(m->o, 0) || m->o->experts ? NULL : take_activations(m->r, gate_up);
    /* experts read it and write y */
    char *apart =
        recompute >= RECOMPUTE_NORMS && m->o->experts ? take_activations(m->r, stream) : NULL;
    for (layer *l = m->layers; l < m->layers + m->o->layers; l++) {
        if (recompute >= RECOMPUTE_NORMS || eight)
            l->normed1_data = m->y_data;
        if (recompute >= RECOMPUTE_NORMS || (eight && !m->o->experts))
            l->normed2_data = apart ? apart : m->y_data;
        if (recompute >= RECOMPUTE_SWIGLU || eight)
            l->h_data = m->h_data;
        if (gates && !options_keep_gates(m->o, l - m->layers))
            l->gate_up_data = gates;
    }
}

static void place_windows(model *m)
{
    const options *o = m->o;
    const int64_t whole = o->batch * o->seq, places = 2 * o->accumulate;
    const int64_t cut = windows_cuts(o) ? windows_cuts(o) + 1 : 0;
    const int64_t each = (o->pack ? 4 * whole + 1 : o->ring > 1 ? 3 * whole : 2 * whole) + 4 * cut;
    int64_t *at = take_exchanged(m->r, (size_t)(places * each) * sizeof(*at));
    m->drawn = take_memory((size_t)places * sizeof(*m->drawn));
    for (int64_t i = 0; i < places; i++, at += each) {
        m->drawn[i] = (windows){.in = at,
                                .target = at + whole,
                                .position = each > 2 * whole ? at + 2 * whole : NULL,
                                .begin = o->pack ? at + 3 * whole : NULL};
        for (int k = 0; cut && k < 4; k++)
            m->drawn[i].cuts[k / 2][k % 2] = at + 4 * whole + 1 + k * cut;
    }
    if (each == 2 * whole)
        return;
    const size_t table = (size_t)(m->rows * m->head_dim / 2) * sizeof(float);
    m->row_cosine_data = take_activations(m->r, table);
    m->row_sine_data = take_activations(m->r, table);
}

void model_place_activations(model *m, int training)
{
    const options *o = m->o;
    const size_t rows = (size_t)m->rows, el = tg_type_size(m->type);
    const size_t stream = rows * (size_t)o->width * el;
    place_layers(m, training);
    m->last_s1_data = take_activations(m->r, stream);
    m->last_rstd1_data = take_activations(m->r, rows * 4);
    m->y_data = take_activations(m->r, m->inner > o->width ? rows * (size_t)m->inner * el : stream);
    m->h_data = take_activations(m->r, o->experts ? 0 : rows * (size_t)o->ff * el);
    if (o->experts)
        experts_open(m, training);
    place_windows(m);
    m->results = take_exchanged(m->r, 2 * model_results_of(m) * sizeof(*m->results));
    m->shares = take_exchanged(m->r, 2 * (size_t)o->accumulate * sizeof(*m->shares));
    m->logits_data = take_tensors(m->r, (size_t)o->vocab * sizeof(*m->logits_data));
    if (training) {
        m->d_data = take_activations(m->r, stream);
        m->e_data = take_activations(m->r, stream);
        m->dqkv_data = take_activations(m->r, rows * (size_t)m->qkv_width * el);
    }
    share(m, stream, rows * 2 * (size_t)o->ff * el);
    products_open(m);
}
