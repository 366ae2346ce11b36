/* cross_entropy_sums.asc.c - before the rows: the divisors of a mean; after them: the
 * sums of their losses. */
#include "cross_entropy.args.h"
#include "shared/asc_rows.h"

/* What counting rows needs in UB beside their targets. */
typedef struct ce_counter {
    __ubuf__ float *n, *sum;  /* lanes */
    __ubuf__ float *kept, *x; /* scratch */
    __ubuf__ int32_t *at;     /* scratch */
    __ubuf__ float *weights;  /* of all classes, and a 0 behind them; or 0 */
    int64_t classes;
    float ignore;
} ce_counter;

/* Adds to the lanes n how many of `rows` targets are not to be ignored, and to sum their weights.
 * Classes are exact as f32 below 2^24, and what is ignored is no class, or is one of them. */
static inline __aicore__ void ce_count(const ce_counter *c, __ubuf__ int64_t *target, uint32_t rows)
{
    const float classes = (float)c->classes;
    asc_int642float_rn(c->x, target, rows);
    ASC_THEN();
    asc_sub_scalar(c->kept, c->x, c->ignore, rows);
    ASC_THEN();
    asc_abs(c->kept, c->kept, rows);
    ASC_THEN();
    asc_min_scalar(c->kept, c->kept, 1.0f, rows);
    ASC_THEN();
    ASC_FOLD(asc_add, c->n, c->kept, 1, rows, 0);
    if (!c->weights)
        return;
    asc_sub_scalar(c->x, c->x, classes, rows);
    ASC_THEN();
    asc_mul(c->x, c->x, c->kept, rows);
    ASC_THEN();
    asc_add_scalar(c->x, c->x, classes, rows); /* of a row to be ignored: the 0 */
    ASC_THEN();
    asc_float2int32_rn(c->at, c->x, rows);
    ASC_THEN();
    asc_mul_scalar(c->at, c->at, 4, rows);
    ASC_THEN();
    asc_gather(c->x, c->weights, (__ubuf__ uint32_t *)c->at, rows);
    ASC_THEN();
    ASC_FOLD(asc_add, c->sum, c->x, 1, rows, 0);
}

/* The class weights into UB, with a 0 behind them; asc_sync() is left to the caller. */
static inline __aicore__ void ce_weights_in(__ubuf__ float *weights, __gm__ float *class_weight,
                                            int64_t classes)
{
    asc_duplicate(weights, 0.0f, (uint32_t)(classes + 1));
    asc_sync();
    asc_copy_rows_in((uint64_t)weights, class_weight, 1, classes * 4, classes * 4,
                     asc_round_up(classes * 4, 32));
}

/* The block's part of n and D to value[0] and value[1], of rows whose weights are gathered. */
static inline __aicore__ void ce_count_gathered(__ubuf__ float *lanes, __ubuf__ float *value,
                                                ASC_PARAMS(CROSS_ENTROPY_COUNT))
{
    const int64_t first = asc_get_block_idx() * share, end = asc_min_of(first + share, rows);
    __ubuf__ int64_t *targets = ASC_UB(int64_t, target_at, 0);
    ce_counter counter = {0};
    counter.n = lanes + ASC_LANES;
    counter.sum = class_weight ? lanes + 2 * ASC_LANES : counter.n;
    counter.kept = ASC_UB(float, kept_at, 0);
    counter.x = ASC_UB(float, x_at, 0);
    counter.at = ASC_UB(int32_t, index_at, 0);
    counter.weights = class_weight ? ASC_UB(float, weights_at, 0) : 0;
    counter.classes = classes;
    counter.ignore = (float)ignore_index;
    if (class_weight)
        ce_weights_in(counter.weights, class_weight, classes);
    for (int64_t at = first; at < end; at += piece) {
        const int64_t count = asc_min_of(piece, end - at);
        asc_copy_rows_in(asc_place(target_at, 0), target + at, 1, count * 8, count * 8,
                         asc_round_up(count * 8, 32));
        asc_sync();
        ce_count(&counter, targets, (uint32_t)count);
        asc_sync();
    }
    asc_repeat_reduce_sum(value, counter.n, ASC_LANES);
    asc_repeat_reduce_sum(value + 1, counter.sum, ASC_LANES);
}

/* Block b's part of n (rows not ignored), D (their weights) and W (the weights of all classes) to
 * counts[8 b + 0, 1, 2]. */
ASC_KERNEL cross_entropy_count_f32(ASC_PARAMS(CROSS_ENTROPY_COUNT))
{
    const int64_t block = asc_get_block_idx(), end = asc_min_of((block + 1) * share, rows);
    const int64_t class_end = asc_min_of((block + 1) * class_share, classes);
    __ubuf__ float *w = ASC_UB(float, x_at, 0), *lanes = ASC_UB(float, lanes_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    float n = 0.0f, sum = 0.0f, lost = 0.0f;
    asc_init();
    asc_dcci_entire_all();
    asc_set_copy_pad_val((uint16_t)0);
    asc_duplicate(lanes, 0.0f, 3 * ASC_LANES);
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
    if (gathers || (!class_weight && classes <= 1 << 24)) {
        ce_count_gathered(lanes, value, ASC_NAMES(CROSS_ENTROPY_COUNT));
        asc_sync();
        asc_copy_ub2gm_align(counts + block * 8, value, 32);
        return;
    }
    for (int64_t row = block * share; row < end; row++) {
        const int64_t y = target[row];
        if (y == ignore_index)
            continue;
        /* Kahan's sum: `lost` is what the last addition rounded off.
         * unreached: without class weights, of more than 2^24 classes */
        const float weight = (class_weight ? class_weight[y] : 1.0f) - lost, next = sum + weight;
        lost = next - sum - weight;
        sum = next;
        n += 1.0f;
    }
    /* unnoticed: V writes value[2] with the rest of its block, which the model does not have it
     * do */
    asc_sync();
    value[0] = n;
    value[1] = sum;
    asc_sync();
    asc_copy_ub2gm_align(counts + block * 8, value, 32);
}

/* factor times the sum of `rows` floats. to may be NULL. Begins with asc_sync(), as far as x, value
 * and the caller go. */
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
}

/* One block. */
ASC_KERNEL cross_entropy_finish_f32(ASC_PARAMS(CROSS_ENTROPY_FINISH))
{
    __ubuf__ float *x = ASC_UB(float, x_at, 0), *lanes = ASC_UB(float, lanes_at, 0);
    __ubuf__ float *value = ASC_UB(float, value_at, 0);
    float n = 0.0f;
    asc_init();
    if (count_blocks) {
        asc_copy_gm2ub_align(value, counts, (uint32_t)(count_blocks * 32));
        asc_sync();
    }
    for (int64_t b = 0; b < count_blocks; b++)
        n += value[b * 8];
    ce_sum(loss, losses, x, lanes, value, rows, piece, 1.0f);
    ce_sum(z_loss, z_losses, x, lanes, value, rows, piece, 1.0f);
    ce_sum(accuracy, rights, x, lanes, value, rows, piece, n != 0.0f ? 1.0f / n : 0.0f);
}
