/* group_norm_short.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* Lines of a number of each channel. x: a buffer of the data. */
static inline __aicore__ void
ASC_NAME(group_lines_load)(const group_lines *g, __ubuf__ float *lines, __ubuf__ float *values,
                           uint64_t x, __gm__ void *vector, int64_t is_f32, __ubuf__ float *at,
                           __ubuf__ float *scratch)
{
    const int64_t channels = g->groups * g->width;
    ASC_NAME(asc_columns_load)
    (values, x, vector, is_f32, 0.0f, channels, asc_round_up(channels, ASC_LANES));
    group_lines_spread(g, lines, values, (__ubuf__ int32_t *)at, scratch);
}

#define ASC_SHORT ASC_NAME(group_norm_forward_short)
#define ASC_SHORT_ARGS GROUP_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, x32)
#define ASC_SHORT_RESULTS ASC_WRITE(mean) ASC_WRITE(rstd)
#define ASC_SHORT_FIRST                                                                   \
    const group_lines g = group_lines_of(columns, lanes, groups, width);                  \
    if (weight)                                                                           \
        ASC_NAME(group_lines_load)                                                        \
    (&g, ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, \
     ASC_SCRATCH(sum), ASC_SCRATCH(product));                                             \
    if (bias)                                                                             \
        ASC_NAME(group_lines_load)                                                        \
    (&g, ASC_SCRATCH(shift), ASC_SCRATCH(values), asc_place(x_at, 1), bias, bias_f32,     \
     ASC_SCRATCH(sum), ASC_SCRATCH(product));
#define ASC_SHORT_TILE                                                                       \
    norm_forward_lines(ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y), ASC_UB(float, mean_at, slot), \
                       ASC_UB(float, rstd_at, slot), ASC_SCRATCH(sum), asc_f32(part),        \
                       asc_f32(eps), columns, lanes);                                        \
    if (weight)                                                                              \
        GROUP_BY_CHANNEL(asc_mul, ASC_SCRATCH(x32), ASC_SCRATCH(scale), &g);                 \
    ASC_THEN();                                                                              \
    if (bias)                                                                                \
        GROUP_BY_CHANNEL(asc_add, ASC_SCRATCH(x32), ASC_SCRATCH(shift), &g);                 \
    ASC_THEN()
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(group_norm_backward_short)
#define ASC_SHORT_ARGS GROUP_NORM_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, x32)
#define ASC_SHORT_VALUES ASC_READ(mean) ASC_READ(rstd)
#define ASC_SHORT_FIRST                                                                   \
    const group_lines g = group_lines_of(columns, lanes, groups, width);                  \
    const asc_short by_width =                                                            \
        asc_short_of(width, lanes, asc_place(width_in_at, 0), asc_place(width_out_at, 0), \
                     ASC_SCRATCH(turned_scratch));                                        \
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)(width * lanes));                 \
    asc_duplicate(ASC_SCRATCH(dbias), 0.0f, (uint32_t)(width * lanes));                   \
    if (weight)                                                                           \
        ASC_NAME(group_lines_load)                                                        \
    (&g, ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, \
     ASC_SCRATCH(sum), ASC_SCRATCH(product));
#define ASC_SHORT_TILE                                                                          \
    group_backward_lines(&g, ASC_SCRATCH(dy32), ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(dx),        \
                         ASC_UB(float, mean_at, slot), ASC_UB(float, rstd_at, slot),            \
                         ASC_SCRATCH(sum), ASC_SCRATCH(product),                                \
                         dweights ? ASC_SCRATCH(dweight) : 0, dbiases ? ASC_SCRATCH(dbias) : 0, \
                         weight ? ASC_SCRATCH(scale) : 0, asc_f32(part), count)
#define ASC_SHORT_LAST                                                                          \
    if (dweights)                                                                               \
        group_lines_out(&g, &by_width, dweights, ASC_SCRATCH(x32), ASC_SCRATCH(dweight), rest); \
    if (dbiases)                                                                                \
        group_lines_out(&g, &by_width, dbiases, ASC_SCRATCH(dy32), ASC_SCRATCH(dbias), rest);
#include "shared/asc_short.asc.h"
