/* preference_loss.asc.c - losses of preferences from log-probabilities of sequences, or the
 * gradient of these. There is one number a sequence: pieces follow each other without overlap. */
#include "preference_formulas.h"

/* A row of numbers of any type as f32; ASC_THEN() is left to the caller. */
static inline __aicore__ __ubuf__ float *preference_in(uint64_t in, __ubuf__ float *wide,
                                                       __gm__ void *from, int64_t at, int64_t type,
                                                       uint32_t n)
{
    const int64_t size = asc_any_size(type);
    asc_copy_rows_in(in, (__gm__ char *)from + at * size, 1, n * size, n * size, 0);
    asc_sync();
    return asc_any_widen(wide, in, type, n);
}

/* to = log-probabilities from element `at` on, less those of the reference if there is one. */
static inline __aicore__ void preference_ratio(__ubuf__ float *to, uint64_t in,
                                               __ubuf__ float *wide, __gm__ void *logp,
                                               int64_t type, __gm__ void *ref, int64_t ref_type,
                                               int64_t at, uint32_t n)
{
    asc_sync();
    __ubuf__ float *x = preference_in(in, wide, logp, at, type, n);
    ASC_THEN();
    asc_add_scalar(to, x, 0.0f, n);
    asc_sync();
    if (!ref)
        return;
    x = preference_in(in, wide, ref, at, ref_type, n);
    ASC_THEN();
    asc_sub(to, to, x, n);
    asc_sync();
}

/* n numbers of f32 to elements from `at` on of a tensor of any type. wide: scratch. */
static inline __aicore__ void preference_out(__gm__ void *to, int64_t at, int64_t type,
                                             __ubuf__ float *from, __ubuf__ float *wide, uint32_t n)
{
    __ubuf__ void *out = (__ubuf__ void *)from;
    if (type != ASC_ANY_F32)
        out = (__ubuf__ void *)wide;
    if (type == ASC_ANY_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)out, from, n);
    else if (type == ASC_ANY_F16)
        asc_float2half_rn((__ubuf__ half *)out, from, n);
    asc_sync();
    const int64_t size = asc_any_size(type);
    asc_copy_rows_out((__gm__ char *)to + at * size, (uint64_t)out, 1, n * size, n * size, 0);
    asc_sync();
}

/* sign = 1 of a sequence that is preferred, else -1. Labels are compared with 0 as pairs of 32
 * bits, which are 0 as f32 where they are. */
static inline __aicore__ void preference_signs(__ubuf__ float *sign, uint64_t in,
                                               __ubuf__ float *wide, __gm__ int64_t *preferred,
                                               uint32_t n)
{
    asc_sync();
    asc_copy_rows_in(in, preferred, 1, n * 8, n * 8, 0);
    asc_sync();
    asc_int322float(wide, (__ubuf__ int32_t *)in, 2 * n);
    ASC_THEN();
    asc_abs(wide, wide, 2 * n);
    ASC_THEN();
    asc_pair_reduce_sum(sign, wide, 2 * n);
    ASC_THEN();
    asc_min_scalar(sign, sign, 1.0f, n);
    ASC_THEN();
    asc_mul_scalar(sign, sign, 2.0f, n);
    ASC_THEN();
    asc_add_scalar(sign, sign, -1.0f, n);
    ASC_THEN();
}

/* A number a loss, from `at` on, or one of all; 0 if there is none. */
static inline __aicore__ void preference_numbers(__ubuf__ float *to, __gm__ float *from, int each,
                                                 int64_t at, float otherwise, uint32_t n)
{
    asc_sync();
    if (from && each)
        asc_copy_rows_in((uint64_t)to, from + at, 1, n * 4, n * 4, 0);
    else
        asc_duplicate(to, from ? from[0] : otherwise, n);
    asc_sync();
}

/* A call: its numbers, and where a piece's lie. */
static inline __aicore__ preference preference_of(ASC_PARAMS(PREFERENCE_LOSS))
{
    const int64_t line = asc_round_up(tile_columns, 8);
    preference j = {0};
    j.formula = formula;
    j.beta = asc_f32(beta);
    j.gamma = asc_f32(gamma);
    j.p = asc_f32(p);
    j.q = asc_f32(q);
    j.r = asc_f32(r);
    j.a = ASC_SCRATCH(a);
    j.b = ASC_SCRATCH(b);
    j.kl = ASC_SCRATCH(kl);
    j.sign = ASC_SCRATCH(sign);
    j.loss = ASC_SCRATCH(loss);
    j.x = ASC_SCRATCH(x);
    j.by_a = ASC_SCRATCH(by_a);
    j.by_b = ASC_SCRATCH(by_b);
    for (int i = 0; i < 4; i++)
        j.t[i] = ASC_SCRATCH(t) + i * line;
    j.s0 = ASC_SCRATCH(t) + 4 * line;
    j.s1 = ASC_SCRATCH(t) + 5 * line;
    return j;
}

/* A row of numbers of each sequence, as those of a and of b are. */
static inline __aicore__ void preference_both_out(const preference *j, __gm__ void *to, int64_t at,
                                                  int64_t columns, int64_t sequences, int64_t type,
                                                  __ubuf__ float *a, __ubuf__ float *b,
                                                  __ubuf__ float *wide)
{
    preference_out(to, at, type, a, wide, j->n);
    if (sequences > 1)
        preference_out(to, columns + at, type, b, wide, j->n);
}

ASC_KERNEL preference_loss_f32(ASC_PARAMS(PREFERENCE_LOSS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const uint64_t in = asc_place(in_at, 0);
    __ubuf__ float *wide = ASC_SCRATCH(wide), *upstream = ASC_SCRATCH(upstream);
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *part = ASC_SCRATCH(part);
    preference j = preference_of(ASC_NAMES(PREFERENCE_LOSS));
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads kl and dloss */
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t at = tile.column;
        j.n = (uint32_t)tile.columns;
        preference_ratio(j.a, in, wide, logp, type, ref, ref_type, at, j.n);
        if (sequences > 1)
            preference_ratio(j.b, in, wide, logp, type, ref, ref_type, columns + at, j.n);
        if (preferred) {
            preference_signs(j.sign, in, wide, preferred + at, j.n);
            preference_numbers(j.kl, kl, kl_each != 0, at, 0.0f, j.n);
        }
        if (rewards) {
            asc_mul_scalar(j.by_a, j.a, j.beta, j.n);
            if (sequences > 1)
                asc_mul_scalar(j.by_b, j.b, j.beta, j.n);
            preference_both_out(&j, rewards, at, columns, sequences, ASC_ANY_F32, j.by_a, j.by_b,
                                wide);
        }
        preference_losses(&j);
        if (margin)
            preference_out(margin, at, ASC_ANY_F32, j.x, wide, j.n);
        if (loss)
            preference_out(loss, at, ASC_ANY_F32, j.loss, wide, j.n);
        if (sums) {
            preference_scale(j.loss, j.loss, asc_f32(share), j.n);
            ASC_FOLD(asc_add, lanes, j.loss, 1, j.n, 0);
            ASC_THEN();
        }
        if (!dlogp)
            continue;
        preference_numbers(upstream, dloss, dloss_each != 0, at, 1.0f, j.n);
        preference_scale(upstream, upstream, asc_f32(share), j.n);
        preference_times(j.by_a, upstream, j.n);
        if (sequences > 1)
            preference_times(j.by_b, upstream, j.n);
        preference_both_out(&j, dlogp, at, columns, sequences, type, j.by_a, j.by_b, wide);
    }
    if (sums) {
        asc_repeat_reduce_sum(part, lanes, ASC_LANES);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        asc_copy_ub2gm_align(sums + asc_get_block_idx() * sums_stride, part, 4);
    }
    asc_sync();
    asc_modes_clear();
}
