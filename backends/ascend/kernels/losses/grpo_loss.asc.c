/* grpo_loss.asc.c - from log-probabilities of tokens to losses, or to the gradient of
 * log-probabilities; and log-probabilities by saved lse. There is one number a token here, against
 * V logits in the launches beside: pieces of tokens follow each other without overlap. A block has
 * whole sequences, and leaves its part of a sum; a second launch adds the parts in their order. */
#include "cross_entropy_gradient.h"
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

ASC_KERNEL grpo_policy_f32(ASC_PARAMS(GRPO_POLICY))
{
    grpo_job job = {0};
    grpo_memory m = {0};
    (void)tile_rows;
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads advantages, ratios, upstream */
    job.policy = policy;
    job.flags = flags;
    job.forward = !dlogp;
    job.has_old = old_logp != 0;
    job.has_ref = ref_logp != 0;
    job.beta = asc_f32(beta);
    job.low = asc_f32(low);
    job.high = asc_f32(high);
    job.delta = asc_f32(delta);
    job.pos = asc_f32(pos);
    job.neg = asc_f32(neg);
    job.lambda_pos = asc_f32(lambda_pos);
    job.lambda_neg = asc_f32(lambda_neg);
    job.upstream = dloss && !(flags & GRPO_DLOSS_EACH) ? dloss[0] : 1.0f;
    job.logp = ASC_SCRATCH(logp);
    job.ratio = ASC_SCRATCH(ratio);
    job.each_upstream = ASC_SCRATCH(upstream);
    job.rho = ASC_SCRATCH(rho);
    job.loss = ASC_SCRATCH(loss);
    job.kl = ASC_SCRATCH(kl);
    job.clipped = ASC_SCRATCH(clipped);
    job.direct = ASC_SCRATCH(direct);
    job.by_rho = ASC_SCRATCH(by_rho);
    job.a = ASC_SCRATCH(a);
    job.b = ASC_SCRATCH(b);
    job.kept = ASC_UB(int32_t, kept_at, 0);
    job.rated = rated ? ASC_UB(int32_t, rated_at, 0) : job.kept;
    job.lanes = ASC_SCRATCH(lanes);
    job.value = ASC_SCRATCH(value);
    const float all = terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    asc_sync(); /* the memory becomes that of the next */
    const float again = terms_share(again_counts, ASC_SCRATCH(counted), again_blocks);
    m.old = (__gm__ char *)old_logp;
    m.ref = (__gm__ char *)ref_logp;
    m.old_stride = old_logp_stride;
    m.ref_stride = ref_logp_stride;
    m.old_type = old_type;
    m.ref_type = ref_type;
    m.old_at = old_in_at;
    m.ref_at = ref_in_at;
    m.logp = logp;
    m.logp_again = again_blocks && again != 0.0f ? logp_again : 0;
    m.ratio = flags & GRPO_RATIO_EACH ? is_ratio : 0;
    m.ratio_stride = is_ratio_stride;
    m.upstream = flags & GRPO_DLOSS_EACH ? dloss : 0;
    m.upstream_stride = dloss_stride;
    m.length = columns;
    m.selected = selected;
    m.rated = rated;
    m.targets = ASC_UB(int64_t, selected_at, 0);
    m.rated_targets = rated ? ASC_UB(int64_t, rated_in_at, 0) : 0;
    m.again = ASC_SCRATCH(again);
    m.old32 = ASC_SCRATCH(old);
    m.ref32 = ASC_SCRATCH(ref);
    for (int i = GRPO_LOSS; i <= GRPO_CLIPPED; i++)
        asc_duplicate(grpo_lanes(&job, i), 0.0f, ASC_LANES);
    for (int64_t b = asc_get_block_idx(); b < rows; b += asc_get_block_num()) {
        const grpo_sequence s = grpo_sequence_of(
            &job, &m, b, tile_columns, advantages[b],
            is_ratio && !(flags & GRPO_RATIO_EACH) ? is_ratio[b * is_ratio_stride] : 1.0f, weighs,
            asc_f32(weight), all);
        const float shared =
            dlogp && (flags & GRPO_SEQUENCE) ? grpo_shared(&job, &m, &s, b, tile_columns) : 0.0f;
        for (int64_t at = 0; at < columns; at += tile_columns) {
            const uint32_t n = (uint32_t)asc_min_of(tile_columns, columns - at);
            grpo_open(&job, &m, b, at, n);
            grpo_tokens(&job, &s, n);
            if (dlogp) {
                grpo_gradient(&job, &s, shared, n);
                asc_sync();
                asc_copy_ub2gm_align(dlogp + b * columns + at, job.direct, n * 4);
                continue;
            }
            grpo_clear_left_out(&job, job.loss, n);
            grpo_clear_left_out(&job, job.clipped, n);
            if (ref_logp)
                grpo_clear_left_out(&job, job.kl, n);
            asc_sync();
            grpo_loss_out(&job, GRPO_LOSS, loss ? loss + b * loss_stride + at : loss, job.loss,
                          s.weight, n);
            grpo_loss_out(&job, GRPO_CLIPPED, clipped ? clipped + b * clipped_stride + at : clipped,
                          job.clipped, 1.0f, n);
            if (ref_logp)
                grpo_loss_out(&job, GRPO_KL, kl ? kl + b * kl_stride + at : kl, job.kl, 1.0f, n);
        }
    }
    if (sums)
        for (int i = 0; i < 3; i++) {
            asc_sync();
            terms_leave(sums + asc_get_block_idx() * GRPO_SUMS + i * TERMS_PARTIAL, job.value,
                        grpo_lanes(&job, GRPO_LOSS + i));
        }
    asc_modes_clear();
}

ASC_KERNEL grpo_total_f32(ASC_PARAMS(GRPO_TOTAL))
{
    __ubuf__ float *copy = ASC_SCRATCH(sums), *value = ASC_SCRATCH(value);
    float total[3] = {0.0f, 0.0f, 0.0f};
    (void)rows;
    (void)columns;
    (void)tile_rows;
    (void)tile_columns;
    asc_modes_set();
    const float share = asc_f32(mean) * terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    if (blocks > 0)
        asc_copy_gm2ub_align(copy, sums, (uint32_t)(blocks * GRPO_SUMS * 4));
    asc_sync();
    for (int64_t b = 0; b < blocks; b++)
        for (int i = 0; i < 3; i++)
            total[i] += copy[b * GRPO_SUMS + i * TERMS_PARTIAL];
    value[0] = total[0];
    value[TERMS_PARTIAL] = total[1] * share;
    value[2 * TERMS_PARTIAL] = total[2] * share;
    asc_sync();
    asc_copy_ub2gm_align(loss, value, 4);
    if (kl)
        asc_copy_ub2gm_align(kl, value + TERMS_PARTIAL, 4);
    if (clipped)
        asc_copy_ub2gm_align(clipped, value + 2 * TERMS_PARTIAL, 4);
    asc_modes_clear();
}

#define ASC_TEMPLATE "losses/grpo_loss.asc.h"
#include "shared/asc_each_type.h"
