/* names.c - our parameters under the names that Hugging Face's Llama gives them. What we hold as
 * one matrix, because it is one product, are several there. */
#include <stdio.h>

#include "model.h"

static int is_part(part *p, const char *name, const weight *w, int64_t row, int64_t rows,
                   const char *sizes)
{
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->sizes = sizes;
    p->offset = w->at + row * (w->p.t.ndim == 2 ? w->p.shape[1] : 0);
    p->ndim = w->p.t.ndim;
    p->shape[0] = rows;
    p->shape[1] = w->p.t.ndim == 2 ? w->p.shape[1] : 1;
    return 1;
}

/* Of each layer. */
enum { ATTENTION = 8, DENSE = 3 };

static int attention_part(const model *m, int64_t i, int j, part *p, const char *name_of_layer)
{
    const options *o = m->o;
    const layer *l = &m->layers[i];
    const int64_t q = o->heads * m->head_dim, kv = o->kv_heads * m->head_dim;
    static const char kv_sizes[] = "num_key_value_heads heads of head_dim, hidden_size";
    static const char q_sizes[] = "num_attention_heads heads of head_dim, hidden_size";
    static const char o_sizes[] = "hidden_size, num_attention_heads heads of head_dim";
    const struct {
        const char *name;
        const weight *w;
        int64_t row, rows;
        const char *sizes;
    } parts[ATTENTION] = {{"input_layernorm", &m->norm1[i], 0, o->width, "hidden_size"},
                          {"self_attn.q_proj", &l->wqkv, 0, q, q_sizes},
                          {"self_attn.k_proj", &l->wqkv, q, kv, kv_sizes},
                          {"self_attn.v_proj", &l->wqkv, q + kv, kv, kv_sizes},
                          {"self_attn.o_proj", &l->wo, 0, o->width, o_sizes},
                          {"post_attention_layernorm", &l->norm2, 0, o->width, "hidden_size"},
                          {"self_attn.q_norm", &l->qnorm, 0, m->head_dim, "head_dim"},
                          {"self_attn.k_norm", &l->knorm, 0, m->head_dim, "head_dim"}};
    char name[80];
    snprintf(name, sizeof(name), "%s.%s.weight", name_of_layer, parts[j].name);
    return is_part(p, name, parts[j].w, parts[j].row, parts[j].rows, parts[j].sizes);
}

/* Gate, up or down, of the only one or of one of the experts. */
static int feed_forward_part(const model *m, const layer *l, int j, part *p, const char *name)
{
    const options *o = m->o;
    const int64_t ff = o->experts ? o->expert_ff : o->ff, expert = j / DENSE;
    static const char *const names[DENSE] = {"gate_proj", "up_proj", "down_proj"};
    char whole[80], of[32] = "";
    if (o->experts)
        snprintf(of, sizeof(of), ".experts.%d", (int)expert);
    snprintf(whole, sizeof(whole), "%s.mlp%s.%s.weight", name, of, names[j % DENSE]);
    if (j % DENSE == 2)
        return is_part(p, whole, &l->wdown, expert * o->width, o->width,
                       o->experts ? "hidden_size, moe_intermediate_size"
                                  : "hidden_size, intermediate_size");
    return is_part(p, whole, &l->wgate_up, (2 * expert + j % DENSE) * ff, ff,
                   o->experts ? "moe_intermediate_size, hidden_size"
                              : "intermediate_size, hidden_size");
}

static int attention_parts(const model *m)
{
    return m->o->qk_norm ? ATTENTION : ATTENTION - 2;
}

int model_layer_parts(const model *m)
{
    const int experts = (int)m->o->experts;
    return attention_parts(m) + (experts ? 1 + DENSE * experts : DENSE);
}

static int layer_part(const model *m, int64_t i, int j, part *p)
{
    const layer *l = &m->layers[i];
    char name[48], router[80];
    snprintf(name, sizeof(name), "model.layers.%d", (int)i);
    if (j < attention_parts(m))
        return attention_part(m, i, j, p, name);
    j -= attention_parts(m);
    if (!m->o->experts)
        return feed_forward_part(m, l, j, p, name);
    snprintf(router, sizeof(router), "%s.mlp.gate.weight", name);
    return j == 0 ? is_part(p, router, &l->x.router, 0, m->o->experts, "num_experts, hidden_size")
                  : feed_forward_part(m, l, j - 1, p, name);
}

int model_part(const model *m, int i, part *p)
{
    static const char table[] = "vocab_size, hidden_size";
    const options *o = m->o;
    const int each = model_layer_parts(m), last = each * (int)o->layers + 1;
    if (i == 0)
        return is_part(p, "model.embed_tokens.weight", &m->embed, 0, o->vocab, table);
    if (i < last)
        return layer_part(m, (i - 1) / each, (i - 1) % each, p);
    if (i == last)
        return is_part(p, "model.norm.weight", &m->norm1[o->layers], 0, o->width, "hidden_size");
    if (i == last + 1 && o->untied)
        return is_part(p, "lm_head.weight", &m->head, 0, o->vocab, table);
    return 0;
}

int64_t part_elements(const part *p)
{
    return p->ndim == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
}
