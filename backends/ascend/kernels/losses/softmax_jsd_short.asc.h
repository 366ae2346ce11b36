/* softmax_jsd_short.asc.h - the kernel of one type; see asc_each_type.h. */

#define ASC_SHORT ASC_NAME(softmax_jsd_short)
#define ASC_SHORT_ARGS SOFTMAX_JSD_SHORT
#define ASC_SHORT_READS ASC_READ(student) ASC_READ(teacher)
#define ASC_SHORT_WRITES ASC_WRITE(dstudent, c)
#define ASC_SHORT_VALUES ASC_READ(labels)
#define ASC_SHORT_FIRST                                                                      \
    __ubuf__ float *const total = ASC_SCRATCH(total);                                        \
    sjsd_lines job = {0};                                                                    \
    asc_dcci_entire_all(); /* the scalar unit reads dloss */                                 \
    job.kind = kind;                                                                         \
    job.columns = columns;                                                                   \
    job.lanes = lanes;                                                                       \
    job.loss = sums != 0;                                                                    \
    job.writes = dstudent != 0;                                                              \
    job.scale = asc_f32(scale);                                                              \
    job.beta = asc_f32(beta);                                                                \
    job.rest = asc_f32(rest);                                                                \
    job.odds = asc_f32(odds);                                                                \
    job.log_rest = asc_f32(log_rest);                                                        \
    job.near = asc_f32(near);                                                                \
    job.u = ASC_SCRATCH(student32);                                                          \
    job.v = ASC_SCRATCH(teacher32);                                                          \
    job.t = ASC_SCRATCH(t);                                                                  \
    job.a = ASC_SCRATCH(a);                                                                  \
    job.b = ASC_SCRATCH(b);                                                                  \
    job.c = ASC_SCRATCH(c);                                                                  \
    job.numbers = ASC_SCRATCH(numbers);                                                      \
    job.mask = ASC_UB(int32_t, mask_at, 0);                                                  \
    job.factor = asc_f32(factor) * terms_share(counts, ASC_SCRATCH(counted), count_blocks) * \
                 (dloss ? dloss[0] : 1.0f);                                                  \
    asc_duplicate(total, 0.0f, ASC_LANES);                                                   \
    if (labels)                                                                              \
        terms_pattern(ASC_UB(int32_t, ignored_at, 0), ignore_index);
#define ASC_SHORT_TILE                                                      \
    if (labels)                                                             \
        terms_mask(job.mask, ASC_UB(int64_t, labels_at, slot), job.numbers, \
                   ASC_UB(int32_t, ignored_at, 0), (uint32_t)lanes);        \
    sjsd_tile(&job, labels != 0);                                           \
    if (sums) {                                                             \
        asc_short_add(total, sjsd_at(&job, SJSD_LOSS), 1, lanes, count);    \
        ASC_THEN();                                                         \
    }
#define ASC_SHORT_LAST \
    if (sums)          \
        terms_leave(sums + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), total);
#include "shared/asc_short.asc.h"
