/* dispatch_parts.h - what dispatch.c and dispatch_experts.c share. */
#ifndef LLAMA_DISPATCH_PARTS_H
#define LLAMA_DISPATCH_PARTS_H

#include "dispatch.h"

/* Memory that grows with what it is asked for. */
typedef struct buffer {
    char *at;
    size_t bytes;
} buffer;

/* What the tokens of one rank leave with a layer's experts here. */
typedef struct visit {
    int64_t rows;
    buffer x, pre, index, slot, offset, place, factors; /* factors: the tokens' weights */
} visit;

/* Messages from one rank and to it. */
typedef struct peer {
    transfers *come, *gone, *result_come, *result_gone;
    buffer dy, result, dfactors; /* of its rows */
} peer;

struct dispatch {
    int ranks, here;
    int64_t first, own;             /* experts of this rank */
    visit *visits;                  /* [layers, ranks] */
    peer *peers;                    /* [ranks] */
    int64_t *there, *counts, *none; /* [experts], [ranks, own], [experts + 1] zeros */
    int64_t *offset;                /* [experts + 1]: of the rows that go out */
    buffer rows, results;           /* what goes out and comes back, sorted by expert */
    float *factors, *dfactors;      /* [rows], likewise */
    float *ones;
    buffer dgate_up, ddown; /* of this rank's experts by its own tokens */
    struct on_cards *cards; /* in place of all that follows `own` */
};

/* Room for so many bytes, whose values may be lost. */
char *room(buffer *b, size_t bytes);

static inline size_t row_bytes(const model *m)
{
    return (size_t)m->o->width * tg_type_size(m->type);
}

static inline visit *visit_of(const model *m, const layer *l, int rank)
{
    return &m->dispatch->visits[(l - m->layers) * m->dispatch->ranks + rank];
}

/* The results of a rank's rows, as the experts give them: they meet their weights where they came
 * from. */
void dispatch_compute(model *m, layer *l, int r);
/* Gradients by a rank's rows: of these, and of the matrices, which are written. */
void dispatch_differentiate(model *m, layer *l, int r, float *dgate_up, float *ddown);

/* On cards, in dispatch_cards.c. Collected, what the host has goes to the card of rank 0. */
void dispatch_open_cards(model *m);
void dispatch_forward_cards(model *m, layer *l, int active);
void dispatch_backward_cards(model *m, layer *l, int active);
void dispatch_collect_cards(model *m);

#endif
