/* dispatch_cards.h - what dispatch_cards.c and dispatch_rows.c share: rows of tokens on their way
 * between cards, by pieces of a rank's experts. */
#ifndef LLAMA_DISPATCH_CARDS_H
#define LLAMA_DISPATCH_CARDS_H

#include "dispatch_parts.h"
#include "ranks/cards.h"

enum { PIECES = 2 };

/* What a layer keeps: rows, G and U of these, how the operators have sorted them; on the host where
 * the rows for each expert begin among those that go out, and among those of each rank that come.
 */
typedef struct kept {
    buffer x, pre;
    char *slot, *offset, *place;
    int64_t *there, *from; /* [experts + 1], [ranks, own + 1] */
} kept;

struct on_cards {
    int64_t *counts; /* there and from, as the device has them */
    int64_t *index;  /* [ranks rows]: the expert of each row that has come */
    tg_event *read;
    void *gone[PIECES], *back[PIECES]; /* moments */
    float *ones, *factors, *dfactors;  /* [ranks rows]: 1; of what comes */
    float *own_factors, *own_dfactors; /* [rows]: sorted, of what goes out */
    char *rows, *results;              /* likewise */
    buffer dy, result;                 /* of what has come */
    kept *kept;                        /* [layers] */
};

/* Rows, from the `at`-th on. */
typedef struct span {
    int64_t at, count;
} span;

kept *kept_of(const model *m, const layer *l);
/* Where a piece of the experts of rank r begins among them. */
int64_t piece_begin(const model *m, int r, int piece);
/* Those for a piece of rank r, among the sorted ones that go out. */
span piece_going(const model *m, const kept *k, int r, int piece);
/* Those of the ranks from `first` to `last` for a piece, among all that come, which lie by
 * piece. */
span piece_come(const model *m, const kept *k, int first, int last, int piece);
span piece_come_all(const model *m, const kept *k, int piece);
/* How many rows of each expert go and come. */
void counts_begin(model *m, int active);
void counts_end(model *m, kept *k);
/* Rows of a piece and other ranks: `sorted` go out and `all` come, or the reverse, `back`. */
void piece_swap(model *m, const kept *k, int piece, const void *sorted, const void *all,
                size_t each, int back);
/* All that go out; and those of a piece that stay, to where the others come. */
void rows_sort_all(model *m, const layer *l, const array *x);
void piece_sort_own(model *m, const layer *l, const array *x, const char *all, int piece);
void rows_copy(model *m, const char *from, const char *to, tg_type type, int64_t rows,
               int64_t width);
/* What the experts here make of this rank's rows, to where the others' comes back. */
void piece_copy_own(model *m, const layer *l, int piece, int backward);
/* Factors of the slots, sorted, and the reverse: rows of one element. */
void factors_sort(model *m, const layer *l, const char *factors, const float *rows);
void factors_spread(model *m, const layer *l);

#endif
