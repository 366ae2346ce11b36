/* flash_attention: few queries of a sequence, as when tokens follow one by one: what counts is that
 * keys and values are read once. Rows are the queries of all heads, head by head; vectors run along
 * d. Keys come in pieces, each with sums of its own, which are added in order. */
#include "flash_attention_cpu_few.h"

enum { KEYS = 64, /* of a block: a multiple of VL */ ROWS = 4 /* at a time, at most */ };

/* ---- products: for each key or value of a head, one of the next block is asked for ---- */

/* sums[row][key] += q[row][c ..] k[key][c ..], of n elements */
SIMD_INLINE void add_products(el e, int rows, const float *q, int64_t padded,
                              const char *const key[VL], int64_t c, int64_t n, vf sums[VL])
{
    const int each = VL / rows;
#pragma GCC unroll 16
    for (int i = 0; i < each; i++) {
        const vf x = n == VL ? v_load(e, key[i], c) : v_load_n(e, key[i], c, n, 0.0f);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            sums[r * each + i] += x * *(const vf_mem *)(q + r * padded + c);
    }
}

/* to[row][key] = scale * sum over d of q[row] k[key], of so many rows */
SIMD_INLINE void score_rows(el e, int rows, const float *q, const char *k, int64_t stride,
                            int64_t d, int64_t keys, float scale, float *to, few_ahead *next)
{
    const int each = VL / rows;
    const int64_t padded = fa_round_up(d, VL);
    for (int64_t j = 0; j < keys; j += each) {
        const char *key[VL];
        vf sums[VL];
        int64_t c = 0;
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            sums[i] = v_set(0.0f);
        for (int i = 0; i < each; i++)
            key[i] = k + fa_min(j + i, keys - 1) * stride;
        for (int i = 0; next && i < each; i++)
            ask(next);
        for (; c + VL <= d; c += VL)
            add_products(e, rows, q, padded, key, c, VL, sums);
        if (c < d)
            add_products(e, rows, q, padded, key, c, d - c, sums);
        const vf scores = v_sums(sums) * v_set(scale);
        for (int r = 0; r < rows; r++)
            memcpy(to + r * KEYS + j, (const float *)&scores + r * each,
                   (size_t)each * sizeof(float));
    }
}

/* o[row][c ..] += sum over keys of p[row][key] v[key][c ..], of so many vectors; n: elements of the
 * last one */
SIMD_INLINE void add_vectors(el e, int rows, int vectors, int64_t n, const float *p, const char *v,
                             int64_t stride, int64_t c, int64_t keys, float *o, int64_t padded,
                             few_ahead *next)
{
    vf sums[ROWS][4];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < vectors; i++)
            sums[r][i] = *(const vf_mem *)(o + r * padded + c + i * VL);
    for (int64_t j = 0; j < keys; j++) {
        const char *value = v + j * stride;
        if (next && c == 0)
            ask(next);
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++) {
            const vf x = n == VL ? v_load(e, value, c + i * VL) : v_load_n(e, value, c, n, 0.0f);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sums[r][i] += v_set(p[r * KEYS + j]) * x;
        }
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < vectors; i++)
            *(vf_mem *)(o + r * padded + c + i * VL) = sums[r][i];
}

SIMD_INLINE void add_values(el e, int rows, const float *p, const char *v, int64_t stride,
                            int64_t width, int64_t keys, float *o, few_ahead *next)
{
    enum { WIDE = SIMD_REGISTERS / 8 };
    const int64_t padded = fa_round_up(width, VL);
    int64_t c = 0;
    for (; c + WIDE * VL <= width; c += WIDE * VL)
        add_vectors(e, rows, WIDE, VL, p, v, stride, c, keys, o, padded, next);
    for (; c + VL <= width; c += VL)
        add_vectors(e, rows, 1, VL, p, v, stride, c, keys, o, padded, next);
    if (c < width)
        add_vectors(e, rows, 1, width - c, p, v, stride, c, keys, o, padded, next);
}

/* fn(e, rows, ...) of all rows, a constant number at a time: ROWS, then 2, then 1. */
#define EACH_ROWS(r, all, fn, ...)                                           \
    for (int64_t r = 0, left; (left = (all)-r) > 0; r += left >= ROWS ? ROWS \
                                                         : left >= 2  ? 2    \
                                                                      : 1) {  \
        if (left >= ROWS)                                                    \
            fn(e, ROWS, __VA_ARGS__);                                        \
        else if (left >= 2)                                                  \
            fn(e, 2, __VA_ARGS__);                                           \
        else                                                                 \
            fn(e, 1, __VA_ARGS__);                                           \
    }

/* ---- a block of keys ---- */

/* A piece's sums, and what it needs besides. */
typedef struct few {
    const fa_piece *piece;
    int64_t rows;               /* head by head */
    float *q, *p;               /* [rows][d]; [rows of a key head][KEYS] */
    float *max, *sums, *totals; /* [rows], [rows][e]; totals: of exponentials, [rows][VL] */
    few_ahead k, v;
} few;

/* Query i of head h, scores of n keys from k on: soft cap, bias, and -inf where it sees none. */
static void change_row(const few *f, int64_t h, int64_t i, int64_t k, int64_t n, float *p)
{
    const fa_sizes *s = f->piece->n;
    const fa_sequence *of = &f->piece->of;
    const int64_t from = i + of->lo - k, to = fa_min(n, i + of->hi - k);
    const char *bias = NULL;
    if (s->bias.data)
        bias = fa_at(&s->bias, s->bias_type, of->at.batch, of->at.query + i, h) +
               (of->at.key + k) * el_size(s->bias_type);
    for (int64_t c = 0; c < KEYS; c += VL) {
        vf x = *(const vf_mem *)(p + c);
        if (s->softcap != 0)
            x = v_set(s->softcap) * v_tanh(x / v_set(s->softcap));
        if (bias && c < n)
            x += v_load_n(s->bias_type, bias, c, fa_min(VL, n - c), 0.0f);
        const vi key = v_iota() + (int32_t)c;
        const vi seen = (key >= v_seti((int32_t)fa_max(0, fa_min(from, KEYS)))) &
                        (key < v_seti((int32_t)fa_max(0, to)));
        *(vf_mem *)(p + c) = v_select(seen, x, v_set(-INFINITY));
    }
}

static float exp_of(float x)
{
    return v_exp_normal(v_set(x))[0];
}

/* Scores of row r become probabilities. */
static void softmax_row(const few *f, int64_t r, float *p)
{
    const int64_t padded = fa_round_up(f->piece->n->e, VL);
    vf_mem *const total = (vf_mem *)(f->totals + r * VL);
    vf top = v_set(f->max[r]);
    for (int64_t c = 0; c < KEYS; c += VL)
        top = v_max(top, *(const vf_mem *)(p + c));
    const float max = v_hmax(top), base = max == -INFINITY ? 0.0f : max;
    const float factor = exp_of(f->max[r] - base);
    vf sum = *total * v_set(factor);
    for (int64_t c = 0; c < KEYS; c += VL) {
        const vf x = v_exp_normal(*(const vf_mem *)(p + c) - v_set(base));
        sum += x;
        *(vf_mem *)(p + c) = x;
    }
    *total = sum;
    f->max[r] = max;
    for (int64_t c = 0; c < padded && factor != 1.0f; c += VL) {
        vf_mem *const at = (vf_mem *)(f->sums + r * padded + c);
        *at = *at * v_set(factor);
    }
}

/* The rows of key head hk, and n keys from k on. */
SIMD_INLINE void few_head(el e, few *f, int64_t hk, int64_t k, int64_t n)
{
    const fa_piece *piece = f->piece;
    const fa_sizes *s = piece->n;
    const attention_sequence *of = &piece->of.at;
    const int64_t dp = fa_round_up(s->d, VL), ep = fa_round_up(s->e, VL), size = el_size(e);
    const int64_t rows = f->rows / s->key_heads, first = hk * rows;
    const char *keys = fa_at(piece->k, e, of->batch, of->key + k, hk);
    const char *values = fa_at(piece->v, e, of->batch, of->key + k, hk);
    EACH_ROWS(r, rows, score_rows, f->q + (first + r) * dp, keys, piece->k->row * size, s->d, n,
              s->scale, f->p + r * KEYS, r ? NULL : &f->k)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = (first + r) / of->queries, i = (first + r) % of->queries;
        change_row(f, h, i, k, n, f->p + r * KEYS);
        softmax_row(f, first + r, f->p + r * KEYS);
        if (s->dropout.least)
            drop_row(f->piece, h, i, k, n, f->p + r * KEYS);
    }
    EACH_ROWS(r, rows, add_values, f->p + r * KEYS, values, piece->v->row * size, s->e, n,
              f->sums + (first + r) * ep, r ? NULL : &f->v)
}

/* ---- a piece of the keys ---- */

int64_t fa_few_part(const fa_sizes *n, int64_t rows)
{
    return rows * (2 + fa_round_up(n->e, VL));
}

int64_t fa_few_words(const fa_sizes *n, int64_t rows)
{
    return rows * (fa_round_up(n->d, VL) + KEYS + VL);
}

SIMD_INLINE void few_begin(el e, const few *f)
{
    const fa_piece *piece = f->piece;
    const attention_sequence *of = &piece->of.at;
    const int64_t d = piece->n->d, dp = fa_round_up(d, VL);
    for (int64_t r = 0; r < f->rows; r++) {
        const char *q = fa_at(piece->q, e, of->batch, of->query + r % of->queries, r / of->queries);
        for (int64_t c = 0; c < dp; c += VL)
            *(vf_mem *)(f->q + r * dp + c) = v_load_n(e, q, c, fa_min(VL, d - c), 0.0f);
        f->max[r] = -INFINITY;
        *(vf_mem *)(f->totals + r * VL) = v_set(0.0f);
    }
    memset(f->sums, 0, (size_t)(f->rows * fa_round_up(piece->n->e, VL)) * sizeof(float));
}

/* All heads of a block before the next block, so that memory is read as it lies. */
SIMD_INLINE void few_piece(el e, few *f)
{
    const fa_piece *piece = f->piece;
    const fa_sizes *s = piece->n;
    const attention_sequence *of = &piece->of.at;
    few_begin(e, f);
    for (int64_t k = piece->begin; k < piece->end; k += KEYS) {
        const int64_t next = of->key + fa_min(k + KEYS, piece->end - 1);
        f->k = ahead_of(piece->k, fa_at(piece->k, e, of->batch, next, 0), el_size(e), s->key_heads,
                        s->d);
        f->v = ahead_of(piece->v, fa_at(piece->v, e, of->batch, next, 0), el_size(e), s->key_heads,
                        s->e);
        for (int64_t hk = 0; hk < s->key_heads; hk++)
            few_head(e, f, hk, k, fa_min(KEYS, piece->end - k));
    }
}

void fa_few_piece(const fa_piece *piece, float *scratch, float *part)
{
    const fa_sizes *n = piece->n;
    few f = {.piece = piece, .rows = n->heads * piece->of.at.queries};
    f.totals = scratch;
    f.p = f.totals + f.rows * VL;
    f.q = f.p + f.rows * KEYS;
    f.max = part;
    f.sums = part + 2 * f.rows;
    EL_SPECIALIZE(n->type, few_piece, &f);
    for (int64_t r = 0; r < f.rows; r++)
        part[f.rows + r] = v_sum(*(const vf_mem *)(f.totals + r * VL));
}

/* ---- all pieces ---- */

void fa_few_finish(const fa_piece *piece, int64_t h, int64_t count, float *parts, const fa_view *y,
                   float *lse)
{
    const fa_sizes *n = piece->n;
    const attention_sequence *s = &piece->of.at;
    const int64_t rows = n->heads * s->queries;
    const int64_t step = fa_few_part(n, rows), ep = fa_round_up(n->e, VL);
    const float sink = n->sinks ? fa_number(n->sinks_type, n->sinks, h) : -INFINITY;
    for (int64_t i = 0; i < s->queries; i++) {
        const int64_t r = h * s->queries + i, at = s->query + i;
        float *const sums = parts + 2 * rows + r * ep;
        float max = sink;
        for (int64_t c = 0; c < count; c++)
            max = parts[c * step + r] > max ? parts[c * step + r] : max;
        const float base = max == -INFINITY ? 0.0f : max;
        float total = exp_of(sink - base);
        for (int64_t c = 0; c < count; c++) {
            const vf factor = v_exp_normal(v_set(parts[c * step + r] - base));
            total += parts[c * step + rows + r] * factor[0];
            for (int64_t d = 0; d < ep; d += VL) {
                const vf term = *(const vf_mem *)(sums + c * step + d) * factor;
                *(vf_mem *)(sums + d) = c == 0 ? term : (vf)(*(vf_mem *)(sums + d)) + term;
            }
        }
        fa_store_row(n->type, fa_at(y, n->type, s->batch, at, h), n->e, sums, FA_SLICE,
                     total == 0.0f ? 0.0f : (float)n->dropout.factor / total);
        if (lse)
            lse[(s->batch * n->heads + h) * n->mask.queries + at] =
                total == 0.0f ? -INFINITY : max + logf(total);
    }
}
