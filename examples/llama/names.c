/* names.c - our parameters under the names that Hugging Face's Llama gives them. What we hold as
 * one matrix, because it is one product, are several there. */
#include <stdio.h>

#include "model.h"

static int is_part(part *p, const char *name, const model *m, const weight *w, int64_t row,
                   int64_t rows, const char *sizes)
{
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->sizes = sizes;
    p->offset = w->at + row * m->o->width;
    p->ndim = w->p.t.ndim;
    p->shape[0] = rows;
    p->shape[1] = w->p.t.ndim == 2 ? w->p.shape[1] : 1;
    return 1;
}

/* How many parts a layer has; those with --qk-norm are the last ones. */
static int layer_parts(const model *m)
{
    return m->o->qk_norm ? 11 : 9;
}

static int layer_part(const model *m, int64_t i, int j, part *p)
{
    const options *o = m->o;
    const layer *l = &m->layers[i];
    const int64_t q = o->heads * m->head_dim, kv = o->kv_heads * m->head_dim;
    static const char kv_sizes[] = "num_key_value_heads heads of head_dim, hidden_size";
    static const char q_sizes[] = "num_attention_heads heads of head_dim, hidden_size";
    static const char o_sizes[] = "hidden_size, num_attention_heads heads of head_dim";
    static const char ff_sizes[] = "intermediate_size, hidden_size";
    const struct {
        const char *name;
        const weight *w;
        int64_t row, rows;
        const char *sizes;
    } parts[11] = {{"input_layernorm", &m->norm1[i], 0, o->width, "hidden_size"},
                   {"self_attn.q_proj", &l->wqkv, 0, q, q_sizes},
                   {"self_attn.k_proj", &l->wqkv, q, kv, kv_sizes},
                   {"self_attn.v_proj", &l->wqkv, q + kv, kv, kv_sizes},
                   {"self_attn.o_proj", &l->wo, 0, o->width, o_sizes},
                   {"post_attention_layernorm", &l->norm2, 0, o->width, "hidden_size"},
                   {"mlp.gate_proj", &l->wgate_up, 0, o->ff, ff_sizes},
                   {"mlp.up_proj", &l->wgate_up, o->ff, o->ff, ff_sizes},
                   {"mlp.down_proj", &l->wdown, 0, o->width, "hidden_size, intermediate_size"},
                   {"self_attn.q_norm", &l->qnorm, 0, m->head_dim, "head_dim"},
                   {"self_attn.k_norm", &l->knorm, 0, m->head_dim, "head_dim"}};
    char name[80];
    snprintf(name, sizeof(name), "model.layers.%d.%s.weight", (int)i, parts[j].name);
    return is_part(p, name, m, parts[j].w, parts[j].row, parts[j].rows, parts[j].sizes);
}

int model_part(const model *m, int i, part *p)
{
    static const char table[] = "vocab_size, hidden_size";
    const options *o = m->o;
    const int each = layer_parts(m), last = each * (int)o->layers + 1;
    if (i == 0)
        return is_part(p, "model.embed_tokens.weight", m, &m->embed, 0, o->vocab, table);
    if (i < last)
        return layer_part(m, (i - 1) / each, (i - 1) % each, p);
    if (i == last)
        return is_part(p, "model.norm.weight", m, &m->norm1[o->layers], 0, o->width, "hidden_size");
    if (i == last + 1 && o->untied)
        return is_part(p, "lm_head.weight", m, &m->head, 0, o->vocab, table);
    return 0;
}

int64_t part_elements(const part *p)
{
    return p->ndim == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
}
