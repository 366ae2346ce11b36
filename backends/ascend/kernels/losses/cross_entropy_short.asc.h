/* cross_entropy_short.asc.h - the kernel of one type; see asc_each_type.h. */

#define ASC_SHORT ASC_NAME(cross_entropy_short)
#define ASC_SHORT_ARGS CROSS_ENTROPY_SHORT
#define ASC_SHORT_READS ASC_READ(logits)
#define ASC_SHORT_WRITES ASC_WRITE(dlogits, logits32)
#define ASC_SHORT_VALUES ASC_READ(target) ASC_READ(each) ASC_READ(saved)
#define ASC_SHORT_RESULTS ASC_WRITE(lse) ASC_WRITE(loss) ASC_WRITE(z_loss)
#define ASC_SHORT_FIRST                                                   \
    __ubuf__ float *sums = ASC_SCRATCH(sums);                             \
    ce_job job = {0};                                                     \
    ce_lines t = {0};                                                     \
    asc_dcci_entire_all();                                                \
    job.flags = flags;                                                    \
    job.ignore_index = ignore_index;                                      \
    job.columns = columns;                                                \
    job.smoothing = asc_f32(smoothing);                                   \
    job.z = asc_f32(z);                                                   \
    job.grad_scale = asc_f32(grad_scale);                                 \
    job.scale = asc_f32(scale);                                           \
    job.unit = asc_f32(unit);                                             \
    job.batch = lanes;                                                    \
    job.lanes = ASC_SCRATCH(numbers);                                     \
    if (!ce_read_counts(&job, counts, ASC_SCRATCH(counts), count_blocks)) \
        return;                                                           \
    const float g = dloss && !each ? dloss[0] : 1.0f;                     \
    t.columns = columns;                                                  \
    t.lanes = lanes;                                                      \
    t.x = ASC_SCRATCH(logits32);                                          \
    t.others = ASC_SCRATCH(others);                                       \
    t.mask = ASC_UB(int32_t, mask_at, 0);                                 \
    t.first = ASC_UB(int32_t, first_at, 0);                               \
    asc_short_steps(t.first, 4, lanes);                                   \
    asc_duplicate(sums, 0.0f, 2 * ASC_LANES);
#define ASC_SHORT_TILE                                                                          \
    t.target = ASC_UB(int64_t, target_at, slot);                                                \
    ce_lines_targets(&job, &t);                                                                 \
    if (each)                                                                                   \
        asc_add_scalar(ce_at(&job, CE_G), ASC_UB(float, each_at, slot), 0.0f, (uint32_t)lanes); \
    else                                                                                        \
        asc_duplicate(ce_at(&job, CE_G), g, (uint32_t)lanes);                                   \
    ASC_THEN();                                                                                 \
    if (saved) {                                                                                \
        ce_lines_saved(&job, &t, ASC_UB(float, saved_at, slot));                                \
    } else {                                                                                    \
        ce_lines_forward(&job, &t);                                                             \
        ce_lines_copy(ASC_UB(float, lse_at, slot), &job, CE_ROWS_LSE);                          \
        ce_lines_copy(ASC_UB(float, loss_at, slot), &job, CE_ROWS_LOSS);                        \
        ce_lines_copy(ASC_UB(float, z_loss_at, slot), &job, CE_ROWS_Z);                         \
        ASC_THEN();                                                                             \
        asc_short_add(sums, ce_at(&job, CE_ROWS_LOSS), 1, lanes, count);                        \
        asc_short_add(sums + ASC_LANES, ce_at(&job, CE_ROWS_Z), 1, lanes, count);               \
        ASC_THEN();                                                                             \
    }                                                                                           \
    if (dlogits)                                                                                \
    ce_lines_gradient(&job, &t)
#define ASC_SHORT_LAST                                                                          \
    if (losses)                                                                                 \
        asc_short_sums_out(losses + asc_get_block_idx(), ASC_UB(float, totals_at, 0), sums, 1); \
    if (z_losses)                                                                               \
        asc_short_sums_out(z_losses + asc_get_block_idx(), ASC_UB(float, totals_at, 1),         \
                           sums + ASC_LANES, 1);
#include "shared/asc_short.asc.h"
