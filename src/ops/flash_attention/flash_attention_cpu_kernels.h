/* flash_attention on the CPU: calls, and the kernels that both directions are made of. */
#ifndef TG_FLASH_ATTENTION_CPU_KERNELS_H
#define TG_FLASH_ATTENTION_CPU_KERNELS_H

#include "flash_attention_cpu.h"

/* ---- tensors ---- */

/* A tensor [B,S,H,D]: strides in elements. */
typedef struct fa_view {
    char *data;
    int64_t batch, row, head;
} fa_view;

SIMD_INLINE char *fa_at(const fa_view *t, el e, int64_t b, int64_t s, int64_t h)
{
    return t->data + (b * t->batch + s * t->row + h * t->head) * el_size(e);
}

/* A call. d: the width of queries and keys; e: of values. */
typedef struct fa_sizes {
    el type, bias_type, sinks_type;
    attention_mask mask;
    int64_t heads, key_heads, d, e;
    float scale, softcap;
    tg_dropout dropout;
    fa_view bias;      /* [B,S,H,L]; no data: there is none */
    const void *sinks; /* [H], or NULL */
} fa_sizes;

/* ---- flash_attention_kernel.c ---- */

fa_view fa_view_of(const tg_tensor *t);
#define FA_SIZES(a)                                                                           \
    fa_sizes_of((a)->q, (a)->k, (a)->v, (a)->bias, (a)->sinks, ATTENTION_MASK(a), (a)->scale, \
                (a)->softcap, TG_DROPOUT(a))
fa_sizes fa_sizes_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                     const tg_tensor *bias, const tg_tensor *sinks, attention_mask mask,
                     double scale, double softcap, tg_dropout dropout);
/* One number of a tensor. */
float fa_number(el e, const void *data, int64_t i);
/* The last i below count whose before[i] is at most `at`. */
int64_t fa_find(const int64_t *before, int64_t count, int64_t at);
/* Queries times keys of all sequences and batches, of one head; at least 1. */
int64_t fa_pairs(const attention_mask *m);
/* Tasks that a worker takes at once, of a million products: small problems stay on one thread. */
int64_t fa_grain(int64_t products_per_task);
/* So many words for each worker; size: their bytes. */
char *fa_scratch(tg_ctx *ctx, int64_t words, int64_t *size);

/* Products: flash_attention_kernel_registers.c, flash_attention_kernel_tiles.c.
 * scores[key][query] = scale * sum over d of a[key][d] * b[d][query], where they can be seen.
 * a: layout rows of a_rows rows; b: layout lanes. */
void fa_scores(const fa_tile *t, int64_t d, const word *a, int64_t a_rows, const word *b,
               float scale, float *scores);
/* sums[query][d] += sum over keys of p[key][query] * b[key][d].
 * p: words of keys; b: layout stack of b_rows rows. sums: [slice][sum_rows][64]. */
void fa_sum_keys(const fa_tile *t, int64_t d, const word *p, const word *b, int64_t b_rows,
                 float *sums, int64_t sum_rows);
/* sums[key][d] += sum over queries of p[key][query] * b[query][d].
 * p: words of queries; b: layout stack of one tile. sums: [slice][sum_rows][64]. */
void fa_sum_queries(const fa_tile *t, int64_t d, const word *p, const word *b, float *sums,
                    int64_t sum_rows);
/* n rows of d elements to layout rows; zero rows up to `padded`. */
void fa_pack_rows(el e, const char *from, int64_t stride, int64_t n, int64_t padded, int64_t d,
                  word *to, int64_t to_rows);
/* Layout stack from layout rows. For floats they are the same and `stack` is not used. */
const word *fa_stack(const word *rows, word *stack, int64_t n, int64_t d, int64_t all_rows);
/* Layout lanes from one tile in layout rows, n rows rounded up to FA_NR. */
void fa_lanes(const word *rows, int64_t n, int64_t d, word *lanes);
/* Rows `begin` to `end` of layout rows become zero. */
void fa_clear_rows(word *rows, int64_t begin, int64_t end, int64_t d, int64_t all_rows);
/* One row of sums [slice][..][64], slice_step floats apart, times factor, to a row of a tensor. */
void fa_store_row(el e, char *to, int64_t d, const float *sums, int64_t slice_step, float factor);

/* ---- flash_attention_kernel_scores.c ---- */

/* Soft cap and bias of a tile of head h, whose first query and key are q and k of the tensors: what
 * can be seen becomes c tanh(score / c) + bias. slope: the derivative of the cap, or NULL. */
void fa_change_scores(const fa_sizes *n, const fa_tile *t, int64_t b, int64_t h, int64_t q,
                      int64_t k, float *scores, float *slope);

/* Which probabilities of a tile dropout keeps: bits of 32 keys for each query, whole such blocks of
 * the sequence. first: of the first block's keys, the tile's first. */
typedef struct fa_kept {
    int first;
    uint32_t bits[FA_KB / 32 + 1][FA_QB] __attribute__((aligned(64)));
} fa_kept;

/* Of the tile's key `key`, and of VL queries from i on: those that are kept. */
SIMD_INLINE vi fa_is_kept(const fa_kept *kept, int key, int i)
{
    const int at = kept->first + key;
    const vi bits = *(const vi_mem *)&kept->bits[at / 32][i];
    return (bits & v_seti((int32_t)(1u << at % 32))) != 0;
}

/* Which probabilities of a tile of head h are kept, whose first query and key of the sequence are q
 * and k. */
void fa_draw(const fa_sizes *n, const fa_tile *t, const attention_sequence *s, int64_t h, int64_t q,
             int64_t k, fa_kept *to);

/* ---- flash_attention_kernel_few.c ---- */

/* Keys `begin` to `end` of a sequence, against its queries of all heads: rows, head by head. */
typedef struct fa_piece {
    const fa_sizes *n;
    const fa_view *q, *k, *v;
    fa_sequence of;
    int64_t begin, end;
} fa_piece;

/* So many queries of a sequence are few: tiles would be filled to half. */
enum { FA_FEW = TILES ? 8 : FA_NR / 2 };

/* Floats of a piece's result, and of its scratch. */
int64_t fa_few_part(const fa_sizes *n, int64_t rows);
int64_t fa_few_words(const fa_sizes *n, int64_t rows);
/* part: [rows] maxima of scores, [rows] sums of exponentials, [rows][e] sums of values. */
void fa_few_piece(const fa_piece *piece, float *scratch, float *part);
/* y and lse of head h, of the parts of all pieces, one behind the other, which are used up. */
void fa_few_finish(const fa_piece *piece, int64_t h, int64_t count, float *parts, const fa_view *y,
                   float *lse);

/* ---- flash_attention_kernel_alike.c ---- */

/* The same of some key heads, all keys of the piece, with the bits that tiles have; not where
 * matrix units multiply. Words of scratch for all heads of so many queries. */
int64_t fa_alike_words(const fa_sizes *n, int64_t queries);
void fa_alike(const fa_piece *piece, int64_t head, int64_t heads, word *scratch, const fa_view *y,
              float *lse);

/* ---- flash_attention_kernel_softmax.c ---- */

/* Takes the tile's scores of the panel of FA_NR queries at i into max and sum; they become
 * probabilities, words of keys up to `filled`. factor: of the sums of earlier tiles. kept: of all
 * queries; NULL: all are. What is dropped becomes 0 when it has been summed. */
void fa_softmax(const fa_tile *t, int i, int filled, const fa_kept *kept, float *scores, float *max,
                float *sum, float *factor);
/* p, scores, become probabilities, and ds, products of dy and v, their gradients: words of queries;
 * ds_keys: of keys. slope: of the soft cap, or NULL. kept: as above. rows: lse, and `padded` floats
 * further the sums over d of dy y. */
void fa_softmax_gradient(const fa_tile *t, int i, int filled, const fa_kept *kept, float *p,
                         float *ds, word *ds_keys, const float *slope, const float *rows,
                         int64_t padded);

#endif
