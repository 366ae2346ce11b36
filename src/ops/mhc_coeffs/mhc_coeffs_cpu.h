/* What both directions of mhc_coeffs on the CPU share: phi as the products take it, and the
 * matrices of as many tokens as a vector has lanes. */
#ifndef TG_MHC_COEFFS_CPU_H
#define TG_MHC_COEFFS_CPU_H

#include "rows/level.h"
#include "rows/streams_chunks.h"

#define mhc_phi_pack TG_AT_LEVEL(mhc_phi_pack)
#define mhc_iterate TG_AT_LEVEL(mhc_iterate)

/* Tokens that are worked on at a time: phi is read once for all of them. */
enum { BLOCK = 16 };

/* Columns of mix: pre, post, res. */
typedef struct coeffs {
    int64_t streams, tokens, n, columns; /* n: of a stream */
    int64_t chunks;                      /* of a stream */
    int64_t iterations;
    float eps;
    float alpha[3];
    const float *bias;
    const float *phi; /* for each chunk of each stream a row of CHUNK for each column of phi */
} coeffs;

static inline coeffs coeffs_of(const tg_tensor *x, int64_t iterations, double eps,
                               const tg_tensor *bias, const tg_tensor *const alpha[3])
{
    const streams s = streams_of(x);
    coeffs c = {.streams = s.streams,
                .tokens = s.tokens,
                .n = s.rows.n,
                .columns = s.streams * (s.streams + 2),
                .chunks = (s.rows.n + CHUNK - 1) / CHUNK,
                .iterations = iterations,
                .eps = (float)eps,
                .bias = tg_data(bias)};
    for (int part = 0; part < 3; part++)
        c.alpha[part] = *(const float *)tg_data(alpha[part]);
    return c;
}

static inline int64_t coeffs_blocks(const coeffs *c)
{
    return (c->tokens + BLOCK - 1) / BLOCK;
}

/* The alpha that goes with a column. */
static inline float coeffs_alpha(const coeffs *c, int64_t column)
{
    return c->alpha[column < c->streams ? 0 : column < 2 * c->streams ? 1 : 2];
}

/* Copies phi, in the lane order of `order`, into the workspace. */
tg_status mhc_phi_pack(tg_ctx *ctx, el order, const tg_tensor *phi, coeffs *c);

/* Of a vector of tokens: logits [S, S] become matrix 0, softmax + eps of each row, and then all
 * further ones; the next stands `step` vectors behind the one before, 0: in its place. Odd steps
 * divide columns, even ones rows. */
void mhc_iterate(const coeffs *c, vf *matrix, int64_t step);

#endif
