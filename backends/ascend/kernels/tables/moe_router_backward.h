/* moe_router_backward.h - a tile of gradients of logits. */
#ifndef MOE_ROUTER_BACKWARD_H
#define MOE_ROUTER_BACKWARD_H

#include "moe_router.h"

/* Of a tile of backward. */
typedef struct router_back {
    int64_t top_k, pitch, wants;
    float scale;
    __ubuf__ float *p, *d, *factor, *folds, *block, *ones, *mean, *value, *lse_factor;
    __ubuf__ int32_t *row_at, *to_lines, *rows, *offset;
    __ubuf__ float *g, *w, *other, *line, *spread;
} router_back;

/* line = what the chosen experts' rows are given; mean: what all their token's experts lose, by
 * their probabilities. Ends with ASC_THEN(). */
static inline __aicore__ void router_contributions(const router_back *b, __ubuf__ float *x)
{
    const int64_t k = b->top_k;
    const uint32_t n = (uint32_t)(k * ASC_LANES);
    const int again = (b->wants & ROUTER_RENORMALISE) != 0;
    const int sigmoid = (b->wants & ROUTER_SIGMOID) != 0;
    asc_gather(b->w, !sigmoid && !again ? b->p : x, (__ubuf__ uint32_t *)b->offset, n);
    ASC_THEN();
    if (sigmoid) { /* line = s (1 - s) */
        router_sigmoid(b->other, b->w, 1.0f, b->ones, k * ASC_LANES);
        router_sigmoid(b->w, b->w, -1.0f, b->ones, k * ASC_LANES);
        asc_mul(b->line, b->w, b->other, n);
        ASC_THEN();
        if (again) { /* value = u, line = s (1 - s) / u, w = s / u */
            ROUTER_DOWN(asc_add, b->value, b->w, k);
            asc_add_scalar(b->value, b->value, 1e-20f, ASC_LANES);
            ASC_THEN();
            ROUTER_BY_TOKEN(asc_div, b->w, b->w, b->value, k);
            ROUTER_BY_TOKEN(asc_div, b->line, b->line, b->value, k);
            ASC_THEN();
        }
    } else if (again) {
        router_softmax(b->w, b->value, k);
    }
    if (!sigmoid) {
        asc_add_scalar(b->line, b->w, 0.0f, n);
        ASC_THEN();
    }
    asc_mul(b->other, b->g, b->w, n);
    ASC_THEN();
    ROUTER_DOWN(asc_add, b->mean, b->other, k);
    if (again) {
        ROUTER_BY_TOKEN(asc_sub, b->g, b->g, b->mean, k);
        ASC_THEN();
    }
    asc_mul(b->line, b->line, b->g, n);
    asc_mul_scalar(b->mean, b->mean, -1.0f, ASC_LANES);
    ASC_THEN();
}

/* d = the gradient that comes from sums over tokens; ends with ASC_THEN(). */
static inline __aicore__ void router_from_sums(const router_back *b, __ubuf__ float *lse,
                                               int64_t rows, uint64_t left_out)
{
    const int64_t pitch = b->pitch;
    ASC_BY_COLUMN(asc_mul, b->d, b->p, b->factor, rows, pitch);
    ASC_THEN();
    ROUTER_FOLD(asc_add, asc_repeat_reduce_sum, b->value, b->d, b->folds, rows, pitch);
    asc_mul(b->other, lse, b->lse_factor, ASC_LANES);
    ASC_THEN();
    asc_sub(b->value, b->other, b->value, ASC_LANES);
    ASC_THEN();
    asc_spread(b->block, b->value, rows);
    ASC_THEN();
    for (int64_t i = 0; i < rows; i++) {
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        asc_fma(b->d + i * pitch, b->p + i * pitch, b->block + i * 8, (uint8_t)(pitch / ASC_LANES),
                1, 1, 0, 8, 8, 0);
    }
    ASC_THEN();
    for (int64_t i = 0; i < rows; i++)
        if (left_out >> i & 1)
            asc_duplicate(b->d + i * pitch, 0.0f, (uint32_t)pitch);
    ASC_THEN();
}

/* d += the lines, each element to the expert of its token, where offset has it: S reads two
 * offsets at once, and takes longer for a mask and an instruction each than V does. Ends with
 * ASC_THEN(). */
static inline __aicore__ void router_scatter(const router_back *b, int64_t rows)
{
    for (int64_t k = 0; k < b->top_k; k++) {
        const __ubuf__ uint64_t *pairs = (__ubuf__ uint64_t *)(b->offset + k * ASC_LANES);
        uint64_t pair = 0;
        asc_spread(b->spread, b->line + k * ASC_LANES, rows);
        ASC_THEN();
        for (int64_t i = 0; i < rows; i++) {
            pair = i % 2 ? pair >> 32 : pairs[i / 2];
            const int64_t lane = (int64_t)(pair & 0xffffffff) / (int64_t)sizeof(float);
            __ubuf__ float *at = b->d + lane / ASC_LANES * ASC_LANES;
            asc_set_vector_mask(0, (uint64_t)1 << lane % ASC_LANES);
            asc_add(at, at, b->spread + i * 8, 1, 1, 1, 0, 8, 8, 0);
        }
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        ASC_THEN();
    }
}

#endif
