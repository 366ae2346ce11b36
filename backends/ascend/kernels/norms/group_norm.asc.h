/* group_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* A parameter of the channels of a tile as f32, or what stands for it; as blocks. wide: scratch. */
static inline __aicore__ void ASC_NAME(group_norm_blocks)(__ubuf__ float *blocks,
                                                          __ubuf__ float *wide, uint64_t staged,
                                                          int there, int64_t is_f32, float instead,
                                                          int64_t values)
{
    const int64_t n = asc_round_up(values, 8);
    if (there)
        ASC_NAME(asc_columns_widen)(wide, staged, is_f32, 0.0f, n);
    else
        asc_duplicate(wide, instead, (uint32_t)n);
    ASC_THEN();
    asc_spread(blocks, wide, values);
    ASC_THEN();
}

#include "group_norm_forward.asc.h"

#include "group_norm_backward.asc.h"
