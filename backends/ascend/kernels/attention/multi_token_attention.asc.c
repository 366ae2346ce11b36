/* multi_token_attention.asc.c - the convolution of lower triangles, and what is around it: scores
 * under the mask, for the kernels of softmax and sparsemax, and sums for the gradients of the
 * parameters. Arithmetic is f32 in UB.
 *
 * A result row is a sum of rows times numbers, a row for each tap. It is copied in as far to the
 * left or right as the tap has it, so that all of them lie alike in UB; what is missing on the left
 * are zeros, by the copy's padding. */
#include "multi_token_attention.args.h"
#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"

/* Elements [column, ...) of a row of `from`, as they lie under a row of results of n elements. */
typedef struct mta_part {
    int64_t row, column, count; /* count: 0 if there is none */
    int64_t at, left;           /* where they come to lie, and zeros in front of them */
} mta_part;

/* The part that is `down` and `right` of row i. step: elements of 32 bytes. */
static inline __aicore__ mta_part mta_part_at(int64_t i, int64_t down, int64_t right,
                                              int64_t length, int64_t step)
{
    mta_part p;
    p.row = i + down;
    p.column = right > 0 ? right : 0;
    const int64_t last = asc_min_of(p.row, i + right), first = p.column - right;
    p.count = p.row < 0 || p.row >= length || last < p.column ? 0 : last - p.column + 1;
    p.at = first / step * step;
    p.left = first - p.at;
    return p;
}

/* Copies it in, from channel `channel`. */
static inline __aicore__ void mta_part_in(mta_part p, uint64_t dst, __gm__ void *tensor,
                                          int64_t stride, int64_t channel, int64_t length,
                                          int64_t size)
{
    const int64_t bytes = (p.left + p.count) * size, filled = asc_round_up(bytes, 32);
    __gm__ char *src =
        (__gm__ char *)tensor + ((channel * length + p.row) * stride + p.column) * size;
    asc_copy_gm2ub_align((__ubuf__ uint16_t *)(dst + (uint64_t)(p.at * size)),
                         (__gm__ uint16_t *)src, 1, (uint32_t)(p.count * size),
                         (uint8_t)(p.left * size / 2), (uint8_t)((filled - bytes) / 2), 0, 0);
}

#define ASC_TEMPLATE "attention/multi_token_attention.asc.h"
#include "shared/asc_each_type.h"
