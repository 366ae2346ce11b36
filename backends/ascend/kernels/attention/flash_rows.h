/* flash_rows.h - rows of scores and numbers of rows, of all kernels of attention: in, out, and
 * arithmetic on them. */
#ifndef FLASH_ROWS_H
#define FLASH_ROWS_H

#include "flash_attention.h"
#include "shared/asc_any.h"
#include "shared/asc_cap.h"

/* `rows` rows of scores come in, of n each; in UB they are whole repeats. */
static inline __aicore__ void flash_scores_in(const flash_problem *f, __ubuf__ float *to,
                                              __gm__ float *from, int64_t rows, int64_t n)
{
    asc_copy_rows_in((uint64_t)to, from, rows, 4 * n, 4 * f->tile, 4 * asc_round_up(n, ASC_LANES));
}

/* One number of each row from and to memory, where they lie `step` apart. If they are not
 * neighbours each comes with a block of 32 B of its own, its other places 0, and leaves
 * from such a block. */
static inline __aicore__ void flash_values_in(uint64_t to, __gm__ float *from, int64_t rows,
                                              int64_t step)
{
    if (step == 1)
        asc_copy_gm2ub_align((__ubuf__ float *)to, from, 1, (uint32_t)(4 * rows), 0,
                             (uint8_t)(asc_round_up(rows, 8) - rows), 0, 0);
    else
        asc_copy_rows_in(to, from, rows, 4, 4 * step, 32);
}
static inline __aicore__ void flash_values_out(__gm__ float *to, uint64_t from, int64_t rows,
                                               int64_t step)
{
    if (step == 1)
        asc_copy_ub2gm_align(to, (__ubuf__ float *)from, (uint32_t)(4 * rows));
    else
        asc_copy_rows_out(to, from, rows, 4, 4 * step, 32);
}

/* Rows of a task from `row` of them on, of `bytes`, leave UB, where they lie `pitch` bytes apart.
 * to: its first row; in: all its rows; size: bytes of an element. */
static inline __aicore__ void flash_rows_out(__gm__ void *to, asc_groups in, int64_t size,
                                             uint64_t from, int64_t row, int64_t rows,
                                             int64_t bytes, int64_t pitch)
{
    for (int64_t n; rows > 0; row += n, rows -= n, from += (uint64_t)(n * pitch)) {
        n = asc_rows_of_group(in, row, rows);
        asc_copy_rows_out((__gm__ char *)to + asc_row_at(in, row) * size, from, n, bytes,
                          in.stride * size, pitch);
    }
}

/* What came in as rows of numbers, one behind the other; values: scratch for that,
 * initialised. All lanes. */
static inline __aicore__ __ubuf__ float *flash_values(__ubuf__ float *values, __ubuf__ float *in,
                                                      int64_t rows, int64_t step)
{
    if (step == 1)
        return in;
    asc_datablock_reduce_sum(values, in, (uint32_t)(8 * rows));
    FLASH_ALL_LANES();
    ASC_THEN();
    return values;
}

/* Rows of a task from `row` of them on, of n elements of the bias each from a key on; in UB they
 * lie like scores. batch, first, head: of the task's first row. */
static inline __aicore__ void flash_bias_in(const flash_problem *f, uint64_t to, int64_t batch,
                                            int64_t first, int64_t head, int64_t key, int64_t row,
                                            int64_t rows, int64_t n)
{
    const int64_t size = asc_any_size(f->bias_type), pitch = asc_round_up(n, ASC_LANES) * size;
    const asc_groups in = flash_groups_of(f, f->of_bias);
    __gm__ char *from = f->bias + (flash_at(f->of_bias, batch, first, head) + key) * size;
    for (int64_t now; rows > 0; row += now, rows -= now, to += (uint64_t)(now * pitch)) {
        now = asc_rows_of_group(in, row, rows);
        asc_copy_rows_in(to, from + asc_row_at(in, row) * size, now, n * size, in.stride * size,
                         pitch);
    }
}

/* Whether scores become others before the softmax. */
static inline __aicore__ int flash_changes(const flash_problem *f)
{
    return f->softcap != 0.0f || f->bias;
}

/* What a core changes scores with: in UB, scratch of as many f32, of which `slope` keeps those of
 * the cap if they are wanted, and what has come of the bias. less: eight times -2c, if a cap of c
 * is to be no better than scores of 16 bits are. */
typedef struct flash_change {
    __ubuf__ float *slope, *spare, *less;
    uint64_t bias;
    int slopes;
} flash_change;

/* c tanh u as c - 2c / (E + 1), E = exp(2u), which may be infinite: to c 2^-23, however small u
 * is. */
static inline __aicore__ void flash_cap_shortly(const flash_problem *f, __ubuf__ float *s,
                                                __ubuf__ float *less, uint32_t n)
{
    asc_mul_scalar(s, s, f->inner, n);
    ASC_THEN();
    asc_exp(s, s, n);
    ASC_THEN();
    asc_add_scalar(s, s, 1.0f, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_div(s, less, s, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    ASC_THEN();
    asc_add_scalar(s, s, f->softcap, n);
    ASC_THEN();
}

/* Rows of scores, of which the first n columns count, multiplied, capped and with the bias. */
static inline __aicore__ void flash_change_rows(const flash_problem *f, const flash_change *c,
                                                __ubuf__ float *s, int64_t rows, int64_t width,
                                                int64_t n)
{
    const uint32_t all = (uint32_t)(rows * width);
    flash_band columns;
    columns.from = -rows;
    columns.to = n;
    columns.together = 1;
    columns.before = 0;
    FLASH_ALL_LANES();
    if (n < width)
        flash_mask(s, rows, width, columns, n, 0.0f);
    ASC_THEN();
    if (f->softcap == 0.0f)
        asc_mul_scalar(s, s, f->inner, all);
    else if (c->less)
        flash_cap_shortly(f, s, c->less, all);
    else
        asc_cap(s, c->slope, c->spare, s, f->inner, f->softcap, c->slopes, all);
    if (!f->bias)
        return;
    __ubuf__ float *bias = asc_any_widen(c->spare, c->bias, f->bias_type, all);
    ASC_THEN();
    asc_add(s, s, bias, all);
    ASC_THEN();
}

/* top[r] = the largest of row r; folded: scratch of 64 floats a row, or 128 where rows are longer
 * than 512, which is half of the longest. ASC_THEN() stands behind it. */
static inline __aicore__ void flash_largest(__ubuf__ float *top, __ubuf__ float *folded,
                                            __ubuf__ float *s, int64_t rows, int64_t width)
{
    const int64_t blocks = width / ASC_LANES;
    asc_datablock_reduce_max(folded, s, (uint32_t)(rows * width));
    ASC_THEN();
    if (blocks > 8) {
        asc_set_vector_mask(0, (uint64_t)-1 >> (128 - 8 * blocks));
        asc_max(folded, folded, folded + ASC_LANES, (uint8_t)rows, 1, 1, 1, (uint8_t)blocks,
                (uint8_t)blocks, (uint8_t)blocks);
        ASC_THEN();
    }
    asc_set_vector_mask(0, (uint64_t)-1 >> (64 - 8 * asc_min_of(blocks, 8)));
    asc_repeat_reduce_max_only_value(top, folded, (uint8_t)rows, 1, 1, (uint16_t)blocks);
    FLASH_ALL_LANES();
    ASC_THEN();
}

/* sum[r] = the sum of row r; folded as above. ASC_THEN() stands behind it. */
static inline __aicore__ void flash_sum_rows(__ubuf__ float *sum, __ubuf__ float *folded,
                                             __ubuf__ float *x, int64_t rows, int64_t width)
{
    const uint8_t n = (uint8_t)rows, pitch = (uint8_t)(width / 8);
    for (int64_t c = ASC_LANES; c < width; c += ASC_LANES) {
        if (c == ASC_LANES)
            asc_add(folded, x, x + c, n, 1, 1, 1, 8, pitch, pitch);
        else
            asc_add(folded, folded, x + c, n, 1, 1, 1, 8, 8, pitch);
        ASC_THEN();
    }
    asc_repeat_reduce_sum(sum, width > ASC_LANES ? folded : x, n, 1, 1, 8);
    ASC_THEN();
}

/* x[r] = factor x[r] + block r of shift, in columns of 64. */
static inline __aicore__ void flash_shift(__ubuf__ float *x, __ubuf__ float *factor,
                                          __ubuf__ float *shift, int64_t rows, int64_t width)
{
    for (int64_t c = 0; c < width; c += ASC_LANES)
        asc_mul_add(x + c, factor, shift, (uint8_t)rows, 1, 0, 0, (uint8_t)(width / 8), 0, 1);
}

/* lanes[r] = lanes[r] times block r + x[r] folded. */
static inline __aicore__ void flash_fold(__ubuf__ float *lanes, __ubuf__ float *block,
                                         __ubuf__ float *x, int64_t rows, int64_t width)
{
    asc_mul(lanes, lanes, block, (uint8_t)rows, 1, 1, 0, 8, 8, 1);
    ASC_THEN();
    for (int64_t r = 0; r < rows; r++)
        asc_add(lanes + r * ASC_LANES, x + r * width, lanes + r * ASC_LANES,
                (uint8_t)(width / ASC_LANES), 1, 1, 1, 0, 8, 0);
}

#endif
