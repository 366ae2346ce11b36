/* group_norm_rows.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* A parameter of the strip's channels, or what stands for it, as a number of each row. at,
 * scratch: as many floats. */
static inline __aicore__ void
ASC_NAME(group_rows_parameter)(__ubuf__ float *values, uint64_t staged, __gm__ void *vector,
                               int64_t is_f32, float instead, const group_strip *s, int64_t width,
                               int64_t together, __ubuf__ float *at, __ubuf__ float *scratch)
{
    const int64_t channels = s->beside * width, lines = s->lines / width;
    const int64_t each = channels * lines;
    if (!vector) {
        asc_duplicate(values, instead, (uint32_t)asc_round_up(together * each, 8));
        ASC_THEN();
        return;
    }
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)(staged, vector, is_f32, s->group * width, channels);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(values, staged, is_f32, 0.0f, asc_round_up(channels, 8));
    ASC_THEN();
    if (lines > 1)
        asc_runs_turn(values, at, scratch, each, lines, 0, -1);
    if (together > 1)
        asc_runs_turn(values, at, scratch, together * each, each, 1, each);
}

#include "group_norm_rows_forward.asc.h"

#include "group_norm_rows_backward.asc.h"
