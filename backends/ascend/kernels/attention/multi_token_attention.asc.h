/* multi_token_attention.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

#define MTA_STEP (32 / (int64_t)sizeof(ASC_T))

/* n elements as f32: where they are, or in `wide`. */
static inline __aicore__ __ubuf__ float *ASC_NAME(mta_wide)(__ubuf__ float *wide, __ubuf__ ASC_T *x,
                                                            int64_t n)
{
#if ASC_16BIT
    ASC_WIDEN(wide, x, (uint32_t)n);
    ASC_THEN();
    return wide;
#else
    return x;
#endif
}

static inline __aicore__ void ASC_NAME(mta_narrow)(__ubuf__ ASC_T *to, __ubuf__ float *x, int64_t n)
{
#if ASC_16BIT
    ASC_NARROW(to, x, (uint32_t)n);
#else
    asc_mul_scalar(to, x, 1.0f, (uint32_t)n);
#endif
}

ASC_KERNEL ASC_NAME(mta_mask)(ASC_PARAMS(MTA_MASK))
{
    __ubuf__ float *wide = ASC_SCRATCH(wide);
    int slot = 0;
    asc_pipeline_begin();
    for (int64_t row = asc_get_block_idx(); row < rows; row += asc_get_block_num(), slot ^= 1) {
        const int64_t n = row % columns + 1, bytes = n * (int64_t)sizeof(ASC_T);
        __ubuf__ ASC_T *x = ASC_UB(ASC_T, scores_at, slot);
        ASC_MAY_FILL(slot);
        asc_copy_rows_in((uint64_t)x, scores + row * scores_stride, 1, bytes, bytes, bytes);
        ASC_HAS_FILLED(slot);
        asc_duplicate(wide, asc_f32(0xff800000), (uint32_t)columns); /* -inf */
        ASC_THEN();
#if ASC_16BIT
        ASC_WIDEN(wide, x, (uint32_t)n);
#else
        asc_mul_scalar(wide, x, 1.0f, (uint32_t)n);
#endif
        ASC_THEN();
        ASC_HAS_READ(slot);
        ASC_MAY_WRITE(slot);
        ASC_NAME(mta_narrow)(ASC_UB(ASC_T, masked_at, slot), wide, columns);
        ASC_HAS_WRITTEN(slot);
        asc_copy_rows_out(masked + row * masked_stride, asc_place(masked_at, slot), 1,
                          columns * (int64_t)sizeof(ASC_T), 0, 0);
        ASC_HAS_LEFT(slot);
        ASC_THEN();
    }
    asc_pipeline_end();
}

/* `channels` rows of `taps` weights, `step` apart from the `first` on, as rows of f32 `pitch`
 * apart, for the scalar unit. */
static inline __aicore__ void ASC_NAME(mta_weights)(__ubuf__ float *weights, __ubuf__ float *staged,
                                                    __gm__ void *weight, int64_t is_f32,
                                                    int64_t first, int64_t step, int64_t channels,
                                                    int64_t taps, int64_t pitch)
{
    const int64_t size = is_f32 ? 4 : (int64_t)sizeof(ASC_T);
    const uint32_t n = (uint32_t)(channels * pitch);
    asc_duplicate(staged, 0.0f, n);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    for (int64_t c = 0; c < channels; c++)
        asc_copy_rows_in((uint64_t)staged + (uint64_t)(c * pitch * size),
                         (__gm__ char *)weight + (first + c * step) * size, 1, taps * size,
                         taps * size, taps * size);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_FENCE(PIPE_S, PIPE_V); /* the last ones have been read */
    ASC_NAME(asc_columns_widen)(weights, (uint64_t)staged, is_f32, 0.0f, n);
    ASC_FENCE(PIPE_V, PIPE_S);
}

ASC_KERNEL ASC_NAME(mta_convolve)(ASC_PARAMS(MTA_CONVOLVE))
{
    const int64_t taps = width * width, pitch = asc_round_up(taps, 16);
    const int64_t size = (int64_t)sizeof(ASC_T);
    __ubuf__ float *weights = ASC_SCRATCH(weights), *parameters = ASC_SCRATCH(parameters);
    __ubuf__ float *sum = ASC_SCRATCH(sum);
#if ASC_16BIT
    __ubuf__ float *wide = ASC_SCRATCH(wide);
#else
    __ubuf__ float *wide = 0;
#endif
    int slot = 0, out = 0;
    asc_clear_begin();
    asc_pipeline_begin();
    for (int64_t channel = 0; channel < rows / columns; channel++) {
        const int64_t which = channel / outs, group = which % groups, own = channel % outs;
        float plus = 0;
        ASC_NAME(mta_weights)
        (weights, ASC_SCRATCH(staged), weight, weight_f32, group * group_step + own * out_step,
         in_step, ins, taps, pitch);
        if (bias) {
            const int64_t at = (group * outs + own) * (bias_f32 ? 4 : size);
            ASC_NAME(asc_parameters)
            (parameters, parameters + 8, (__gm__ char *)bias + at, bias_f32, 1);
            plus = parameters[0];
        }
        for (int64_t i = asc_get_block_idx(); i < columns; i += asc_get_block_num(), out ^= 1) {
            asc_duplicate(sum, 0.0f, (uint32_t)columns);
            ASC_THEN();
            asc_duplicate(sum, plus, (uint32_t)(i + 1));
            ASC_THEN();
            for (int64_t t = 0; t < ins * taps; t++) {
                const int64_t c = t / taps, a = t % taps / width, b = t % width;
                const mta_part p = mta_part_at(i, sign * (a * dilation - above),
                                               sign * (b * dilation - before), columns, MTA_STEP);
                const int64_t n = p.left + p.count;
                if (!p.count)
                    continue;
                __ubuf__ ASC_T *x = ASC_UB(ASC_T, from_at, slot);
                ASC_MAY_FILL(slot);
                mta_part_in(p, (uint64_t)x, from, from_stride, which * ins + c, columns, size);
                ASC_HAS_FILLED(slot);
                asc_axpy(sum + p.at, ASC_NAME(mta_wide)(wide, x + p.at, n),
                         weights[c * pitch + t % taps], (uint32_t)n);
                ASC_HAS_READ(slot);
                ASC_THEN();
                slot ^= 1;
            }
            ASC_MAY_WRITE(out);
            ASC_NAME(mta_narrow)(ASC_UB(ASC_T, to_at, out), sum, columns);
            ASC_HAS_WRITTEN(out);
            asc_copy_rows_out(to + (channel * columns + i) * to_stride, asc_place(to_at, out), 1,
                              columns * size, 0, 0);
            ASC_HAS_LEFT(out);
            ASC_THEN();
        }
    }
    asc_pipeline_end();
}

/* lanes += the products of g with a part of a row of probabilities. */
static inline __aicore__ void ASC_NAME(mta_add_tap)(__ubuf__ float *lanes, __ubuf__ float *g,
                                                    __ubuf__ float *p, __ubuf__ ASC_T *x, int64_t n)
{
#if ASC_16BIT
    ASC_WIDEN(p, x, (uint32_t)n);
    ASC_THEN();
    asc_mul(p, p, g, (uint32_t)n);
#else
    asc_mul(p, x, g, (uint32_t)n);
#endif
    ASC_THEN();
    ASC_FOLD(asc_add, lanes, p, 1, n, 0);
    ASC_THEN();
}

ASC_KERNEL ASC_NAME(mta_parameters)(ASC_PARAMS(MTA_PARAMETERS))
{
    const int64_t taps = width * width, size = (int64_t)sizeof(ASC_T), entries = rows / columns;
    const int64_t block = asc_get_block_idx(), blocks = asc_get_block_num();
    __ubuf__ float *lanes = taps > MTA_FEW_TAPS ? ASC_SCRATCH(many_lanes) : ASC_SCRATCH(lanes);
    __ubuf__ float *sums = ASC_SCRATCH(sums), *sum = sums + MTA_TAPS + 8;
    __ubuf__ float *g = ASC_SCRATCH(g), *p = ASC_SCRATCH(p);
    __ubuf__ ASC_T *dys = ASC_UB(ASC_T, dy_at, 0);
    int slot = 0;
    asc_clear_begin();
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2); /* dy has been read */
    for (int64_t pair = 0; pair < channels * ins; pair++) {
        const int64_t o = pair / ins, c = pair % ins;
        asc_duplicate(lanes, 0.0f, (uint32_t)((taps + 1) * ASC_LANES));
        ASC_THEN();
        for (int64_t r = block; r < entries / channels * columns; r += blocks) {
            const int64_t entry = r / columns, i = r % columns, n = i + 1;
            asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
            asc_copy_rows_in((uint64_t)dys, dy + ((entry * channels + o) * columns + i) * dy_stride,
                             1, n * size, n * size, n * size);
            asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID2);
            asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID2);
#if ASC_16BIT
            ASC_WIDEN(g, dys, (uint32_t)n);
#else
            asc_mul_scalar(g, dys, 1.0f, (uint32_t)n);
#endif
            asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2);
            ASC_THEN();
            ASC_FOLD(asc_add, lanes + taps * ASC_LANES, g, 1, n, 0);
            ASC_THEN();
            for (int64_t t = 0; t < taps; t++) {
                const mta_part part = mta_part_at(i, t / width * dilation - above,
                                                  t % width * dilation - before, columns, MTA_STEP);
                const int64_t groups_in = channels / outs * ins;
                __ubuf__ ASC_T *x = ASC_UB(ASC_T, probs_at, slot);
                if (!part.count)
                    continue;
                ASC_MAY_FILL(slot);
                mta_part_in(part, (uint64_t)x, probs, probs_stride,
                            entry * groups_in + o / outs * ins + c, columns, size);
                ASC_HAS_FILLED(slot);
                ASC_NAME(mta_add_tap)
                (lanes + t * ASC_LANES, g + part.at, p, x + part.at, part.left + part.count);
                ASC_HAS_READ(slot);
                slot ^= 1;
            }
        }
        for (int64_t t = 0; t < taps; t += MTA_TAPS / 2) /* 255 repeats at once are the most */
            asc_repeat_reduce_sum(sums + t, lanes + t * ASC_LANES,
                                  (uint32_t)(asc_min_of(MTA_TAPS / 2, taps - t) * ASC_LANES));
        asc_repeat_reduce_sum(sum, lanes + taps * ASC_LANES, ASC_LANES);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (dweights)
            asc_copy_ub2gm_align(dweights + block * dweights_stride + pair * taps, sums,
                                 (uint32_t)(taps * 4));
        if (dbiases && c == 0)
            asc_copy_ub2gm_align(dbiases + block * dbiases_stride + o, sum, 4);
        ASC_FENCE(PIPE_MTE3, PIPE_V);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
    asc_pipeline_end();
}

#undef MTA_STEP
