/* Rows that do not know their batch, in a model: a token's logits are the same bits where its
 * sequence is alone, where it is one of a batch, and where tokens come one by one, as they are
 * generated, from keys and values that are kept. */
#include "../common/test.h"

enum {
    BATCH = 5,
    TOKENS = 203,
    HIDDEN = 72,
    HEADS = 6,
    KEY_HEADS = 2,
    SIDE = 24,
    INNER = 136,
    CLASSES = 301,
    LAYERS = 2,
    MOST = BATCH * TOKENS * CLASSES
};

/* Matrices of a layer, in the order in which they are used. */
enum { TO_Q, TO_K, TO_V, FROM_HEADS, TO_GATE, TO_UP, FROM_INNER, MATRICES };

typedef struct model {
    tg_ctx *ctx;
    int type;
    char *table, *norm, *matrix[LAYERS][MATRICES], *cos, *sin;
    char *keys[LAYERS], *values[LAYERS]; /* of the first sequence, for tokens one by one */
} model;

/* Memory of the test's tensors: taken in order, all given back by a reset. */
static char *pool;
static size_t used;

static char *take(const model *m, int64_t elements)
{
    char *at = pool + used;
    used += ((size_t)elements * tg_type_size(m->type) + 63) / 64 * 64;
    return at;
}

static uint32_t state = 1;

static char *random_of(const model *m, int64_t elements, double scale)
{
    char *data = take(m, elements);
    for (int64_t i = 0; i < elements; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(((double)(state >> 8) / (1 << 24) - 0.5) * 2 * scale);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (m->type == TG_F32)
            memcpy(data + 4 * i, &x, 4);
        else
            memcpy(data + 2 * i, (char *)&bits + 2, 2);
    }
    return data;
}

static void must(tg_status status)
{
    EXPECT(status == TG_OK, "%s: %s", tg_status_name(status), tg_last_error());
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

/* y [rows, n] = x [rows, k] times the matrix [n, k], or that added to y. */
static void multiply(const model *m, char *x, char *matrix, char *y, int64_t rows, int64_t n,
                     int64_t k, int add)
{
    tg_tensor a = tg_tensor_of(x, m->type, 2, SHAPE(rows, k)),
              b = tg_tensor_of(matrix, m->type, 2, SHAPE(n, k)),
              c = tg_tensor_of(y, m->type, 2, SHAPE(rows, n));
    must(tg_gemm(m->ctx,
                 &(tg_gemm_args){.a = &a, .b = &b, .c = &c, .trans_b = 1, .beta = add ? 1 : 0}));
}

static char *normalized(const model *m, char *x, int64_t rows)
{
    char *y = take(m, rows * HIDDEN);
    tg_tensor tx = tg_tensor_of(x, m->type, 2, SHAPE(rows, HIDDEN)),
              w = tg_tensor_of(m->norm, m->type, 1, SHAPE(HIDDEN)),
              ty = tg_tensor_of(y, m->type, 2, SHAPE(rows, HIDDEN));
    must(
        tg_rms_norm_forward(m->ctx, &(tg_rms_norm_forward_args){.x = &tx, .weight = &w, .y = &ty}));
    return y;
}

/* Attention of `queries` tokens of each sequence, of which `before` are behind them: their keys and
 * values are kept in m. */
static void attend(const model *m, int layer, char *x, int64_t batch, int64_t queries,
                   int64_t before)
{
    const int64_t rows = batch * queries, kept[] = {1, before + queries, KEY_HEADS, SIDE};
    char *n = normalized(m, x, rows), *q = take(m, rows * HEADS * SIDE),
         *k = take(m, rows * KEY_HEADS * SIDE), *v = take(m, rows * KEY_HEADS * SIDE),
         *y = take(m, rows * HEADS * SIDE);
    multiply(m, n, m->matrix[layer][TO_Q], q, rows, HEADS * SIDE, HIDDEN, 0);
    multiply(m, n, m->matrix[layer][TO_K], k, rows, KEY_HEADS * SIDE, HIDDEN, 0);
    multiply(m, n, m->matrix[layer][TO_V], v, rows, KEY_HEADS * SIDE, HIDDEN, 0);
    tg_tensor tq = tg_tensor_of(q, m->type, 4, SHAPE(batch, queries, HEADS, SIDE)),
              tk = tg_tensor_of(k, m->type, 4, SHAPE(batch, queries, KEY_HEADS, SIDE)),
              tv = tg_tensor_of(v, m->type, 4, SHAPE(batch, queries, KEY_HEADS, SIDE)),
              ty = tg_tensor_of(y, m->type, 4, SHAPE(batch, queries, HEADS, SIDE)),
              cos = tg_tensor_of(m->cos, m->type, 2, SHAPE(TOKENS, SIDE / 2)),
              sin = tg_tensor_of(m->sin, m->type, 2, SHAPE(TOKENS, SIDE / 2));
    must(tg_rope_forward(m->ctx, &(tg_rope_forward_args){.q = &tq,
                                                         .k = &tk,
                                                         .cos = &cos,
                                                         .sin = &sin,
                                                         .yq = &tq,
                                                         .yk = &tk,
                                                         .position_offset = before}));
    const size_t row = KEY_HEADS * SIDE * tg_type_size(m->type);
    if (batch == 1) {
        memcpy(m->keys[layer] + (size_t)before * row, k, (size_t)queries * row);
        memcpy(m->values[layer] + (size_t)before * row, v, (size_t)queries * row);
        tk = tg_tensor_of(m->keys[layer], m->type, 4, kept);
        tv = tg_tensor_of(m->values[layer], m->type, 4, kept);
    }
    must(tg_flash_attention_forward(
        m->ctx,
        &(tg_flash_attention_forward_args){.q = &tq, .k = &tk, .v = &tv, .y = &ty, .causal = 1}));
    multiply(m, y, m->matrix[layer][FROM_HEADS], x, rows, HIDDEN, HEADS * SIDE, 1);
}

static void feed_forward(const model *m, int layer, char *x, int64_t rows)
{
    char *n = normalized(m, x, rows), *gate = take(m, rows * INNER), *up = take(m, rows * INNER),
         *y = take(m, rows * INNER);
    multiply(m, n, m->matrix[layer][TO_GATE], gate, rows, INNER, HIDDEN, 0);
    multiply(m, n, m->matrix[layer][TO_UP], up, rows, INNER, HIDDEN, 0);
    tg_tensor tg = tg_tensor_of(gate, m->type, 2, SHAPE(rows, INNER)),
              tu = tg_tensor_of(up, m->type, 2, SHAPE(rows, INNER)),
              ty = tg_tensor_of(y, m->type, 2, SHAPE(rows, INNER));
    must(tg_swiglu_forward(m->ctx, &(tg_swiglu_forward_args){.gate = &tg, .up = &tu, .y = &ty}));
    multiply(m, y, m->matrix[layer][FROM_INNER], x, rows, HIDDEN, INNER, 1);
}

/* Logits [batch * queries, CLASSES] of tokens, in `to`. */
static void run(const model *m, int64_t *tokens, int64_t batch, int64_t queries, int64_t before,
                char *to)
{
    const int64_t rows = batch * queries;
    const size_t mark = used;
    char *x = take(m, rows * HIDDEN);
    tg_tensor table = tg_tensor_of(m->table, m->type, 2, SHAPE(CLASSES, HIDDEN)),
              indices = tg_tensor_of(tokens, TG_I64, 1, SHAPE(rows)),
              tx = tg_tensor_of(x, m->type, 2, SHAPE(rows, HIDDEN));
    must(tg_embedding_forward(
        m->ctx, &(tg_embedding_forward_args){.weight = &table, .indices = &indices, .y = &tx}));
    for (int layer = 0; layer < LAYERS; layer++) {
        attend(m, layer, x, batch, queries, before);
        feed_forward(m, layer, x, rows);
    }
    multiply(m, normalized(m, x, rows), m->table, to, rows, CLASSES, HIDDEN, 0);
    used = mark;
}

static model model_of(tg_ctx *ctx, int type)
{
    static const int rows[] =
        {HEADS * SIDE, KEY_HEADS * SIDE, KEY_HEADS * SIDE, HIDDEN, INNER, INNER, HIDDEN},
                     columns[] = {HIDDEN, HIDDEN, HIDDEN, HEADS * SIDE, HIDDEN, HIDDEN, INNER};
    model m = {.ctx = ctx, .type = type};
    used = 0;
    m.table = random_of(&m, CLASSES * HIDDEN, 1);
    m.norm = random_of(&m, HIDDEN, 2);
    m.cos = random_of(&m, TOKENS * SIDE / 2, 1);
    m.sin = random_of(&m, TOKENS * SIDE / 2, 1);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < MATRICES; i++)
            m.matrix[layer][i] = random_of(&m, rows[i] * columns[i], 0.2);
        m.keys[layer] = take(&m, TOKENS * KEY_HEADS * SIDE);
        m.values[layer] = take(&m, TOKENS * KEY_HEADS * SIDE);
    }
    return m;
}

static int64_t differing(const char *x, const char *y, size_t row, int64_t rows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++)
        n += memcmp(x + (size_t)i * row, y + (size_t)i * row, row) != 0;
    return n;
}

/* The rows of the first sequence that differ: from those in a batch, from those one by one. */
static void compare(tg_ctx *ctx, int type, int64_t *in_batch, int64_t *one_by_one)
{
    const model m = model_of(ctx, type);
    const size_t row = CLASSES * tg_type_size(type);
    static int64_t tokens[BATCH * TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++)
        tokens[i] = (i * 7919 + i / 3) % CLASSES;
    char *all = take(&m, MOST), *one = take(&m, MOST), *each = take(&m, MOST);
    run(&m, tokens, BATCH, TOKENS, 0, all);
    run(&m, tokens, 1, TOKENS, 0, one);
    for (int t = 0; t < TOKENS; t++)
        run(&m, tokens + t, 1, 1, t, each + (size_t)t * row);
    *in_batch = differing(all, one, row, TOKENS);
    *one_by_one = differing(each, one, row, TOKENS);
}

int main(void)
{
    int64_t in_batch, one_by_one, without = 0;
    pool = malloc((size_t)64 << 20);
    if (!pool)
        return 1;
    tg_ctx *ctx = new_context();
    tg_ctx_set_device(ctx, "cpu");
    for (int type = 0; type < 2; type++) {
        tg_ctx_set_batch_invariant(ctx, 1);
        compare(ctx, type ? TG_BF16 : TG_F32, &in_batch, &one_by_one);
        EXPECT(!in_batch && !one_by_one,
               "%s: of %d tokens %lld differ in a batch, %lld where they come one by one",
               type ? "bf16" : "f32", TOKENS, (long long)in_batch, (long long)one_by_one);
        tg_ctx_set_batch_invariant(ctx, 0);
        compare(ctx, type ? TG_BF16 : TG_F32, &in_batch, &one_by_one);
        without += in_batch + one_by_one;
        printf("%s, without the setting: %lld and %lld tokens differ\n", type ? "bf16" : "f32",
               (long long)in_batch, (long long)one_by_one);
    }
    EXPECT(without > 0, "nothing differs without the setting: the test shows nothing");
    tg_ctx_destroy(ctx);
    free(pool);
    return report();
}
