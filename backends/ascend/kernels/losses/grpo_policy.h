/* grpo_policy.h - pieces of the tokens of a sequence: copied in, compared, summed up. Pieces follow
 * each other without overlap. */
#ifndef GRPO_POLICY_H
#define GRPO_POLICY_H

#include "grpo_token.h"

/* What pieces are copied from, and where to; NULL for what is not given. */
typedef struct grpo_memory {
    __gm__ char *old, *ref;
    int64_t old_stride, ref_stride, old_type, ref_type;
    int64_t old_at, ref_at; /* of buffers */
    __gm__ float *logp, *logp_again, *ratio, *upstream;
    int64_t ratio_stride, upstream_stride, length;
    __gm__ int64_t *selected, *rated;
    __ubuf__ int64_t *targets, *rated_targets;
    __ubuf__ float *again, *old32, *ref32;
} grpo_memory;

static inline __aicore__ void grpo_in(__ubuf__ void *dst, __gm__ void *src, int64_t bytes)
{
    asc_copy_rows_in((uint64_t)dst, src, 1, bytes, bytes, asc_round_up(bytes, 32));
}

/* kept = all bits, or none of a token that is left out: TOKENS_LEFT_OUT is the only target below
 * 0. No targets: all are kept. ASC_THEN() is left to the caller. */
static inline __aicore__ void grpo_kept(__ubuf__ int32_t *kept, __ubuf__ int64_t *targets,
                                        uint32_t n)
{
    if (!targets) {
        asc_duplicate(kept, -1, n);
        return;
    }
    asc_int642int32(kept, targets, n);
    ASC_THEN();
    asc_shiftright(kept, kept, 31, n);
    ASC_THEN();
    asc_not((__ubuf__ uint16_t *)kept, (__ubuf__ uint16_t *)kept, 2 * n);
}

/* Tokens `at` ... `at` + n of sequence b: their numbers, as f32, and which are kept, behind
 * the next ASC_THEN(). */
static inline __aicore__ void grpo_open(grpo_job *job, const grpo_memory *m, int64_t b, int64_t at,
                                        uint32_t n)
{
    const int64_t token = b * m->length + at;
    const int64_t old_size = asc_any_size(m->old_type), ref_size = asc_any_size(m->ref_type);
    asc_sync();
    grpo_in(job->logp, m->logp + token, n * 4);
    if (m->logp_again)
        grpo_in(m->again, m->logp_again + token, n * 4);
    if (m->old)
        grpo_in(ASC_UB(float, m->old_at, 0), m->old + (b * m->old_stride + at) * old_size,
                n * old_size);
    if (m->ref)
        grpo_in(ASC_UB(float, m->ref_at, 0), m->ref + (b * m->ref_stride + at) * ref_size,
                n * ref_size);
    if (m->ratio)
        grpo_in(job->ratio, m->ratio + b * m->ratio_stride + at, n * 4);
    if (m->upstream)
        grpo_in(job->each_upstream, m->upstream + b * m->upstream_stride + at, n * 4);
    if (m->selected)
        grpo_in(m->targets, m->selected + token, n * 8);
    if (m->rated)
        grpo_in(m->rated_targets, m->rated + token, n * 8);
    asc_sync();
    job->old = m->old32;
    if (m->old)
        job->old = asc_any_widen(m->old32, asc_place(m->old_at, 0), m->old_type, n);
    if (m->ref)
        job->ref = asc_any_widen(m->ref32, asc_place(m->ref_at, 0), m->ref_type, n);
    if (m->logp_again)
        asc_add(job->logp, job->logp, m->again, n);
    ASC_THEN();
    grpo_kept(job->kept, m->selected ? m->targets : 0, n);
    if (m->rated)
        grpo_kept(job->rated, m->rated_targets, n);
}

/* What the tokens of sequence b have in common. all: 1 over the number of kept tokens
 * of all sequences. */
static inline __aicore__ grpo_sequence grpo_sequence_of(grpo_job *job, const grpo_memory *m,
                                                        int64_t b, int64_t piece, float advantage,
                                                        float ratio, int64_t weighs, float weight,
                                                        float all)
{
    const int compares = (job->flags & GRPO_SEQUENCE) || job->policy == GRPO_VESPO;
    grpo_sequence s;
    s.advantage = advantage;
    s.ratio = ratio;
    s.kept = s.rated = (float)m->length;
    s.rho = 1.0f;
    s.phi = 0.0f;
    if (compares || (m->selected && (weighs == GRPO_BY_SEQUENCE || weighs == GRPO_BY_LENGTH))) {
        asc_duplicate(grpo_lanes(job, GRPO_KEPT), 0.0f, ASC_LANES);
        asc_duplicate(grpo_lanes(job, GRPO_RATED), 0.0f, ASC_LANES);
        asc_duplicate(grpo_lanes(job, GRPO_MOVED), 0.0f, ASC_LANES);
        for (int64_t at = 0; at < m->length; at += piece) {
            const uint32_t n = (uint32_t)asc_min_of(piece, m->length - at);
            grpo_open(job, m, b, at, n);
            grpo_compare(job, n);
        }
        s.kept = grpo_sum(job, GRPO_KEPT);
        s.rated = grpo_sum(job, GRPO_RATED);
    }
    if (compares) {
        const float moved = grpo_sum(job, GRPO_MOVED);
        if (job->flags & GRPO_SEQUENCE)
            s.rho = grpo_exp(job, moved / grpo_at_least_1(s.rated));
        else
            s.phi = grpo_phi(
                job, advantage,
                job->flags & GRPO_RATIO_EACH || ratio == 1.0f
                    ? moved
                    : moved + grpo_clamp(grpo_log(job, ratio), GRPO_LEAST_LOG, GRPO_MOST_LOG));
    }
    s.weight = weighs == GRPO_BY_SEQUENCE ? weight / grpo_at_least_1(s.kept)
               : weighs == GRPO_BY_LENGTH ? weight * s.kept
               : weighs == GRPO_BY_TOKEN  ? weight * all
                                          : weight;
    return s;
}

/* n losses to memory, or to the block's sums. */
static inline __aicore__ void grpo_loss_out(const grpo_job *job, int sum, __gm__ float *to,
                                            __ubuf__ float *x, float weight, uint32_t n)
{
    if (to) {
        asc_copy_ub2gm_align(to, x, n * 4);
        return;
    }
    asc_mul_scalar(x, x, weight, n);
    ASC_THEN();
    ASC_FOLD(asc_add, grpo_lanes(job, sum), x, 1, n, 0);
}

/* The part that every token of a sequence has of what reaches its rho, at TG_SEQUENCE_LEVEL. */
static inline __aicore__ float grpo_shared(grpo_job *job, const grpo_memory *m,
                                           const grpo_sequence *s, int64_t b, int64_t piece)
{
    asc_duplicate(grpo_lanes(job, GRPO_SHARED), 0.0f, ASC_LANES);
    for (int64_t at = 0; at < m->length; at += piece) {
        const uint32_t n = (uint32_t)asc_min_of(piece, m->length - at);
        grpo_open(job, m, b, at, n);
        grpo_tokens(job, s, n);
        grpo_weights(job, s, n);
        asc_mul(job->by_rho, job->by_rho, job->a, n);
        ASC_THEN();
        grpo_clear_left_out(job, job->by_rho, n);
        ASC_THEN();
        ASC_FOLD(asc_add, grpo_lanes(job, GRPO_SHARED), job->by_rho, 1, n, 0);
    }
    return grpo_sum(job, GRPO_SHARED) / grpo_at_least_1(s->rated);
}

/* The gradient of the piece that is open, in `direct`. */
static inline __aicore__ void grpo_gradient(const grpo_job *job, const grpo_sequence *s,
                                            float shared, uint32_t n)
{
    if (!(job->flags & GRPO_SEQUENCE))
        asc_add(job->direct, job->direct, job->by_rho, n);
    grpo_weights(job, s, n);
    asc_mul(job->direct, job->direct, job->a, n);
    ASC_THEN();
    grpo_clear_left_out(job, job->direct, n);
    if (job->flags & GRPO_SEQUENCE)
        asc_duplicate(job->a, shared, n);
    ASC_THEN();
    if (job->flags & GRPO_SEQUENCE) {
        grpo_keep(job->a, job->rated, n);
        ASC_THEN();
        asc_add(job->direct, job->direct, job->a, n);
    }
}

#endif
