/* src/rotary/rope.h - rope's options, for its check and its implementations. */
#ifndef TG_ROPE_H
#define TG_ROPE_H

#include "rotary/rotary.h"

typedef struct rope_options {
    int64_t rotary_dim, position_offset, rotary_start, pairing;
    int inverse; /* the transposed map: an inverse forward, or the backward of another */
} rope_options;

#define ROPE_OPTIONS(args, transposed)                                                 \
    ((rope_options){(args)->rotary_dim, (args)->position_offset, (args)->rotary_start, \
                    (args)->pairing, transposed})
#define ROPE_FORWARD(args) ROPE_OPTIONS(args, (args)->inverse != 0)
#define ROPE_BACKWARD(args) ROPE_OPTIONS(args, (args)->inverse == 0)

/* Pairs of a row of `width` elements that are turned. */
static inline int64_t rope_pairs(const rope_options *o, int64_t width)
{
    return (o->rotary_dim ? o->rotary_dim : width - o->rotary_start) / 2;
}

/* Where the elements of pair d lie, counted from rotary_start: first + d step, and
 * `apart` behind it. */
typedef struct rope_places {
    int64_t step, apart;
} rope_places;

static inline rope_places rope_places_of(int adjacent, int64_t half)
{
    return adjacent ? (rope_places){2, 1} : (rope_places){1, half};
}

/* behind: of the result, else of what is turned. */
static inline int rope_is_adjacent(const rope_options *o, int behind)
{
    return o->pairing == TG_ADJACENT ||
           (o->pairing == TG_ADJACENT_TO_HALVES && behind == (o->inverse != 0));
}

#endif
