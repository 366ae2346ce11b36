/* flash_attention_dropout.c - see flash_attention.h. */
#include "flash_attention.h"

/* One head's factors of probabilities, of all queries and keys. */
typedef struct factors {
    const attention *a;
    mat to;
    int64_t head, batch;
} factors;

/* A query's sequence: its number, and the first query and key of it. */
typedef struct sequence {
    int64_t number, query, key;
} sequence;

static sequence sequence_of(const factors *f, int64_t i)
{
    const tg_tensor *bounds = f->a->cu_seqlens_q;
    sequence s = {f->batch, 0, 0};
    if (!bounds)
        return s;
    const int64_t *q = tg_data(bounds), *k = tg_data(f->a->cu_seqlens_k);
    while (s.number < bounds->shape[0] - 1 && i >= q[s.number + 1])
        s.number++;
    s.query = q[s.number];
    s.key = k[s.number];
    return s;
}

static void fill_rows(void *arg, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const factors *f = arg;
    const tg_dropout d = f->a->dropout;
    for (int64_t i = first; i < end; i++) {
        const sequence s = sequence_of(f, i);
        const uint32_t head = (uint32_t)(s.number * f->a->heads + f->head);
        float *row = (float *)f->to.data + i * f->to.stride;
        uint32_t bits = 0;
        for (int64_t j = 0; j < f->to.cols; j++) {
            const int64_t key = j - s.key;
            if (key >= 0 && key % 32 == 0)
                bits = tg_dropout_kept(d, head, (uint32_t)(i - s.query), (uint32_t)(key / 32));
            row[j] = key >= 0 && bits >> key % 32 & 1 ? (float)d.factor : 0;
        }
    }
}

mat attention_drop(attention *a, mat x)
{
    if (a->dropout.least == 0)
        return x;
    const mat y = attention_rows(a, x.type, a->keys);
    const mat to = eager_new(&a->e, TG_F32, a->queries, a->keys);
    for (int64_t i = 0; i < a->batch * a->heads && a->e.status == TG_OK; i++) {
        factors f = {a, to, i % a->heads, i / a->heads};
        unfused_host->parallel_for(a->e.ctx, to.rows, 65536 / (to.cols + 1) + 1, fill_rows, &f);
        eager_binary(&a->e, EAGER_MUL, attention_part(a, y, i), attention_part(a, x, i), to);
    }
    eager_free(&a->e, to);
    eager_free(&a->e, x);
    return y;
}
