/* flash_attention: few queries of a sequence with the bits that they have among many, where rows do
 * not know their batch. Keys and values are read once and not packed; scores, their softmax and
 * sums of values add up in the order of tiles: along d, then by pairs of keys, tile by tile. */
#include "flash_attention_cpu_few.h"
#include "simd/words.h"

#if !TILES

enum {
    KEYS = FA_KB,
    SQUARE = VL * WORD_TERMS,            /* elements of d that are transposed at once */
    ROWS = SIMD_REGISTERS == 32 ? 8 : 4, /* at a time, of scores */
    VALUE_ROWS = 4,                      /* and of sums of values */
    WIDE = SIMD_REGISTERS == 32 ? 4 : 2  /* vectors of values at a time */
};

/* Some key heads of a sequence. Rows are the queries of their heads, head by head. */
typedef struct alike {
    const fa_piece *piece;
    int64_t head, heads, rows; /* rows: of a key head */
    int64_t q_words, padded;   /* of a row: words of q, floats of sums */
    word *q;                   /* [rows][q_words] */
    float *sums, *max, *total; /* [rows][padded], [rows], [rows]: of all these heads */
    float *p;                  /* [rows of a key head][KEYS] */
    few_ahead k, v;
} alike;

/* fn(e, rows, ...) of all rows, a constant number at a time. */
#define EACH(r, all, most, fn, ...)                                              \
    for (int64_t r = 0, left; (left = (all)-r) > 0; r += left >= (most) ? (most) \
                                                         : left >= 4    ? 4      \
                                                         : left >= 2    ? 2      \
                                                                        : 1) {      \
        if (left >= (most))                                                      \
            fn(e, most, __VA_ARGS__);                                            \
        else if (left >= 4)                                                      \
            fn(e, 4, __VA_ARGS__);                                               \
        else if (left >= 2)                                                      \
            fn(e, 2, __VA_ARGS__);                                               \
        else                                                                     \
            fn(e, 1, __VA_ARGS__);                                               \
    }

/* ---- scores ---- */

/* A square of VL keys, of which `keys` are there, by n elements of d from one on. */
SIMD_INLINE void add_square(el e, int rows, int whole, const char *k, int64_t stride, int64_t keys,
                            int64_t n, const word *q, int64_t q_words, vf *sum)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        square[i] =
            whole || i < keys ? words_along(e, k + i * stride, whole ? SQUARE : n) : v_seti(0);
    v_transpose(square);
    const int64_t words = words_of(n);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        if (whole || i < words)
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                sum[r] = add_word(sum[r], q + r * q_words + i, square[i]);
}

/* p[row][key] = scale * sum over d of q[row] k[key], of keys [begin, end) of the tile at k. */
SIMD_INLINE void score_rows(el e, int rows, const alike *f, const word *q, const char *k,
                            int64_t begin, int64_t end, float *p, few_ahead *next)
{
    const fa_sizes *n = f->piece->n;
    const int64_t stride = f->piece->k->row * el_size(e);
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t keys = fa_min(end - j, VL);
        vf sum[ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            sum[r] = v_set(0.0f);
        for (int i = 0; next && i < keys; i++)
            ask(next);
        for (int64_t c = 0; c < n->d; c += SQUARE) {
            const int64_t left = fa_min(n->d - c, SQUARE);
            const char *at = k + j * stride + c * el_size(e);
            if (keys == VL && left == SQUARE)
                add_square(e, rows, 1, at, stride, VL, SQUARE, q + c / WORD_TERMS, f->q_words, sum);
            else
                add_square(e, rows, 0, at, stride, keys, left, q + c / WORD_TERMS, f->q_words, sum);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            *(vf_mem *)(p + r * KEYS + j) = sum[r] * v_set(n->scale);
    }
}

/* Scores of row r, from key k on, n of them: soft cap and bias, and -inf where it sees none. Each
 * is rounded for itself, as those of tiles are. */
static void change_row(const alike *f, int64_t h, int64_t i, int64_t k, int64_t n, float *p)
{
    const fa_sizes *s = f->piece->n;
    const fa_sequence *of = &f->piece->of;
    for (int64_t c = 0; c < KEYS && s->softcap != 0; c += VL) {
        vf_mem *const x = (vf_mem *)(p + c);
        *x = v_set(s->softcap) * v_tanh_slope(*x / v_set(s->softcap)).tanh;
    }
    if (s->bias.data) {
        const char *bias = fa_at(&s->bias, s->bias_type, of->at.batch, of->at.query + i, h) +
                           (of->at.key + k) * el_size(s->bias_type);
        for (int64_t c = 0; c < n; c += VL)
            *(vf_mem *)(p + c) =
                *(vf_mem *)(p + c) + v_load_n(s->bias_type, bias, c, fa_min(VL, n - c), 0.0f);
    }
    const int64_t from = i + of->lo - k, to = fa_min(n, i + of->hi - k);
    const vi begin = v_seti((int32_t)fa_max(0, fa_min(from, KEYS)));
    const vi end = v_seti((int32_t)fa_max(0, to));
    for (int64_t c = 0; c < KEYS; c += VL) {
        const vi key = v_iota() + (int32_t)c;
        *(vf_mem *)(p + c) =
            v_select((key >= begin) & (key < end), *(vf_mem *)(p + c), v_set(-INFINITY));
    }
}

/* ---- their softmax ---- */

/* Scores of row r become probabilities, and sums so far shrink where a score is larger. */
static void softmax_row(const alike *f, int64_t r, float *p)
{
    vf top = v_set(f->max[r]);
    for (int64_t c = 0; c < KEYS; c += VL)
        top = v_max(top, *(const vf_mem *)(p + c));
    const float max = v_hmax(top);
    const vf base = v_set(max == -INFINITY ? 0.0f : max);
    const vf factor = v_exp_normal(v_set(f->max[r]) - base);
    f->total[r] *= factor[0];
    f->max[r] = max;
    for (int64_t c = 0; c < KEYS; c += VL)
        *(vf_mem *)(p + c) = v_exp_normal(*(const vf_mem *)(p + c) - base);
    for (int64_t c = 0; c < f->padded && factor[0] != 1.0f; c += VL) {
        vf_mem *const at = (vf_mem *)(f->sums + r * f->padded + c);
        *at = *at * factor;
    }
}

/* total[row] += sums of pairs of keys, one after the other. */
SIMD_INLINE void sum_rows(el e, int rows, const float *p, float *total)
{
    (void)e;
    float sum[ROWS];
    for (int r = 0; r < rows; r++)
        sum[r] = total[r];
    for (int k = 0; k < KEYS; k += 2)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            sum[r] += p[r * KEYS + k] + p[r * KEYS + k + 1];
    for (int r = 0; r < rows; r++)
        total[r] = sum[r];
}

/* The words of a row's probabilities take their place. */
static void pack_row(float *p)
{
#if FA_PAIRS
    for (int64_t c = 0; c < KEYS; c += 2 * VL)
        *(words_mem *)((word *)p + c / 2) =
            v_pack_row(*(const vf_mem *)(p + c), *(const vf_mem *)(p + c + VL));
#else
    (void)p;
#endif
}

/* ---- sums of values ---- */

/* The words of `vectors` vectors of the rows `first` and, for pairs, `second`, or NULL; the last
 * vector has n elements. */
SIMD_INLINE void value_words(el e, int vectors, const char *first, const char *second, int64_t n,
                             vi *x)
{
    for (int i = 0; i < vectors; i++) {
        const int64_t skip = i * VL * el_size(e);
        if (PAIRS && second && n == VL && i % 2 == 0 && i + 1 < vectors) {
            pairs_across(first + skip, second + skip, (word *)(x + i));
            i++;
        } else {
            x[i] = words_across(e, first + skip, second ? second + skip : NULL, n);
        }
    }
}

/* sums[row][c ..] += sum over keys [begin, end) of p[row][key] v[key][c ..], of so many vectors. */
SIMD_INLINE void add_vectors(el e, int rows, int vectors, int64_t n, const float *p, const char *v,
                             int64_t stride, int64_t c, int64_t begin, int64_t end, float *sums,
                             int64_t padded, few_ahead *next)
{
    vf sum[VALUE_ROWS][WIDE];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < vectors; i++)
            sum[r][i] = *(const vf_mem *)(sums + r * padded + c + i * VL);
    for (int64_t j = begin; j < end; j += WORD_TERMS) {
        const char *first = v + j * stride + c * el_size(e);
        vi x[WIDE] __attribute__((aligned(64)));
        value_words(e, vectors, first, PAIRS && j + 1 < end ? first + stride : NULL, n, x);
        for (int i = 0; next && c == 0 && i < WORD_TERMS; i++)
            ask(next);
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r][i] =
                    add_word(sum[r][i], (const word *)(p + r * KEYS) + j / WORD_TERMS, x[i]);
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < vectors; i++)
            *(vf_mem *)(sums + r * padded + c + i * VL) = sum[r][i];
}

SIMD_INLINE void add_values(el e, int rows, const alike *f, const float *p, const char *v,
                            int64_t begin, int64_t end, float *sums, few_ahead *next)
{
    const int64_t width = f->piece->n->e, stride = f->piece->v->row * el_size(e);
    int64_t c = 0;
    for (; c + WIDE * VL <= width; c += WIDE * VL)
        add_vectors(e, rows, WIDE, VL, p, v, stride, c, begin, end, sums, f->padded, next);
    for (; c < width; c += VL)
        add_vectors(e, rows, 1, fa_min(VL, width - c), p, v, stride, c, begin, end, sums, f->padded,
                    next);
}

/* ---- tiles of keys ---- */

/* Key head number g of f, and the tile's keys [begin, end), of those from k on. */
SIMD_INLINE void tile_of_head(el e, alike *f, int64_t g, int64_t k, int64_t begin, int64_t end)
{
    const fa_piece *piece = f->piece;
    const fa_sizes *n = piece->n;
    const attention_sequence *of = &piece->of.at;
    const int64_t hk = f->head + g, rows = f->rows, first = g * rows;
    const char *keys = fa_at(piece->k, e, of->batch, of->key + k, hk);
    const char *values = fa_at(piece->v, e, of->batch, of->key + k, hk);
    EACH(r, rows, ROWS, score_rows, f, f->q + (first + r) * f->q_words, keys, begin / VL * VL, end,
         f->p + r * KEYS, r ? NULL : &f->k)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = hk * (n->heads / n->key_heads) + r / of->queries;
        change_row(f, h, r % of->queries, k, end, f->p + r * KEYS);
        softmax_row(f, first + r, f->p + r * KEYS);
    }
    EACH(r, rows, ROWS, sum_rows, f->p + r * KEYS, f->total + first + r)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = hk * (n->heads / n->key_heads) + r / of->queries;
        if (n->dropout.least)
            drop_row(f->piece, h, r % of->queries, k, end, f->p + r * KEYS);
        pack_row(f->p + r * KEYS);
    }
    EACH(r, rows, VALUE_ROWS, add_values, f, f->p + r * KEYS, values, begin / 2 * 2, end,
         f->sums + (first + r) * f->padded, r ? NULL : &f->v)
}

SIMD_INLINE void begin_rows(el e, const alike *f)
{
    const fa_piece *piece = f->piece;
    const fa_sizes *n = piece->n;
    const attention_sequence *of = &piece->of.at;
    for (int64_t r = 0; r < f->heads * f->rows; r++) {
        const int64_t h = f->head * (n->heads / n->key_heads) + r / of->queries;
        const char *q = fa_at(piece->q, e, of->batch, of->query + r % of->queries, h);
        const float sink = n->sinks ? fa_number(n->sinks_type, n->sinks, h) : -INFINITY;
        for (int64_t c = 0; c < n->d; c += SQUARE)
            *(words_mem *)(f->q + r * f->q_words + c / WORD_TERMS) =
                words_along(e, q + c * el_size(e), n->d - c);
        f->max[r] = sink;
        f->total[r] = sink == -INFINITY ? 0.0f : 1.0f;
    }
    memset(f->sums, 0, (size_t)(f->heads * f->rows * f->padded) * sizeof *f->sums);
}

/* All heads of a tile before the next tile, so that memory is read as it lies. */
SIMD_INLINE void all_tiles(el e, alike *f)
{
    const fa_piece *piece = f->piece;
    const fa_sizes *n = piece->n;
    const int64_t key = piece->of.at.key, size = el_size(e);
    begin_rows(e, f);
    for (int64_t k = piece->begin / KEYS * KEYS; k < piece->end; k += KEYS) {
        const int64_t next = key + fa_min(k + KEYS, piece->end - 1), batch = piece->of.at.batch;
        f->k = ahead_of(piece->k, fa_at(piece->k, e, batch, next, f->head), size, f->heads, n->d);
        f->v = ahead_of(piece->v, fa_at(piece->v, e, batch, next, f->head), size, f->heads, n->e);
        for (int64_t g = 0; g < f->heads; g++)
            tile_of_head(e, f, g, k, fa_max(0, piece->begin - k), fa_min(KEYS, piece->end - k));
    }
}

/* ---- results ---- */

static void finish_row(const alike *f, int64_t r, const fa_view *y, float *lse)
{
    const fa_sizes *n = f->piece->n;
    const attention_sequence *s = &f->piece->of.at;
    const int64_t h = f->head * (n->heads / n->key_heads) + r / s->queries;
    const int64_t at = s->query + r % s->queries;
    const float sum = f->total[r];
    const float factor = sum == 0.0f ? 0.0f : (float)n->dropout.factor / sum;
    fa_store_row(n->type, fa_at(y, n->type, s->batch, at, h), n->e, f->sums + r * f->padded,
                 FA_SLICE, factor);
    if (lse)
        lse[(s->batch * n->heads + h) * n->mask.queries + at] =
            sum == 0.0f ? -INFINITY : f->max[r] + logf(sum);
}

/* Floats of a row, all in all. */
static int64_t row_words(const fa_sizes *n)
{
    return words_of(fa_round_up(n->d, SQUARE)) + fa_round_up(n->e, VL) + 2 + KEYS;
}

int64_t fa_alike_words(const fa_sizes *n, int64_t queries)
{
    return n->heads * queries * row_words(n);
}

void fa_alike(const fa_piece *piece, int64_t head, int64_t heads, word *scratch, const fa_view *y,
              float *lse)
{
    const fa_sizes *n = piece->n;
    alike f = {.piece = piece, .head = head, .heads = heads};
    f.rows = n->heads / n->key_heads * piece->of.at.queries;
    f.q_words = words_of(fa_round_up(n->d, SQUARE));
    f.padded = fa_round_up(n->e, VL);
    f.q = scratch;
    f.sums = (float *)(scratch + heads * f.rows * f.q_words);
    f.p = f.sums + heads * f.rows * f.padded;
    f.max = f.p + f.rows * KEYS;
    f.total = f.max + heads * f.rows;
#if FA_PAIRS
    all_tiles(EL_BF16, &f);
#else
    EL_SPECIALIZE(n->type, all_tiles, &f);
#endif
    for (int64_t r = 0; r < heads * f.rows; r++)
        finish_row(&f, r, y, lse);
}

#else

int64_t fa_alike_words(const fa_sizes *n, int64_t queries)
{
    (void)n, (void)queries;
    return 0;
}

/* Matrix units add up in an order of their own: tiles take all queries. */
void fa_alike(const fa_piece *piece, int64_t head, int64_t heads, word *scratch, const fa_view *y,
              float *lse)
{
    (void)piece, (void)head, (void)heads, (void)scratch, (void)y, (void)lse;
}

#endif
