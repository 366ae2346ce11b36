/* cross_entropy_sums.asc.c - before the rows: the divisors of a mean; after them: the sums of their losses. */
#include "asc_rows.h"

/* Block b's part of n (rows not ignored), D (their weights) and W (the weights of all classes) to counts[8 b + 0, 1, 2].
 * share, class_share: rows and classes of a block; class_share 0: no W. */
ASC_KERNEL cross_entropy_count_f32(__gm__ int64_t *target, __gm__ float *class_weight,
                                   __gm__ float *counts, int64_t rows, int64_t share,
                                   int64_t classes, int64_t class_share, int64_t piece,
                                   int64_t ignore_index, int64_t w_at, int64_t lanes_at,
                                   int64_t value_at)
{
    const int64_t block = asc_get_block_idx(), end = asc_min_of((block + 1) * share, rows);
    const int64_t class_end = asc_min_of((block + 1) * class_share, classes);
    __ubuf__ float *w = ASC_UB(float, w_at, 0), *lanes = ASC_UB(float, lanes_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    float n = 0.0f, sum = 0.0f, lost = 0.0f;
    asc_init();
    asc_dcci_entire_all();
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    asc_duplicate(value, 0.0f, 8);
    asc_sync();
    for (int64_t at = block * class_share; at < class_end; at += piece) {
        const uint32_t count = (uint32_t)asc_min_of(piece, class_end - at);
        asc_copy_gm2ub_align(w, class_weight + at, count * 4);
        asc_sync();
        ASC_FOLD(asc_add, lanes, w, 1, count, 0);
        asc_sync();
    }
    asc_repeat_reduce_sum(value + 2, lanes, ASC_LANES);
    for (int64_t row = block * share; row < end; row++) {
        const int64_t y = target[row];
        if (y == ignore_index)
            continue;
        /* Kahan's sum: `lost` is what the last addition rounded off. */
        const float weight = (class_weight ? class_weight[y] : 1.0f) - lost, next = sum + weight;
        lost = next - sum - weight;
        sum = next;
        n += 1.0f;
    }
    asc_sync();
    value[0] = n;
    value[1] = sum;
    asc_sync();
    asc_copy_ub2gm_align(counts + block * 8, value, 32);
}

/* factor times the sum of `rows` floats. to may be NULL. */
static inline __aicore__ void ce_sum(__gm__ float *to, __gm__ float *from, __ubuf__ float *x,
                                     __ubuf__ float *lanes, __ubuf__ float *value, int64_t rows,
                                     int64_t piece, float factor)
{
    if (!to)
        return;
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    asc_sync();
    for (int64_t at = 0; at < rows; at += piece) {
        const uint32_t count = (uint32_t)asc_min_of(piece, rows - at);
        asc_copy_gm2ub_align(x, from + at, count * 4);
        asc_sync();
        ASC_FOLD(asc_add, lanes, x, 1, count, 0);
        asc_sync();
    }
    asc_repeat_reduce_sum(value, lanes, ASC_LANES);
    ASC_THEN();
    asc_mul_scalar(value, value, factor, 1);
    asc_sync();
    asc_copy_ub2gm_align(to, value, 4);
    asc_sync();
}

/* One block. losses, z_losses, rights: of each row; accuracy is a mean over the rows that are not ignored. */
ASC_KERNEL cross_entropy_finish_f32(__gm__ float *losses, __gm__ float *z_losses,
                                    __gm__ float *rights, __gm__ float *counts, __gm__ float *loss,
                                    __gm__ float *z_loss, __gm__ float *accuracy, int64_t rows,
                                    int64_t count_blocks, int64_t piece, int64_t w_at,
                                    int64_t lanes_at, int64_t value_at)
{
    __ubuf__ float *x = ASC_UB(float, w_at, 0), *lanes = ASC_UB(float, lanes_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    float n = 0.0f;
    asc_init();
    if (count_blocks) {
        asc_copy_gm2ub_align(value, counts, (uint32_t)(count_blocks * 32));
        asc_sync();
    }
    for (int64_t b = 0; b < count_blocks; b++)
        n += value[b * 8];
    asc_sync();
    ce_sum(loss, losses, x, lanes, value, rows, piece, 1.0f);
    ce_sum(z_loss, z_losses, x, lanes, value, rows, piece, 1.0f);
    ce_sum(accuracy, rights, x, lanes, value, rows, piece, n != 0.0f ? 1.0f / n : 0.0f);
}
