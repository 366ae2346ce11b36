/* tools/tigon/problem/fills.h - the fills: what value each element of an input has. */
#ifndef PROBLEM_FILLS_H
#define PROBLEM_FILLS_H

#include "parts.h"

typedef struct filler {
    const problem *p;
    const pb_tensor *t;
    int type;
    uint64_t key;
    int64_t rows, cols;
    int64_t ignored;         /* ignore_index */
    const pb_tensor *target; /* for fills of logits, or NULL */
} filler;

typedef struct fill {
    const char *name;
    double (*value)(const filler *f, int64_t i); /* of element i */
} fill;

const fill *fill_by_name(const char *name); /* NULL: there is none */

/* Bits that look random, of any others. */
static inline uint64_t fill_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
